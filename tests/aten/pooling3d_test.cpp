// Pooling in one and three dimensions, adaptive maxima, unpooling, fold: values, gradients, rules at the edge.
#include "operator_cases.h"

namespace isobit::test {
namespace {

TEST(Pooling3d, ValuesGradientsThreadsStridesAndStockBack) {
  at::manual_seed(400);
  const Tensor line = at::randn({3, 4, 23}), image = at::randn({2, 3, 9, 14}), body = at::randn({2, 3, 6, 7, 9});
  const Case cases[] = {
      {"maxima", {body}, [](const Tensors& t) { return at::max_pool3d(t[0], 2); }},
      {"maxima, all options",
       {body},
       [](const Tensors& t) {
         return at::max_pool3d(t[0], {3, 2, 3}, {2, 1, 3}, {1, 0, 1}, {1, 2, 2}, true);
       }},
      {"maxima without batch", {body[0]}, [](const Tensors& t) { return at::max_pool3d(t[0], 3, 1, 1); }},
      {"averages", {body}, [](const Tensors& t) { return at::avg_pool3d(t[0], 2); }},
      {"averages, all options",
       {body},
       [](const Tensors& t) {
         return at::avg_pool3d(t[0], {3, 2, 3}, {2, 1, 2}, {1, 1, 0}, true, true);
       }},
      {"averages of what is inside",
       {body},
       [](const Tensors& t) {
         return at::avg_pool3d(t[0], {3, 2, 3}, {2, 1, 2}, {1, 1, 1}, true, false);
       }},
      {"averages by a divisor", {body}, [](const Tensors& t) { return at::avg_pool3d(t[0], 2, 1, 0, false, true, 5); }},
      {"adaptive averages",
       {body},
       [](const Tensors& t) {
         return at::adaptive_avg_pool3d(t[0], {4, 3, 5});
       }},
      {"adaptive average",
       {body},
       [](const Tensors& t) {
         return at::adaptive_avg_pool3d(t[0], {1, 1, 1});
       }},
      {"adaptive maxima",
       {image},
       [](const Tensors& t) {
         return std::get<0>(at::adaptive_max_pool2d(t[0], {4, 5}));
       }},
      {"adaptive maxima of bodies",
       {body},
       [](const Tensors& t) {
         return std::get<0>(at::adaptive_max_pool3d(t[0], {4, 3, 5}));
       }},
      {"adaptive maxima of lines",
       {line},
       [](const Tensors& t) { return std::get<0>(at::adaptive_max_pool1d(t[0], {6})); }},
      {"no images", {at::randn({0, 3, 4, 4, 4})}, [](const Tensors& t) { return at::max_pool3d(t[0], 2); }},
      {"unpooled",
       {at::randn({2, 3, 4, 5})},
       [](const Tensors& t) {
         const auto [y, index] = at::max_pool2d_with_indices(t[0], 2, 1);
         return at::max_unpool2d(y, index, {4, 5});
       }},
      {"unpooled bodies",
       {body},
       [](const Tensors& t) {
         const auto [y, index] = at::max_pool3d_with_indices(t[0], 2);
         return at::max_unpool3d(y, index, {6, 7, 9}, {2, 2, 2}, {0, 0, 0});
       }},
      {"maxima of lines", {line}, [](const Tensors& t) { return at::max_pool1d(t[0], 3, 2, 1, 1, true); }},
      {"averages of lines", {line}, [](const Tensors& t) { return at::avg_pool1d(t[0], 4, 3, 2, true); }},
      {"adaptive averages of lines", {line}, [](const Tensors& t) { return at::adaptive_avg_pool1d(t[0], 5); }},
      {"fold",
       {at::randn({2, 12, 5 * 6})},
       [](const Tensors& t) {
         return at::col2im(t[0], {9, 8}, {3, 2}, {1, 2}, {1, 0}, {2, 1});
       }},
      {"fold without batch",
       {at::randn({4, 9})},
       [](const Tensors& t) {
         return at::col2im(t[0], {4, 4}, {2, 2}, {1, 1}, {0, 0}, {1, 1});
       }},
      {"unfold",
       {image},
       [](const Tensors& t) {
         return at::im2col(t[0], {3, 2}, {1, 2}, {1, 0}, {2, 1});
       }},
  };
  for (const Case& c : cases) check(c);
}

TEST(Pooling3d, MaximaFollowTheRulesOfTwoDimensions) {
  Tensor image = at::randn({2, 3, 8, 9});
  image[0][0][1][1] = std::numeric_limits<float>::quiet_NaN();
  image[1][2] = -0.0f;
  image[1][2][3][3] = 0.0f;
  image[1][1] = -std::numeric_limits<float>::infinity();
  const aten::OperatorSwitch on;
  const auto [y, index] = at::max_pool2d_with_indices(image, {3, 2}, {2, 2}, {1, 1});
  const auto [z, place] = at::max_pool3d_with_indices(image.unsqueeze(2), {1, 3, 2}, {1, 2, 2}, {0, 1, 1});
  EXPECT_TRUE(same_bits(z.squeeze(2), y));
  EXPECT_TRUE(same_bits(place.squeeze(2), index));
  const Tensor averages = at::avg_pool2d(image, {3, 2}, {2, 2}, {1, 1}, true, false);
  EXPECT_TRUE(
      same_bits(at::avg_pool3d(image.unsqueeze(2), {1, 3, 2}, {1, 2, 2}, {0, 1, 1}, true, false).squeeze(2), averages));
  EXPECT_TRUE(same_bits(at::adaptive_avg_pool3d(image.unsqueeze(2), {1, 3, 4}).squeeze(2),
                        at::adaptive_avg_pool2d(image, {3, 4})));
}

TEST(Pooling3d, FoldAddsTheTapsInOrder) {  // 1, 2^-24, 2^-24 and 0 meet in the middle
  Tensor columns = at::zeros({1, 4, 4});
  columns[0][0][3] = 1.0f, columns[0][1][2] = 0x1p-24f, columns[0][2][1] = 0x1p-24f;
  const aten::OperatorSwitch on;
  EXPECT_EQ(at::col2im(columns, {3, 3}, {2, 2}, {1, 1}, {0, 0}, {1, 1})[0][0][1][1].item<float>(), 1.0f);
}

TEST(Pooling3d, Refuses) {
  const Tensor x = at::ones({1, 2, 4, 4, 4});
  const aten::OperatorSwitch on;
  expect_throws([&] { at::avg_pool3d(x.to(at::kDouble), 2); }, "Double");
  expect_throws([&] { at::avg_pool3d(x, 5); }, "larger than the image");
  expect_throws([&] { at::max_unpool2d(x[0], at::full({2, 4, 4, 4}, 99, at::kLong), {4, 4}); }, "outside");
}

}  // namespace
}  // namespace isobit::test
