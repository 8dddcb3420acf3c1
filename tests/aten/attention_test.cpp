// scaled_dot_product_attention, einsum and their gradients; stock's fused kernels stay out of reach.
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
      {"scaled", qkv, [](const Tensors& t) {
         return at::scaled_dot_product_attention(t[0], t[1], t[2], {}, 0.0, false, 0.3);
       }},
      {"einsum", {at::randn({2, 3, 4}), at::randn({2, 4, 5})},
       [](const Tensors& t) { return at::einsum("bij,bjk->bik", {t[0], t[1]}); }},
      {"einsum of three", {at::randn({3, 4}), at::randn({4, 5}), at::randn({5, 6})},
       [](const Tensors& t) { return at::einsum("ij,jk,kl->il", {t[0], t[1], t[2]}); }},
      {"einsum of heads", {at::randn({2, 5, 3, 4}), at::randn({2, 6, 3, 4})},
       [](const Tensors& t) { return at::einsum("bqhd,bkhd->bhqk", {t[0], t[1]}); }},
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
    at::globalContext().setSDPUseFlash(true);  // what a user may do
    expect_throws([&] { at::scaled_dot_product_attention(q, q, q); }, "is not certified");
  }
  EXPECT_EQ(at::globalContext().userEnabledFlashSDP(), before);
}

}  // namespace
}  // namespace isobit::test
