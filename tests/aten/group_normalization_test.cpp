// Layer, group and instance normalisation.
#include "kernels/group_norm.h"
#include "operator_cases.h"

namespace isobit::test {
namespace {

TEST(GroupNormalization, ValuesGradientsThreadsStridesAndStockBack) {
  at::manual_seed(70);
  const Tensor x = at::randn({6, 12, 5, 7});
  const auto layer = [](at::IntArrayRef sizes) {
    const std::vector<std::int64_t> shape = sizes.vec();
    return [shape](const Tensors& t) { return at::layer_norm(t[0], shape, t[1], t[2], 1e-5); };
  };
  const Case cases[] = {
      {"layer of rows", {at::randn({40, 300}), at::randn({300}), at::randn({300})}, layer({300}), 3e-5},
      {"layer of many rows", {at::randn({2, 530, 9}), at::randn({9}), at::randn({9})}, layer({9}), 3e-5},
      {"layer over two dimensions",
       {at::randn({8, 6, 11}), at::randn({6, 11}), at::randn({6, 11})},
       layer({6, 11}),
       3e-5},
      {"layer without factors",
       {at::randn({30, 64})},
       [](const Tensors& t) { return at::layer_norm(t[0], {64}); },
       3e-5},
      {"layer without bias",
       {at::randn({30, 64}), at::randn({64})},
       [](const Tensors& t) { return at::layer_norm(t[0], {64}, t[1], {}); },
       3e-5},
      {"layer of nothing", {at::randn({0, 5}), at::randn({5}), at::randn({5})}, layer({5}), 3e-5},
      {"groups",
       {x, at::randn({12}), at::randn({12})},
       [](const Tensors& t) { return at::group_norm(t[0], 3, t[1], t[2], 1e-5, false); },
       3e-5},
      {"one group without factors", {x}, [](const Tensors& t) { return at::group_norm(t[0], 1); }, 3e-5},
      {"groups of vectors",
       {at::randn({40, 12}), at::randn({12}), at::randn({12})},
       [](const Tensors& t) { return at::group_norm(t[0], 4, t[1], t[2], 1e-5, false); },
       3e-5},
      {"instances",
       {x, at::randn({12}), at::randn({12})},
       [](const Tensors& t) { return at::instance_norm(t[0], t[1], t[2], {}, {}, true, 0.1, 1e-5, false); },
       3e-5},
      {"root mean square",
       {at::randn({30, 64}), at::randn({64})},
       [](const Tensors& t) { return at::rms_norm(t[0], {64}, t[1], 1e-5); }},
  };
  for (const Case& c : cases) check(c);
}

TEST(GroupNormalization, HasTheBitsOfTheKernel) {
  at::manual_seed(71);
  const Tensor x = at::randn({6, 4, 15}), w = at::randn({15}), b = at::randn({15});
  Tensor y = at::empty_like(x), mean = at::empty({6, 4, 1}), invstd = at::empty({6, 4, 1});
  kernels::group_norm({.shape = {24, 15},
                       .x = x.data_ptr<float>(),
                       .weight = w.data_ptr<float>(),
                       .bias = b.data_ptr<float>(),
                       .y = y.data_ptr<float>(),
                       .mean = mean.data_ptr<float>(),
                       .invstd = invstd.data_ptr<float>()});
  const aten::OperatorSwitch on;
  const auto [result, saved_mean, saved_invstd] = at::native_layer_norm(x, {15}, w, b, 1e-5);
  EXPECT_TRUE(same_bits(result, y));
  EXPECT_TRUE(same_bits(saved_mean, mean));
  EXPECT_TRUE(same_bits(saved_invstd, invstd));
}

TEST(GroupNormalization, ALayerIsOneGroupOfChannels) {
  at::manual_seed(72);
  const Tensor x = at::randn({9, 20});
  const aten::OperatorSwitch on;
  EXPECT_TRUE(same_bits(at::layer_norm(x, {20}), at::group_norm(x, 1)));
}

TEST(GroupNormalization, Refuses) {
  const Tensor x = at::ones({2, 6, 4});
  const aten::OperatorSwitch on;
  expect_throws([&] { at::native_group_norm(x, {}, {}, 2, 6, 4, 4, 1e-5); }, "4 groups of 6");
  expect_throws([&] { at::native_layer_norm(x, {5}, {}, {}, 1e-5); }, "normalized_shape");
  expect_throws([&] { at::native_layer_norm(x.to(at::kComplexFloat), {4}, {}, {}, 1e-5); }, "ComplexFloat");
}

}  // namespace
}  // namespace isobit::test
