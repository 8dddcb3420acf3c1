// scaled_dot_product_attention, einsum and their gradients; stock's fused kernels stay out of reach.
#include <torch/csrc/autograd/autograd.h>
#include <torch/csrc/autograd/function.h>

#include <limits>
#include <string>

#include "operator_cases.h"

namespace isobit::test {
namespace {

Tensor attend(const Tensors& t, const std::optional<Tensor>& mask, bool causal) {
  return at::scaled_dot_product_attention(t[0], t[1], t[2], mask, 0.0, causal);
}

TEST(Attention, ValuesGradientsThreadsStridesAndStockBack) {
  at::manual_seed(110);
  const Tensors qkv{at::randn({2, 3, 9, 8}), at::randn({2, 3, 13, 8}), at::randn({2, 3, 13, 8})};
  const Tensors square{at::randn({2, 3, 9, 8}), at::randn({2, 3, 9, 8}), at::randn({2, 3, 9, 8})};
  const Tensor keep = at::ones({9, 13}, at::kBool).tril(2), none = at::ones({9, 13}, at::kBool).tril(-2);
  const auto there = [](const Tensor& mask, const Tensors& like) { return mask.to(like[0].device()); };
  Tensors biased = qkv;
  biased.push_back(at::randn({9, 13}));
  const Case cases[] = {
      {"plain", qkv, [](const Tensors& t) { return attend(t, {}, false); }},
      {"causal", square, [](const Tensors& t) { return attend(t, {}, true); }},
      {"masked", qkv, [=](const Tensors& t) { return attend(t, there(keep, t), false); }},
      {"rows without keys", qkv, [=](const Tensors& t) { return attend(t, there(none, t), false); }},
      {"biased", biased, [](const Tensors& t) { return attend(t, t[3], false); }},
      {"scaled", qkv,
       [](const Tensors& t) { return at::scaled_dot_product_attention(t[0], t[1], t[2], {}, 0.0, false, 0.3); }},
      {"einsum",
       {at::randn({2, 3, 4}), at::randn({2, 4, 5})},
       [](const Tensors& t) {
         return at::einsum("bij,bjk->bik", {t[0], t[1]});
       }},
      {"einsum of three",
       {at::randn({3, 4}), at::randn({4, 5}), at::randn({5, 6})},
       [](const Tensors& t) {
         return at::einsum("ij,jk,kl->il", {t[0], t[1], t[2]});
       }},
      {"einsum of heads",
       {at::randn({2, 5, 3, 4}), at::randn({2, 6, 3, 4})},
       [](const Tensors& t) {
         return at::einsum("bqhd,bkhd->bhqk", {t[0], t[1]});
       }},
  };
  for (const Case& c : cases) check(c);
}

TEST(Attention, IsItsComposition) {
  at::manual_seed(111);
  const Tensor q = at::randn({2, 5, 16}), k = at::randn({2, 7, 16}), v = at::randn({2, 7, 16});
  const aten::OperatorSwitch on;
  const Tensor factor = at::scalar_tensor(0.5, at::kFloat);  // 16 to the power -1/4
  const Tensor weights = at::softmax(q.mul(factor).matmul(k.transpose(-2, -1).mul(factor)), -1);
  EXPECT_TRUE(same_bits(at::scaled_dot_product_attention(q, k, v), weights.matmul(v)));
}

// What nobody takes apart: grouped heads, though each group has one.
Tensor composition(const Tensor& q, const Tensor& k, const Tensor& v, const std::optional<Tensor>& mask = {},
                   bool causal = false, std::optional<double> scale = {}) {
  return at::scaled_dot_product_attention(q, k, v, mask, 0.0, causal, scale, true);
}

// The blocked form against the composition.
TEST(Attention, BlocksOfRowsAreTheComposition) {
  at::manual_seed(113);
  Tensor hostile = at::randn({2, 3, 70, 8}), masked = at::randn({1, 2, 5, 4});
  hostile.view({-1})[5] = std::numeric_limits<float>::infinity();
  hostile.view({-1})[3000] = std::numeric_limits<float>::quiet_NaN();
  masked.select(2, 0).fill_(-std::numeric_limits<float>::infinity());
  const Tensors cases[] = {
      {at::randn({2, 2, 60, 8}), at::randn({2, 2, 2500, 8}), at::randn({2, 2, 2500, 5})},
      {at::randn({2, 3, 130, 8}), at::randn({2, 3, 600, 8}), at::randn({2, 3, 600, 5})},
      {at::randn({2, 70, 3, 8}).transpose(1, 2), hostile, at::randn({2, 3, 8, 70}).transpose(2, 3)},
      {hostile, at::randn({2, 3, 70, 8}), hostile},
      {masked, at::ones({1, 2, 5, 4}), at::randn({1, 2, 5, 4})},
      {at::randn({1, 1, 1, 1}), at::randn({1, 1, 3, 1}), at::randn({1, 1, 3, 1})}};
  const aten::OperatorSwitch on;
  for (const Tensors& t : cases) {
    for (const bool causal : {false, true}) {
      for (const std::optional<double> scale :
           {std::optional<double>{}, std::optional<double>{0.37}, std::optional<double>{0.0}}) {
        const Tensor q = t[0].detach().requires_grad_(true);
        const Tensor composed = composition(q, t[1], t[2], {}, causal, scale);
        ASSERT_TRUE(composed.requires_grad());
        for (const int threads : {1, 3}) {
          const kernels::ThreadCountScope count(threads);
          const Tensor blocked = at::scaled_dot_product_attention(t[0], t[1], t[2], {}, 0.0, causal, scale);
          EXPECT_TRUE(same_bits(blocked, composed.detach())) << t[0].sizes() << causal << scale.value_or(-1);
        }
      }
    }
  }
}

// Masks of every form, broadcast, strided and hostile: blocks against the composition.
TEST(Attention, MaskedBlocksAreTheComposition) {
  at::manual_seed(114);
  const float infinity = std::numeric_limits<float>::infinity();
  const Tensors t{at::randn({2, 3, 70, 8}), at::randn({2, 3, 1100, 8}), at::randn({2, 3, 1100, 5})};
  Tensor hostile = at::randn({2, 3, 70, 1100}).masked_fill_(at::rand({2, 3, 70, 1100}) < 0.3, -infinity);
  hostile.view({-1})[7] = infinity, hostile.view({-1})[2000] = std::numeric_limits<float>::quiet_NaN();
  hostile.select(2, 5).fill_(-infinity), hostile.select(2, 6).fill_(-0.0);
  const Tensor keep = at::rand({2, 1, 70, 1100}) < 0.5;
  Tensor none = keep.clone();
  none.select(2, 3).fill_(false);
  const Tensor masks[] = {hostile,
                          at::randn({70, 1100}),
                          at::randn({1100}),
                          at::randn({3, 1, 1100}),
                          at::randn({2, 1, 1, 1100}),
                          at::randn({1100, 70}).t(),
                          at::randn({1, 1, 1, 1}),
                          at::randn({2, 1, 70, 2200}).slice(3, 0, 2200, 2),
                          keep,
                          none,
                          at::ones({70, 1100}, at::kBool).tril(3),
                          keep.slice(2, 0, 1).expand({2, 3, 70, 1100}),
                          at::zeros({1, 1}, at::kBool)};
  const aten::OperatorSwitch on;
  for (const Tensor& mask : masks) {
    for (const std::optional<double> scale : {std::optional<double>{}, std::optional<double>{0.37}}) {
      const Tensor q = t[0].detach().requires_grad_(true);
      const Tensor composed = composition(q, t[1], t[2], mask, false, scale);
      ASSERT_TRUE(composed.requires_grad());
      for (const int threads : {1, 3}) {
        const kernels::ThreadCountScope count(threads);
        const Tensor blocked = at::scaled_dot_product_attention(t[0], t[1], t[2], mask, 0.0, false, scale);
        EXPECT_TRUE(same_bits(blocked, composed.detach())) << mask.sizes() << mask.scalar_type() << scale.value_or(-1);
      }
    }
  }
  // What the blocked form does not take ends as the composition ends it.
  expect_throws([&] { at::scaled_dot_product_attention(t[0], t[1], t[2], at::randn({70, 9})); }, "");
  expect_throws([&] { at::scaled_dot_product_attention(t[0], t[1], t[2], at::randn({70, 1100}), 0.0, true); }, "");
}

// Values and gradients of one node of the graph, where there is one, and of the composition.
using Form = Tensor (*)(const Tensor&, const Tensor&, const Tensor&, const std::optional<Tensor>&, bool,
                        std::optional<double>);
Tensor in_blocks(const Tensor& q, const Tensor& k, const Tensor& v, const std::optional<Tensor>& mask, bool causal,
                 std::optional<double> scale) {
  return at::scaled_dot_product_attention(q, k, v, mask, 0.0, causal, scale);
}
struct AttentionCase {
  Tensors inputs;
  std::optional<Tensor> mask;
  bool causal = false;
  std::optional<double> scale;
};
Tensors with_gradients(Form form, const AttentionCase& c, unsigned wanted, const Tensor& dy, bool twice) {
  Tensors leaves, inputs;
  for (std::size_t i = 0; i < 3; ++i) {
    leaves.push_back(c.inputs[i].detach().requires_grad_((wanted >> i & 1) != 0));
    inputs.push_back(leaves.back());
  }
  const Tensor y = form(inputs[0], inputs[1], inputs[2], c.mask, c.causal, c.scale);
  Tensors asked, results{y};
  for (const Tensor& leaf : leaves)
    if (leaf.requires_grad()) asked.push_back(leaf);
  Tensors gradients = torch::autograd::grad({y}, asked, {dy.expand(y.sizes())}, true, twice);
  results.insert(results.end(), gradients.begin(), gradients.end());
  if (twice) {
    Tensors again, seeds;
    for (const Tensor& g : gradients) {
      if (!g.requires_grad()) continue;  // linear in what is asked for
      again.push_back(g), seeds.push_back(at::ones({}).expand(g.sizes()));
    }
    if (again.empty()) return results;
    for (const Tensor& second : torch::autograd::grad(again, asked, seeds, false, false, true))
      if (second.defined()) results.push_back(second);
  }
  return results;
}
void expect_the_compositions(const AttentionCase& c, const Tensor& dy, const std::string& what) {
  for (const unsigned wanted : {7u, 1u, 2u, 4u, 5u}) {
    for (const bool twice : {false, true}) {
      const Tensors expected = with_gradients(composition, c, wanted, dy, twice);
      for (const int threads : {1, 3}) {
        const kernels::ThreadCountScope count(threads);
        const Tensors found = with_gradients(in_blocks, c, wanted, dy, twice);
        ASSERT_EQ(found.size(), expected.size()) << what;
        for (std::size_t i = 0; i < found.size(); ++i) {
          EXPECT_TRUE(same_bits(found[i].detach(), expected[i].detach()))
              << what << ", wanted " << wanted << ", twice " << twice << ", result " << i;
        }
      }
    }
  }
}

TEST(Attention, OneNodeHasTheCompositionsGradients) {
  at::manual_seed(115);
  const float infinity = std::numeric_limits<float>::infinity();
  Tensor hostile = at::randn({2, 3, 40, 8}), far = at::randn({2, 3, 40, 8}) * 1e3;
  hostile.view({-1})[5] = infinity, hostile.view({-1})[1000] = std::numeric_limits<float>::quiet_NaN();
  Tensor none = at::rand({2, 1, 40, 40}) < 0.5;
  none.select(2, 3).fill_(false);
  const Tensor plain = at::randn({2, 3, 40, 8}), wide = at::randn({2, 40, 3, 24});
  const auto part = [&](std::int64_t i) { return wide.narrow(3, 8 * i, 8).transpose(1, 2); };
  const AttentionCase cases[] = {
      {{plain, at::randn({2, 3, 40, 8}), at::randn({2, 3, 40, 5})}, {}, false, {}},
      {{part(0), part(1), part(2)}, {}, true, {}},
      {{at::randn({1, 1, 1, 1}), at::randn({1, 1, 3, 1}), at::randn({1, 1, 3, 2})}, {}, false, 0.37},
      {{at::randn({1, 2, 300, 4}), at::randn({1, 2, 700, 4}), at::randn({1, 2, 700, 3})}, {}, true, {}},
      {{at::randn({1, 1, 600, 4}), at::randn({1, 1, 9, 4}), at::randn({1, 1, 9, 3})}, {}, true, 0.0},
      {{plain, plain.neg(), far}, at::rand({3, 1, 40}) < 0.9, false, {}},
      {{plain, far, plain.neg()}, at::randn({40, 40}), false, {}},
      {{plain, hostile, plain.neg()}, {}, false, {}},
      {{hostile, plain, plain.neg()}, {}, true, {}},
      {{plain, plain.neg(), hostile}, {}, true, {}},
      {{far, plain, plain.neg()}, none, false, {}},
      {{at::_neg_view(plain), plain.neg(), at::_neg_view(far)}, {}, false, {}}};
  const aten::OperatorSwitch on;
  std::size_t number = 0;
  for (const AttentionCase& c : cases) {
    const Tensor &q = c.inputs[0], &v = c.inputs[2];
    const std::string what = "case " + std::to_string(number++);
    const Tensor dy = at::randn({q.size(0), q.size(2), q.size(1), v.size(3)}).transpose(1, 2);
    expect_the_compositions(c, dy, what);
    expect_the_compositions(c, at::ones({}), what + ", one gradient");
    Tensor bad = dy.clone();
    bad.select(0, 0).select(0, 0)[0][0] = infinity;
    expect_the_compositions(c, bad, what + ", infinite gradient");
  }
}

// Of one tensor twice or thrice gradients are added in the engine's order, which is the composition's.
TEST(Attention, SharedInputs) {
  at::manual_seed(116);
  const Tensor x = at::randn({2, 2, 9, 4}), dy = at::randn({2, 2, 9, 4}), other = at::randn({2, 2, 9, 4});
  const aten::OperatorSwitch on;
  for (int places = 1; places < 8; ++places) {
    for (const bool leaf : {false, true}) {
      Tensor found[2];
      for (const bool blocks : {false, true}) {
        const Tensor given = x.detach().requires_grad_(true), shared = leaf ? given : given.mul(1.5);
        const auto at_place = [&](int i) { return (places >> i & 1) != 0 ? shared : other; };
        const Tensor y = (blocks ? in_blocks : composition)(at_place(0), at_place(1), at_place(2), {}, false, {});
        found[blocks] = torch::autograd::grad({y, shared.sin()}, {given}, {dy, other})[0];
      }
      EXPECT_TRUE(same_bits(found[0], found[1])) << places << leaf;
    }
  }
}

TEST(Attention, OneNodeStandsInTheGraph) {
  const Tensor q = at::ones({1, 1, 4, 8}).requires_grad_(true), k = at::ones({1, 1, 4, 8});
  Tensor y;
  {
    const aten::OperatorSwitch on;
    y = at::scaled_dot_product_attention(q, k, k);
    EXPECT_EQ(y.grad_fn()->next_edge(0).function->next_edges().size(), 0u);  // the leaf's accumulator
    EXPECT_NE(composition(q, k, k).grad_fn()->next_edge(0).function->next_edges().size(), 0u);
  }
  expect_throws([&] { y.sum().backward(); }, "was recorded with isobit on");
  const aten::OperatorSwitch on;
  y = at::scaled_dot_product_attention(q, k, k);
  q.detach().mul_(2.0);  // what was saved is written to: as PyTorch says it
  expect_throws([&] { y.sum().backward(); }, "modified by an inplace operation");
}

TEST(Attention, DropoutDrawsFromTheDefaultGenerator) {
  at::manual_seed(112);
  const Tensor q = at::randn({2, 5, 16});
  const aten::OperatorSwitch on;
  at::manual_seed(3);
  const Tensor first = at::scaled_dot_product_attention(q, q, q, {}, 0.4);
  at::manual_seed(3);
  EXPECT_TRUE(same_bits(at::scaled_dot_product_attention(q, q, q, {}, 0.4), first));
  EXPECT_FALSE(same_bits(at::scaled_dot_product_attention(q, q, q, {}, 0.4), first));
}

TEST(Attention, FusedKernelsAreRefusedAndTheChoiceComesBack) {
  const Tensor q = at::ones({1, 1, 4, 8});
  const bool before = at::globalContext().userEnabledFlashSDP();
  {
    const aten::OperatorSwitch on;
    EXPECT_FALSE(at::globalContext().userEnabledFlashSDP());
    expect_throws([&] { at::_scaled_dot_product_flash_attention_for_cpu(q, q, q); }, "is not certified");
    at::globalContext().setSDPUseFlash(true);                          // what a user may do
    expect_throws([&] { composition(q, q, q); }, "is not certified");  // in blocks stock is not asked
  }
  EXPECT_EQ(at::globalContext().userEnabledFlashSDP(), before);
}

}  // namespace
}  // namespace isobit::test
