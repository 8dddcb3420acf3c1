// Interpolation and padding: values and gradients, what a copy is, the order of dimensions.
#include "operator_cases.h"

namespace isobit::test {
namespace {

using Forward = std::function<Tensor(const Tensors&)>;

TEST(Resampling, ValuesGradientsThreadsStridesAndStockBack) {
  at::manual_seed(300);
  const Tensor line = at::randn({3, 4, 11}), image = at::randn({2, 5, 7, 18}), body = at::randn({2, 3, 4, 5, 9});
  const Case cases[] = {
      {"nearest of a line", {line}, [](const Tensors& t) { return at::upsample_nearest1d(t[0], {23}); }},
      {"nearest doubled",
       {image},
       [](const Tensors& t) {
         return at::upsample_nearest2d(t[0], {14, 36});
       }},
      {"nearest by a scale",
       {image},
       [](const Tensors& t) {
         return at::upsample_nearest2d(t[0], {9, 24}, 1.3, 1.37);
       }},
      {"nearest, smaller",
       {body},
       [](const Tensors& t) {
         return at::upsample_nearest3d(t[0], {3, 5, 4});
       }},
      {"nearest exact", {line}, [](const Tensors& t) { return at::_upsample_nearest_exact1d(t[0], {7}); }},
      {"nearest exact image",
       {image},
       [](const Tensors& t) {
         return at::_upsample_nearest_exact2d(t[0], {12, 7});
       }},
      {"nearest exact body",
       {body},
       [](const Tensors& t) {
         return at::_upsample_nearest_exact3d(t[0], {5, 9, 11});
       }},
      {"linear", {line}, [](const Tensors& t) { return at::upsample_linear1d(t[0], {30}, false); }},
      {"linear, aligned", {line}, [](const Tensors& t) { return at::upsample_linear1d(t[0], {30}, true); }},
      {"bilinear doubled",
       {image},
       [](const Tensors& t) {
         return at::upsample_bilinear2d(t[0], {14, 36}, false, 2.0, 2.0);
       }},
      {"bilinear, aligned",
       {image},
       [](const Tensors& t) {
         return at::upsample_bilinear2d(t[0], {15, 33}, true);
       }},
      {"bilinear, smaller",
       {image},
       [](const Tensors& t) {
         return at::upsample_bilinear2d(t[0], {3, 5}, false);
       }},
      {"bilinear to one",
       {image},
       [](const Tensors& t) {
         return at::upsample_bilinear2d(t[0], {1, 1}, true);
       }},
      {"bilinear, same size",
       {image},
       [](const Tensors& t) {
         return at::upsample_bilinear2d(t[0], {7, 18}, false);
       }},
      {"trilinear",
       {body},
       [](const Tensors& t) {
         return at::upsample_trilinear3d(t[0], {7, 6, 17}, false);
       }},
      {"trilinear, aligned",
       {body},
       [](const Tensors& t) {
         return at::upsample_trilinear3d(t[0], {7, 6, 17}, true);
       }},
      {"bicubic",
       {image},
       [](const Tensors& t) {
         return at::upsample_bicubic2d(t[0], {13, 29}, false);
       }},
      {"bicubic, aligned",
       {image},
       [](const Tensors& t) {
         return at::upsample_bicubic2d(t[0], {5, 40}, true);
       }},
      {"antialiased",
       {image},
       [](const Tensors& t) {
         return at::_upsample_bilinear2d_aa(t[0], {3, 7}, false);
       }},
      {"antialiased cubic",
       {image},
       [](const Tensors& t) {
         return at::_upsample_bicubic2d_aa(t[0], {4, 25}, false);
       }},
      {"no images",
       {at::randn({0, 3, 4, 4})},
       [](const Tensors& t) {
         return at::upsample_bilinear2d(t[0], {8, 8}, false);
       }},
      {"reflection of a line",
       {line},
       [](const Tensors& t) {
         return at::reflection_pad1d(t[0], {5, 10});
       }},
      {"reflection",
       {image},
       [](const Tensors& t) {
         return at::reflection_pad2d(t[0], {3, 17, 6, 1});
       }},
      {"reflection of a body",
       {body},
       [](const Tensors& t) {
         return at::reflection_pad3d(t[0], {1, 2, 4, 0, 3, 3});
       }},
      {"replication of a line",
       {line[0]},
       [](const Tensors& t) {
         return at::replication_pad1d(t[0], {0, 14});
       }},
      {"replication",
       {image},
       [](const Tensors& t) {
         return at::replication_pad2d(t[0], {3, 1, 20, 1});
       }},
      {"replication of a body",
       {body},
       [](const Tensors& t) {
         return at::replication_pad3d(t[0], {1, 2, 4, 0, 3, 3});
       }},
      {"circular",
       {image},
       [](const Tensors& t) {
         return at::_pad_circular(t[0], {3, 2, 1, 4});
       }},
  };
  for (const Case& c : cases) check(c);
}

TEST(Resampling, NearestCopiesAndTheOthersAddToPlusZero) {
  const Tensor x = at::full({1, 1, 2, 2}, -0.0f);
  const aten::OperatorSwitch on;
  EXPECT_TRUE(same_bits(at::upsample_nearest2d(x, {4, 4}), at::full({1, 1, 4, 4}, -0.0f)));
  EXPECT_TRUE(same_bits(at::upsample_bilinear2d(x, {4, 4}, false), at::zeros({1, 1, 4, 4})));
}

TEST(Resampling, AWeightOfZeroIsNoTerm) {
  Tensor x = at::arange(4, at::kFloat).view({1, 1, 4});
  x[0][0][1] = std::numeric_limits<float>::infinity();
  const aten::OperatorSwitch on;
  const Tensor y = at::upsample_linear1d(x, {7}, true);  // every second output is an input
  EXPECT_EQ(y[0][0][0].item<float>(), 0.0f);
  EXPECT_EQ(y[0][0][4].item<float>(), 2.0f);
}

// 0.75 a + 0.25 b along the width, then along the height, by fma from the first.
TEST(Resampling, TakesTheLastDimensionFirst) {
  const Tensor x = at::tensor({1.1f, 2.3f, 3.7f, 5.9f}).view({1, 1, 2, 2});
  const aten::OperatorSwitch on;
  const auto mix = [](float a, float b) { return std::fma(0.25f, b, 0.75f * a); };
  const float top = mix(1.1f, 2.3f), bottom = mix(3.7f, 5.9f), other = mix(mix(1.1f, 3.7f), mix(2.3f, 5.9f));
  EXPECT_EQ(at::upsample_bilinear2d(x, {4, 4}, false)[0][0][1][1].item<float>(), mix(top, bottom));
  EXPECT_NE(mix(top, bottom), other) << "the values do not tell";
}

TEST(Resampling, Refuses) {
  const Tensor x = at::ones({1, 2, 4, 4});
  const aten::OperatorSwitch on;
  expect_throws([&] { at::upsample_bilinear2d(x.to(at::kDouble), {8, 8}, false); }, "Double");
  expect_throws([&] { at::upsample_bilinear2d(x, {0, 8}, false); }, "");
}

}  // namespace
}  // namespace isobit::test
