// What the program asks for is filled, once; what operators allocate for themselves is not.
#include "aten/uninitialised.h"

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include <ATen/Functions.h>

#include "aten/operator_switch.h"

namespace isobit::aten {
namespace {

std::int64_t fillings_of(const std::function<void()>& call) {
  const std::int64_t before = fillings();
  call();
  return fillings() - before;
}

TEST(Uninitialised, OperatorsDoNotFillWhatTheyWrite) {
  const OperatorSwitch on;
  const at::Tensor x = at::ones({8, 6}), row = at::ones({6}), index = at::arange(3), mask = x > 0;
  const at::Tensor w = at::ones({8, 6}).requires_grad_(true);
  const std::vector<std::pair<std::string, std::function<void()>>> calls = {
      {"clone", [&] { x.clone(); }},
      {"clone of another order", [&] { x.t().clone(at::MemoryFormat::Contiguous); }},
      {"clone with a graph", [&] { w.clone(); }},
      {"contiguous", [&] { x.t().contiguous(); }},
      {"to", [&] { x.to(at::kDouble); }},
      {"zeros",
       [&] {
         at::zeros({3, 4});
       }},
      {"zeros_like", [&] { at::zeros_like(x); }},
      {"new_zeros", [&] { x.new_zeros({3}); }},
      {"ones, full", [&] { at::ones({3}), at::full({3}, 2.0), at::full_like(x, 2.0), at::ones_like(x); }},
      {"arange", [&] { at::arange(5), at::arange(1, 5), at::arange(1, 5, 2), at::eye(3); }},
      {"where", [&] { at::where(mask, x, 0.0); }},
      {"products", [&] { at::mm(x, x.t()), at::linear(x, x), at::bmm(x.unsqueeze(0), x.t().unsqueeze(0)); }},
      {"sums", [&] { x.sum(), x.mean(0), x.cumsum(1), x.argmax(1); }},
      {"elements", [&] { x + x, x * 2, x / row, x.exp(), x.neg(), x > 0, mask.logical_not(); }},
      {"softmax", [&] { at::softmax(x, 1), at::layer_norm(x, {6}), at::gelu(x); }},
      {"places",
       [&] {
         at::cat({x, x}), at::stack({x, x}), x.repeat({2, 2}), x.index_select(0, index), x.flip(0);
       }},
      {"selected",
       [&] {
         x.masked_select(mask), x.index({index}), at::constant_pad_nd(x, {1, 1}), x.nonzero();
       }},
      {"padded, without NaN",
       [&] {
         at::reflection_pad1d(x, {1, 1}), at::reflection_pad2d(x.unsqueeze(0), {1, 1, 1, 1}), x.nan_to_num();
       }},
      {"random", [&] { at::rand({5}), at::randn({5}), at::bernoulli(x, 0.5), at::randint(3, {4}), at::randperm(9); }},
      {"into a result",
       [&] {
         at::Tensor out = at::zeros({0});
         at::mul_out(out, x, x);
       }},
  };
  for (const auto& [name, call] : calls) EXPECT_EQ(fillings_of(call), 0) << name;
}

// The gradient of a sum is one number that is stretched: kept, it is copied into memory of its own.
TEST(Uninitialised, AGradientThatIsCopiedIsNotFilledFirst) {
  const OperatorSwitch on;
  const at::Tensor w = at::ones({300, 40}).requires_grad_(true);
  EXPECT_EQ(fillings_of([&] { w.sum().backward(); }), 0);
  EXPECT_TRUE(w.grad().is_contiguous());
  EXPECT_TRUE((w.grad() == 1).all().item<bool>());
  EXPECT_EQ(fillings_of([&] { w.t().contiguous().sum().backward(); }), 0);
  EXPECT_TRUE((w.grad() == 2).all().item<bool>());
}

TEST(Uninitialised, TheProgramsMemoryIsFilledOnce) {
  const OperatorSwitch on;
  const at::Tensor x = at::ones({8, 6});
  const std::vector<std::pair<std::string, std::function<at::Tensor()>>> calls = {
      {"empty", [] { return at::empty({7}); }},
      {"empty_strided",
       [] {
         return at::empty_strided({2, 3}, {1, 2});
       }},
      {"empty_like", [&] { return at::empty_like(x); }},
      {"new_empty", [&] { return x.new_empty({5}); }},
      {"resize_", [] { return at::ones({0}).resize_({9}); }},
      {"resize_as_", [&] { return at::ones({0}).resize_as_(x); }},
      {"in an operator's shadow", [&] { return x.clone(), at::empty({7}); }},
  };
  for (const auto& [name, call] : calls) {
    at::Tensor made;
    EXPECT_EQ(fillings_of([&] { made = call(); }), 1) << name;
    EXPECT_TRUE(made.isnan().all().item<bool>()) << name;
  }
}

TEST(Uninitialised, AnErrorWithinAnOperatorIsLeft) {
  const OperatorSwitch on;
  EXPECT_ANY_THROW(at::ones({3}).index_select(0, at::full({1}, 7, at::kLong)));
  EXPECT_ANY_THROW(at::zeros({-1}));
  EXPECT_EQ(fillings_of([] { at::empty({7}); }), 1);
}

}  // namespace
}  // namespace isobit::aten
