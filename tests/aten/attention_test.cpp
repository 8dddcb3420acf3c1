// scaled_dot_product_attention, einsum and their gradients; stock's fused kernels stay out of reach.
#include <torch/csrc/autograd/autograd.h>

#include <cstring>
#include <limits>
#include <vector>

#include "aten/certified/support/eight_floats.h"
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

TEST(Attention, DerivativesForwards) {
  const Tensor q = at::randn({1, 2, 5, 4}), t = at::randn({1, 2, 5, 4});
  const aten::OperatorSwitch on;
  const std::uint64_t level = torch::autograd::forward_ad::enter_dual_level();
  const Tensor dual = at::_make_dual(q, t, static_cast<std::int64_t>(level));
  EXPECT_TRUE(at::scaled_dot_product_attention(dual, q, q)._fw_grad(level).defined());
  EXPECT_TRUE(at::scaled_dot_product_attention(q, q, q, dual.select(0, 0).select(0, 0).matmul(q[0][0].t()))
                  ._fw_grad(level)
                  .defined());
  torch::autograd::forward_ad::exit_dual_level(level);
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

// Bools of any bytes but 0, numbers of every kind, all remainders of sixteen; what lies past the end stays.
TEST(Attention, MasksSomeElementsAtATimeAreMasksOneByOne) {
  const float out = -std::numeric_limits<float>::infinity(), nan = std::numeric_limits<float>::quiet_NaN();
  const float kinds[] = {-0.0f, 0.0f, 1.5f, out, -out, nan, 0x1p-149f, -3e38f};
  for (std::int64_t n = 0; n < 50; ++n) {
    std::vector<std::uint8_t> bytes;
    std::vector<float> y, changed;
    for (std::int64_t i = 0; i <= n; ++i) {
      bytes.push_back(static_cast<std::uint8_t>(i % 3 == 0 ? 0 : 1 + 85 * (i % 4)));
      y.push_back(kinds[i * 5 % 8]);
    }
    std::vector<float> wanted = y, wanted_change = changed = y;
    for (std::size_t i = 0; i < static_cast<std::size_t>(n); ++i) {
      wanted[i] += bytes[i] != 0 ? 0.0f : out;
      wanted_change[i] = y[i] * 3.0f;
    }
    aten::add_where_unset(n, bytes.data(), out, y.data());
    aten::each_eight(n, changed.data(), changed.data(), [](auto& to, const auto& x) { to = x * 3.0f; });
    EXPECT_EQ(std::memcmp(y.data(), wanted.data(), y.size() * sizeof(float)), 0) << n;
    EXPECT_EQ(std::memcmp(changed.data(), wanted_change.data(), y.size() * sizeof(float)), 0) << n;
  }
}

}  // namespace
}  // namespace isobit::test
