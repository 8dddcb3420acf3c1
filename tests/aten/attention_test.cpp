// scaled_dot_product_attention, einsum and their gradients; stock's fused kernels stay out of reach.
#include <torch/csrc/autograd/autograd.h>

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

// The blocked form, which runs without gradients, against the composition, which runs with them.
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
        const Tensor composed = at::scaled_dot_product_attention(q, t[1], t[2], {}, 0.0, causal, scale);
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

// While one lives somebody watches the thread's operators, and the composition runs.
class Watching {
 public:
  Watching()
      : handle_(at::addThreadLocalCallback(at::RecordFunctionCallback(
            [](const at::RecordFunction& call) -> std::unique_ptr<at::ObserverContext> {
              seen += std::string_view(call.name()) == "aten::bmm";
              return nullptr;
            },
            [](const at::RecordFunction&, at::ObserverContext*) {}))) {
    seen = 0;
  }
  ~Watching() { at::removeCallback(handle_); }
  Watching(const Watching&) = delete;
  Watching& operator=(const Watching&) = delete;
  static int products() { return seen; }

 private:
  static inline thread_local int seen = 0;
  at::CallbackHandle handle_;
};

std::vector<Tensor> trained(const Tensors& t, const std::array<bool, 3>& asked, bool causal,
                            std::optional<double> scale, const Tensor& dy, bool twice) {
  std::vector<Tensor> leaves, given;
  for (std::size_t i = 0; i < 3; ++i) {
    Tensor leaf = t[i].detach();
    if (asked[i]) leaf.requires_grad_(true);
    if (asked[i]) leaves.push_back(leaf);
    given.push_back(leaf);
  }
  const Tensor y = at::scaled_dot_product_attention(given[0], given[1], given[2], {}, 0.0, causal, scale);
  const Tensor weight = dy.detach().requires_grad_(twice);
  std::vector<Tensor> found = torch::autograd::grad({y}, leaves, {weight}, true, twice);
  if (twice) {
    leaves.push_back(weight);
    Tensor sum = at::zeros({});
    for (const Tensor& d : found) sum = sum.add(d.square().sum());
    for (const Tensor& d : torch::autograd::grad({sum}, leaves, {}, {}, false, true)) found.push_back(d);
  }
  found.push_back(y.detach());
  return found;
}

TEST(Attention, OneStepOfTheGraphIsTheComposition) {
  at::manual_seed(114);
  Tensor hostile = at::randn({2, 3, 30, 8}), masked = at::randn({1, 2, 5, 4});
  hostile.view({-1})[5] = std::numeric_limits<float>::infinity();
  hostile.view({-1})[700] = std::numeric_limits<float>::quiet_NaN();
  masked.select(2, 0).fill_(-std::numeric_limits<float>::infinity());
  const Tensor alike = at::randn({2, 4, 9, 8});
  const Tensors cases[] = {
      {at::randn({2, 2, 60, 8}), at::randn({2, 2, 250, 8}), at::randn({2, 2, 250, 5})},
      {at::randn({2, 30, 3, 8}).transpose(1, 2), hostile, at::randn({2, 3, 8, 30}).transpose(2, 3)},
      {hostile, at::randn({2, 3, 30, 8}), hostile},
      {masked, at::ones({1, 2, 5, 4}), at::randn({1, 2, 5, 4})},
      {at::randn({1, 1, 1, 1}), at::randn({1, 1, 3, 1}), at::randn({1, 1, 3, 1})},
      {at::randn({3, 1, 20, 16}).expand({3, 5, 20, 16}), at::randn({3, 5, 1, 16}).expand({3, 5, 20, 16}),
       at::randn({3, 5, 20, 1}).expand({3, 5, 20, 16})},
      {alike, alike, alike}};
  const aten::OperatorSwitch on;
  for (const Tensors& t : cases) {
    const std::int64_t n = t[0].size(0), heads = t[0].size(1), rows = t[0].size(2), width = t[2].size(3);
    Tensor hostile_dy = at::randn({n, heads, rows, width});
    hostile_dy.view({-1})[0] = -std::numeric_limits<float>::infinity();
    const Tensor gradients[] = {at::ones({}).expand({n, heads, rows, width}),
                                at::randn({n, rows, heads, width}).transpose(1, 2), hostile_dy};
    for (const bool causal : {false, true}) {
      for (const std::optional<double> scale : {std::optional<double>{}, std::optional<double>{0.37}}) {
        for (const std::array<bool, 3>& asked : {std::array<bool, 3>{true, true, true},
                                                 {true, false, false},
                                                 {false, true, false},
                                                 {false, false, true}}) {
          for (const Tensor& dy : gradients) {
            const bool twice = dy.is_same(gradients[1]);
            std::vector<Tensor> composed;
            {
              const Watching watching;
              composed = trained(t, asked, causal, scale, dy, twice);
              EXPECT_GT(Watching::products(), 0);
            }
            for (const int threads : {1, 3}) {
              const kernels::ThreadCountScope count(threads);
              const std::vector<Tensor> found = trained(t, asked, causal, scale, dy, twice);
              ASSERT_EQ(found.size(), composed.size());
              for (std::size_t i = 0; i < found.size(); ++i) {
                ASSERT_EQ(found[i].defined(), composed[i].defined());
                if (!found[i].defined()) continue;
                EXPECT_TRUE(same_bits(found[i], composed[i])) << t[0].sizes() << causal << i << " of " << found.size();
              }
            }
          }
        }
      }
    }
  }
}

TEST(Attention, OneStepOfTheGraph) {
  const Tensor q = at::ones({1, 1, 4, 8}).requires_grad_(true);
  const aten::OperatorSwitch on;
  EXPECT_EQ(at::scaled_dot_product_attention(q, q, q).grad_fn()->name().find("UnsafeView"), std::string::npos);
  Tensor y = at::scaled_dot_product_attention(q, q, q);
  EXPECT_EQ(y.grad_fn()->num_inputs(), 1);
  EXPECT_EQ(y.grad_fn()->next_edges().size(), 3);
  const Watching watching;
  EXPECT_NE(at::scaled_dot_product_attention(q, q, q).grad_fn()->next_edges().size(), 3);
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
    at::globalContext().setSDPUseFlash(true);                            // what a user may do
    const Tensor trained = at::ones({1, 1, 4, 8}).requires_grad_(true);  // without gradients stock is not asked
    expect_throws([&] { at::scaled_dot_product_attention(trained, q, q); }, "is not certified");
  }
  EXPECT_EQ(at::globalContext().userEnabledFlashSDP(), before);
}

}  // namespace
}  // namespace isobit::test
