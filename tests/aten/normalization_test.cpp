// Batch normalisation: training and inference, gradients, running statistics, variants.
#include "kernels/batch_norm.h"
#include "operator_cases.h"

namespace isobit::test {
namespace {

Case batch_norm(const std::string& name, at::IntArrayRef sizes, bool training) {
  const std::int64_t c = sizes[1];
  const Tensor mean = at::randn({c}), variance = at::rand({c}).add(0.5);
  return {name,
          {at::randn(sizes), at::randn({c}), at::randn({c})},
          [=](const Tensors& t) {
            return at::batch_norm(t[0], t[1], t[2], mean.to(t[0].options(), false, true),
                                  variance.to(t[0].options(), false, true), training, 0.1, 1e-5, false);
          },
          3e-5};
}

TEST(BatchNorm, ValuesGradientsThreadsStridesAndStockBack) {
  at::manual_seed(40);
  const Case cases[] = {
      batch_norm("training", {4, 7, 13, 11}, true),
      batch_norm("inference", {4, 7, 13, 11}, false),
      batch_norm("of vectors", {64, 20}, true),
      batch_norm("of signals", {5, 6, 30}, true),
      {"without statistics or factors",
       {at::randn({4, 3, 5, 5})},
       [](const Tensors& t) { return at::batch_norm(t[0], {}, {}, {}, {}, true, 0.1, 1e-5, false); },
       3e-5},
  };
  for (const Case& c : cases) check(c);
}

TEST(BatchNorm, UpdatesRunningStatistics) {
  at::manual_seed(41);
  const Tensor x = at::randn({16, 5, 6, 6}).mul(3).add(2);
  Tensor stock_mean = at::zeros({5}), stock_variance = at::ones({5});
  at::batch_norm(x, {}, {}, stock_mean, stock_variance, true, 0.3, 1e-5, false);
  Tensor mean = at::zeros({5}), variance = at::ones({5});
  Tensor gap_mean = scattered(mean), gap_variance = scattered(variance);  // buffers that are not contiguous
  const aten::OperatorSwitch on;
  at::batch_norm(x, {}, {}, mean, variance, true, 0.3, 1e-5, false);
  at::batch_norm(x, {}, {}, gap_mean, gap_variance, true, 0.3, 1e-5, false);
  EXPECT_TRUE(at::allclose(mean, stock_mean, 1e-5, 1e-6));
  EXPECT_TRUE(at::allclose(variance, stock_variance, 1e-5, 1e-6));
  EXPECT_TRUE(same_bits(gap_mean, mean));
  EXPECT_TRUE(same_bits(gap_variance, variance));
}

TEST(BatchNorm, HasTheBitsOfTheKernel) {
  at::manual_seed(42);
  const Tensor x = at::randn({6, 4, 15}), w = at::randn({4}), b = at::randn({4});
  Tensor y = at::empty_like(x), mean = at::empty({4}), invstd = at::empty({4});
  kernels::BatchNormForward problem;
  problem.shape = {6, 4, 15};
  problem.x = x.data_ptr<float>(), problem.weight = w.data_ptr<float>(), problem.bias = b.data_ptr<float>();
  problem.y = y.data_ptr<float>(), problem.saved_mean = mean.data_ptr<float>();
  problem.saved_invstd = invstd.data_ptr<float>();
  kernels::batch_norm_training(problem);
  const aten::OperatorSwitch on;
  const auto [result, saved_mean, saved_invstd] = at::native_batch_norm(x, w, b, {}, {}, true, 0.1, 1e-5);
  EXPECT_TRUE(same_bits(result, y));
  EXPECT_TRUE(same_bits(saved_mean, mean));
  EXPECT_TRUE(same_bits(saved_invstd, invstd));
}

TEST(BatchNorm, EveryFormGivesTheSame) {
  at::manual_seed(43);
  const Tensor x = at::randn({6, 4, 15}), w = at::randn({4}), b = at::randn({4});
  const aten::OperatorSwitch on;
  const auto fresh = [] { return std::pair(at::zeros({4}), at::ones({4})); };
  auto [mean, variance] = fresh();
  const Tensor expected = std::get<0>(at::native_batch_norm(x, w, b, mean, variance, true, 0.1, 1e-5));
  auto [mean2, variance2] = fresh();
  Tensor y = at::empty({0}), saved_mean = at::empty({0}), saved_invstd = at::empty({0});
  at::native_batch_norm_out(y, saved_mean, saved_invstd, x, w, b, mean2, variance2, true, 0.1, 1e-5);
  EXPECT_TRUE(same_bits(y, expected) && same_bits(mean2, mean) && same_bits(variance2, variance));
  auto [mean3, variance3] = fresh();
  const auto legit = at::_native_batch_norm_legit(x, w, b, mean3, variance3, true, 0.1, 1e-5);
  EXPECT_TRUE(same_bits(std::get<0>(legit), expected) && same_bits(mean3, mean));
  EXPECT_TRUE(same_bits(std::get<0>(at::_native_batch_norm_legit(x, w, b, true, 0.1, 1e-5)), expected));
  const Tensor inference = std::get<0>(at::native_batch_norm(x, w, b, mean, variance, false, 0.1, 1e-5));
  const auto no_training = at::_native_batch_norm_legit_no_training(x, w, b, mean, variance, 0.1, 1e-5);
  EXPECT_TRUE(same_bits(std::get<0>(no_training), inference));
}

TEST(BatchNorm, Refuses) {
  const Tensor x = at::ones({2, 3, 4});
  const aten::OperatorSwitch on;
  expect_throws([&] { at::native_batch_norm(x, {}, {}, {}, {}, false, 0.1, 1e-5); }, "running statistics");
  expect_throws([&] { at::native_batch_norm(x, at::ones({2}), {}, {}, {}, true, 0.1, 1e-5); }, "3 values");
  expect_throws([&] { at::native_batch_norm(x.to(at::kComplexFloat), {}, {}, {}, {}, true, 0.1, 1e-5); },
                "ComplexFloat");
}

}  // namespace
}  // namespace isobit::test
