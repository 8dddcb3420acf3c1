// Sums, means, norms and extrema: dimensions, types, zeros and NaN, variants, the kernel's bits.
#include "kernels/reduce.h"

#include <cmath>
#include <limits>

#include "operator_cases.h"

namespace isobit::test {
namespace {

TEST(Reduce, ValuesGradientsThreadsStridesAndStockBack) {
  at::manual_seed(30);
  const Tensor x = at::randn({7, 130, 11}), long_row = at::randn({3, 5000});
  const Case cases[] = {
      {"sum", {x}, [](const Tensors& t) { return at::sum(t[0]); }},
      {"sum of one number", {at::randn({})}, [](const Tensors& t) { return at::sum(t[0]); }},
      {"sum 0", {x}, [](const Tensors& t) { return at::sum(t[0], 0); }},
      {"sum 1 keep", {x}, [](const Tensors& t) { return at::sum(t[0], 1, true); }},
      {"sum 0, 2",
       {x},
       [](const Tensors& t) {
         return at::sum(t[0], {0, -1});
       }},
      {"sum rows", {long_row}, [](const Tensors& t) { return at::sum(t[0], 1); }},
      {"sum of nothing", {at::randn({0, 4})}, [](const Tensors& t) { return at::sum(t[0], 0); }},
      {"mean", {x}, [](const Tensors& t) { return at::mean(t[0]); }},
      {"mean 1, 2",
       {x},
       [](const Tensors& t) {
         return at::mean(t[0], {1, 2});
       }},
      {"norm", {x}, [](const Tensors& t) { return at::norm(t[0]); }},
      {"norm 1", {x}, [](const Tensors& t) { return at::norm(t[0], 2, {1}, true); }},
      {"vector norm", {x}, [](const Tensors& t) { return at::linalg_vector_norm(t[0]); }},
      {"vector norm of order 1", {x}, [](const Tensors& t) { return at::linalg_vector_norm(t[0], 1, 1); }},
      {"var", {x}, [](const Tensors& t) { return at::var(t[0]); }},
      {"var 1, correction 0", {x}, [](const Tensors& t) { return at::var(t[0], at::IntArrayRef({1}), 0, true); }},
      {"std 0, 2",
       {x},
       [](const Tensors& t) {
         return at::std(t[0], {0, 2}, true);
       }},
      {"mean beside var", {x}, [](const Tensors& t) { return std::get<1>(at::var_mean(t[0], {1}, true)); }},
      {"aminmax", {x}, [](const Tensors& t) { return std::get<1>(at::aminmax(t[0], 1)); }},
      {"amax",
       {x},
       [](const Tensors& t) {
         return at::amax(t[0], {0, 2});
       }},
      {"amin keep", {x}, [](const Tensors& t) { return at::amin(t[0], {1}, true); }},
      {"max", {x}, [](const Tensors& t) { return at::max(t[0]); }},
      {"min", {x}, [](const Tensors& t) { return at::min(t[0]); }},
      {"max 1", {x}, [](const Tensors& t) { return std::get<0>(at::max(t[0], 1)); }},
      {"min 1 keep", {x}, [](const Tensors& t) { return std::get<0>(at::min(t[0], 1, true)); }},
  };
  for (const Case& c : cases) check(c);
}

TEST(Reduce, HasTheBitsOfTheKernelAndNotOfAPlainLoop) {
  at::manual_seed(31);
  const Tensor x = at::randn({3000});
  kernels::ReduceShape shape;
  shape.reduced_rank = 1, shape.reduced_size[0] = 3000, shape.reduced_stride[0] = 1;
  float sum = 0, norm = 0, running = 0;
  kernels::sum(shape, x.data_ptr<float>(), &sum);
  kernels::norm2(shape, x.data_ptr<float>(), &norm);
  for (int i = 0; i < 3000; ++i) running += x.data_ptr<float>()[i];
  const aten::OperatorSwitch on;
  EXPECT_EQ(at::sum(x).item<float>(), sum);
  EXPECT_EQ(at::mean(x).item<float>(), sum / 3000.0f);
  EXPECT_EQ(at::norm(x).item<float>(), norm);
  EXPECT_NE(running, sum);
  EXPECT_EQ(at::sum(x.view({30, 100}), {0, 1}).item<float>(), sum);
}

TEST(Reduce, IndicesPreferNaNThenTheLowest) {
  const float nan = std::nanf("");
  const Tensor x = at::tensor({-0.0f, 0.0f, 3.0f, 3.0f, -0.0f, -5.0f, nan, 2.0f, nan, -5.0f}).view({2, 5});
  const aten::OperatorSwitch on;
  EXPECT_TRUE(same_bits(at::argmax(x, 1), at::tensor({2, 1}, at::kLong)));
  EXPECT_TRUE(same_bits(at::argmin(x, 1), at::tensor({0, 1}, at::kLong)));
  EXPECT_EQ(at::argmax(x).item<std::int64_t>(), 6);
  EXPECT_TRUE(same_bits(std::get<0>(at::min(x, 1)), at::tensor({-0.0f, nan}))) << "the element, sign and all";
  EXPECT_TRUE(same_bits(at::amin(x, {1}), at::tensor({0.0f, nan}))) << "a zero is +0";
  EXPECT_TRUE(same_bits(at::argmax(x.t(), 0), at::argmax(x, 1)));
}

TEST(Reduce, OutGivesTheSame) {
  at::manual_seed(32);
  const Tensor x = at::randn({6, 40});
  const aten::OperatorSwitch on;
  const auto out = [] { return at::empty({0}); };
  Tensor a = out(), b = out(), c = out(), d = out(), e = out(), f = out(), v = out();
  Tensor i = at::empty({0}, at::kLong), j = at::empty({0}, at::kLong);
  EXPECT_TRUE(same_bits(at::sum_out(a, x, 1), at::sum(x, 1)));
  EXPECT_TRUE(same_bits(at::mean_out(b, x, {1}), at::mean(x, {1})));
  EXPECT_TRUE(same_bits(at::norm_out(c, x, 2, {0}), at::norm(x, 2, {0})));
  EXPECT_TRUE(same_bits(at::amax_out(d, x, {1}), at::amax(x, {1})));
  EXPECT_TRUE(same_bits(at::amin_out(e, x, {1}), at::amin(x, {1})));
  EXPECT_TRUE(same_bits(at::linalg_vector_norm_out(f, x), at::linalg_vector_norm(x)));
  Tensor g = out(), h = out();
  EXPECT_TRUE(same_bits(at::var_out(g, x, at::IntArrayRef({1}), true), at::var(x, at::IntArrayRef({1}), true)));
  EXPECT_TRUE(same_bits(at::std_out(h, x, at::IntArrayRef({1}), true), at::var(x, at::IntArrayRef({1}), true).sqrt()));
  EXPECT_TRUE(same_bits(at::argmax_out(i, x, 1), at::argmax(x, 1)));
  at::max_out(v, j, x, 1);
  EXPECT_TRUE(same_bits(v, std::get<0>(at::max(x, 1))));
  EXPECT_TRUE(same_bits(j, std::get<1>(at::max(x, 1))));
  Tensor scattered_out = scattered(at::zeros({6}));
  EXPECT_TRUE(same_bits(at::sum_out(scattered_out, x, 1), a));
}

TEST(Reduce, TypesAndEmptiness) {
  const Tensor i = at::arange(12).view({3, 4}), d = at::ones({3}, at::kDouble);
  const Tensor expected = at::sum(i, 0);
  const aten::OperatorSwitch on;
  EXPECT_TRUE(same_bits(at::sum(i, 0), expected));
  EXPECT_EQ(at::sum(i.gt(3)).item<std::int64_t>(), 8);
  EXPECT_EQ(at::sum(i, at::kFloat).item<float>(), 66.0f);
  EXPECT_EQ(at::argmax(i).item<std::int64_t>(), 11);
  EXPECT_TRUE(std::isnan(at::mean(at::ones({0})).item<float>()));
  EXPECT_EQ(at::max(d).item<double>(), 1.0) << "printing a tensor needs it";
  EXPECT_FALSE(std::signbit(at::amin(at::neg(at::zeros({3}, at::kDouble)), {0}).item<double>()));
  EXPECT_TRUE(std::isnan(at::var(at::ones({1})).item<float>()));
  EXPECT_EQ(at::sum(d).item<double>(), 3.0);
  EXPECT_EQ(at::sum(at::full({3}, 0.1f), at::kDouble).item<double>(), (0.1f + static_cast<double>(0.1f)) + 0.1f);
  expect_throws([&] { at::sum(at::ones({3}, at::kComplexFloat)); }, "ComplexFloat");
  expect_throws([&] { at::sum(at::ones({3}), at::kComplexFloat); }, "ComplexFloat");
  expect_throws([&] { at::mean(i); }, "Long");
  expect_throws([&] { at::amax(at::ones({0})); }, "no elements");
  EXPECT_NEAR(at::linalg_vector_norm(at::full({3}, 2.0f), 3).item<float>(), 2 * std::cbrt(3.0), 1e-6);
}

}  // namespace
}  // namespace isobit::test
