// Pooling: values and gradients against stock (maxima and their indices exactly), shapes, variants.
#include <cmath>

#include "kernels/pool2d.h"
#include "operator_cases.h"

namespace isobit::test {
namespace {

TEST(Pooling, ValuesGradientsThreadsStridesAndStockBack) {
  at::manual_seed(50);
  const Tensor x = at::randn({3, 5, 17, 14});
  const Case cases[] = {
      {"max 2", {x}, [](const Tensors& t) { return at::max_pool2d(t[0], 2); }},
      {"max 3/2/1", {x}, [](const Tensors& t) { return at::max_pool2d(t[0], 3, 2, 1); }},
      {"max dilated, ceil",
       {x},
       [](const Tensors& t) {
         return at::max_pool2d(t[0], {3, 2}, 2, 1, 2, true);
       }},
      {"max of one image", {x[0]}, [](const Tensors& t) { return at::max_pool2d(t[0], 3); }},
      {"average 2", {x}, [](const Tensors& t) { return at::avg_pool2d(t[0], 2); }},
      {"average 3/2/1", {x}, [](const Tensors& t) { return at::avg_pool2d(t[0], 3, 2, 1); }},
      {"average, ceil, padding not counted",
       {x},
       [](const Tensors& t) { return at::avg_pool2d(t[0], 3, 2, 1, true, false); }},
      {"average, ceil",
       {x},
       [](const Tensors& t) {
         return at::avg_pool2d(t[0], {4, 3}, 3, 1, true, true);
       }},
      {"average, divisor", {x}, [](const Tensors& t) { return at::avg_pool2d(t[0], 3, 3, 0, false, true, 5); }},
      {"adaptive 1",
       {x},
       [](const Tensors& t) {
         return at::adaptive_avg_pool2d(t[0], {1, 1});
       }},
      {"adaptive 5x4",
       {x},
       [](const Tensors& t) {
         return at::adaptive_avg_pool2d(t[0], {5, 4});
       }},
      {"adaptive, larger",
       {x[0]},
       [](const Tensors& t) {
         return at::adaptive_avg_pool2d(t[0], {20, 20});
       }},
  };
  for (const Case& c : cases) check(c);
}

TEST(Pooling, MaximaAndIndicesAreStocks) {
  at::manual_seed(51);
  const Tensor x = at::randn({2, 3, 11, 12});
  const auto stock = at::max_pool2d_with_indices(x, 3, 2, 1);
  const aten::OperatorSwitch on;
  const auto ours = at::max_pool2d_with_indices(x, 3, 2, 1);
  EXPECT_TRUE(same_bits(std::get<0>(ours), std::get<0>(stock)));
  EXPECT_TRUE(same_bits(std::get<1>(ours), std::get<1>(stock)));
  Tensor y = at::empty({0}), index = at::empty({0}, at::kLong);
  at::max_pool2d_with_indices_out(y, index, x, 3, 2, 1);
  EXPECT_TRUE(same_bits(y, std::get<0>(ours)) && same_bits(index, std::get<1>(ours)));
}

TEST(Pooling, TheFirstNaNElseTheFirstOfTheLargest) {
  const float nan = std::nanf("");
  const Tensor x = at::tensor({-0.0f, 0.0f, 1.0f, nan, 0.0f, -0.0f, nan, 2.0f}).view({1, 2, 4});
  const aten::OperatorSwitch on;
  const auto [y, index] = at::max_pool2d_with_indices(x, 2);
  EXPECT_TRUE(same_bits(y, at::tensor({-0.0f, nan}).view({1, 1, 2})));
  EXPECT_TRUE(same_bits(index, at::tensor({0, 3}, at::kLong).view({1, 1, 2})));
}

TEST(Pooling, OutGivesTheSame) {
  at::manual_seed(52);
  const Tensor x = at::randn({2, 3, 8, 8}), dy = at::randn({2, 3, 4, 4});
  const aten::OperatorSwitch on;
  const auto out = [] { return at::empty({0}); };
  Tensor a = out(), b = out(), c = out(), d = out();
  EXPECT_TRUE(same_bits(at::avg_pool2d_out(a, x, 2), at::avg_pool2d(x, 2)));
  EXPECT_TRUE(same_bits(at::adaptive_avg_pool2d_out(b, x, {3, 3}), at::adaptive_avg_pool2d(x, {3, 3})));
  const auto backward = at::avg_pool2d_backward(dy, x, 2, 2, 0, false, true, {});
  EXPECT_TRUE(same_bits(at::avg_pool2d_backward_out(c, dy, x, 2, 2, 0, false, true, {}), backward));
  const Tensor index = std::get<1>(at::max_pool2d_with_indices(x, 2));
  const Tensor max_backward = at::max_pool2d_with_indices_backward(dy, x, 2, 2, 0, 1, false, index);
  at::max_pool2d_with_indices_backward_out(d, dy, x, 2, 2, 0, 1, false, index);
  EXPECT_TRUE(same_bits(d, max_backward));
}

TEST(Pooling, Refuses) {
  const Tensor x = at::ones({1, 1, 4, 4});
  const aten::OperatorSwitch on;
  expect_throws([&] { at::max_pool2d(x.to(at::kDouble), 2); }, "Double");
  expect_throws([&] { at::max_pool2d(x, 2, 2, 2); }, "half the kernel");
  expect_throws([&] { at::avg_pool2d(x, 5); }, "larger than the image");
  expect_throws([&] { at::avg_pool2d(x, 2, 2, 0, false, true, 0); }, "divisor");
}

}  // namespace
}  // namespace isobit::test
