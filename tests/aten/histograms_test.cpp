// histc and bincount: counts against a plain loop, weights in index_add's order, errors, devices.
#include <cmath>

#include "operator_cases.h"

namespace isobit::test {
namespace {

// The contract's sentence: the bin of x is floor((x - low) * bins / (high - low)), the last one's end included.
template <class Float>
Tensor counted(const Tensor& x, std::int64_t bins, double low, double high) {
  const Tensor counts = at::zeros({bins}, at::kLong);
  const Tensor dense = x.contiguous();
  for (std::int64_t i = 0; i < dense.numel(); ++i) {
    const double value = dense.const_data_ptr<Float>()[i];
    if (!(value >= low && value <= high)) continue;
    const double place = std::floor((value - low) * static_cast<double>(bins) / (high - low));
    counts.mutable_data_ptr<std::int64_t>()[std::min(static_cast<std::int64_t>(place), bins - 1)] += 1;
  }
  return counts;
}

TEST(Histograms, CountsAreExactInTheBinsOfTheContract) {
  const Tensor x = at::cat({at::randn({5000}), at::tensor({NAN, INFINITY, -INFINITY, -2.0f, 2.0f, 0.1f, -0.0f})});
  const aten::OperatorSwitch on;
  for (const std::int64_t bins : {1, 3, 7, 100}) {
    EXPECT_TRUE(at::equal(at::histc(x, bins, -2, 2).to(at::kLong), counted<float>(x, bins, -2, 2))) << bins;
    const Tensor wide = x.to(at::kDouble);
    EXPECT_EQ(at::histc(wide, bins, -0.3, 0.7).scalar_type(), at::kDouble);
    EXPECT_TRUE(at::equal(at::histc(wide, bins, -0.3, 0.7).to(at::kLong), counted<double>(wide, bins, -0.3, 0.7)))
        << bins;
  }
  EXPECT_TRUE(
      same_bits(at::histc(scattered(x.view({-1, 1}).expand({x.numel(), 2})), 9, -2, 2), at::histc(x, 9, -2, 2) * 2));
}

TEST(Histograms, WithoutARangeThatOfTheValues) {
  const aten::OperatorSwitch on;
  EXPECT_TRUE(at::equal(at::histc(at::tensor({1.0f, 2.0f, 3.0f, 4.0f}), 3), at::tensor({1.0f, 1.0f, 2.0f})));
  EXPECT_TRUE(at::equal(at::histc(at::full({5}, 2.0f), 4), at::tensor({0.0f, 0.0f, 5.0f, 0.0f})));
  EXPECT_TRUE(at::equal(at::histc(at::empty({0}), 2), at::zeros({2})));
  EXPECT_THROW(at::histc(at::ones({2}), 0), c10::Error);
  EXPECT_THROW(at::histc(at::ones({2}), 3, 2, 1), c10::Error);
  EXPECT_THROW(at::histc(at::tensor({1.0f, NAN}), 3), c10::Error);
  EXPECT_THROW(at::histc(at::ones({2}, at::kComplexFloat), 3, 0, 1), c10::Error);
}

TEST(Histograms, WeightsAreAddedInIndexAddsOrder) {
  const Tensor bins = at::randint(0, 6, {4001}), weights = at::randn({4001});
  const Tensor backwards = weights.flip(0);
  const aten::OperatorSwitch on;
  for (const int threads : {1, 2, 3}) {
    const kernels::ThreadCountScope scope(threads);
    const Tensor sums = at::bincount(bins, weights, 9);
    EXPECT_TRUE(same_bits(sums, at::zeros({9}).index_add(0, bins, weights)));
    EXPECT_FALSE(same_bits(sums, at::bincount(bins.flip(0), backwards, 9))) << "the order does not show";
  }
  EXPECT_TRUE(at::equal(at::bincount(bins), at::bincount(bins.to(at::kInt))));
  EXPECT_TRUE(at::equal(at::bincount(at::tensor({1, 1, 3}), at::tensor({2, 3, 4})),
                        at::tensor({0.0, 5.0, 0.0, 4.0}, at::kDouble)));
  EXPECT_EQ(at::bincount(at::empty({0}, at::kLong), at::empty({0}), 3).scalar_type(), at::kFloat);
  EXPECT_THROW(at::bincount(at::tensor({-1, 2})), c10::Error);
  EXPECT_THROW(at::bincount(at::tensor({1, 2}), at::ones({3})), c10::Error);
  EXPECT_THROW(at::bincount(at::ones({3})), c10::Error);
}

}  // namespace
}  // namespace isobit::test
