// Convolutions: values and gradients over strides, padding, dilation, groups; one dimension; batch splits.
#include "contract/ordered_dot.h"
#include "kernels/conv2d.h"
#include "operator_cases.h"

namespace isobit::test {
namespace {

Case conv2d(const std::string& name, at::IntArrayRef x, at::IntArrayRef w, std::int64_t stride, std::int64_t pad,
            std::int64_t dilation, std::int64_t groups) {
  return {name, {at::randn(x), at::randn(w), at::randn({w[0]})}, [=](const Tensors& t) {
            return at::conv2d(t[0], t[1], t[2], stride, pad, dilation, groups);
          }};
}

TEST(Convolution, ValuesGradientsThreadsStridesAndStockBack) {
  at::manual_seed(8);
  const Case cases[] = {
      conv2d("LeNet", {3, 1, 28, 28}, {6, 1, 5, 5}, 1, 2, 1, 1),
      conv2d("3x3", {2, 20, 9, 11}, {7, 20, 3, 3}, 1, 1, 1, 1),
      conv2d("7x7 stride 2", {2, 3, 21, 20}, {8, 3, 7, 7}, 2, 3, 1, 1),
      conv2d("1x1 stride 2", {2, 16, 8, 8}, {4, 16, 1, 1}, 2, 0, 1, 1),
      conv2d("dilation", {2, 4, 12, 12}, {6, 4, 3, 3}, 1, 2, 2, 1),
      conv2d("groups", {2, 8, 7, 7}, {12, 2, 3, 3}, 1, 1, 1, 4),
      conv2d("depthwise stride 2", {2, 8, 9, 9}, {8, 1, 3, 3}, 2, 1, 1, 8),
      conv2d("no images", {0, 2, 6, 6}, {3, 2, 3, 3}, 1, 1, 1, 1),
      {"without bias",
       {at::randn({2, 3, 8, 8}), at::randn({5, 3, 3, 3})},
       [](const Tensors& t) { return at::conv2d(t[0], t[1]); }},
      {"one dimension",
       {at::randn({3, 4, 50}), at::randn({6, 2, 5}), at::randn({6})},
       [](const Tensors& t) { return at::conv1d(t[0], t[1], t[2], 2, 3, 2, 2); }},
      {"same padding",
       {at::randn({2, 3, 8, 8}), at::randn({5, 3, 4, 4}), at::randn({5})},
       [](const Tensors& t) { return at::conv2d(t[0], t[1], t[2], 1, "same"); }},
      {"one image without batch",
       {at::randn({3, 8, 8}), at::randn({5, 3, 3, 3}), at::randn({5})},
       [](const Tensors& t) { return at::conv2d(t[0], t[1], t[2]); }},
  };
  for (const Case& c : cases) check(c);
}

TEST(Convolution, HasTheBitsOfTheDefinition) {  // order (ci, kh, kw), then the bias
  at::manual_seed(9);
  const Tensor x = at::randn({1, 64, 3, 3}), w = at::randn({2, 64, 3, 3}), b = at::randn({2});
  const aten::OperatorSwitch on;
  const Tensor y = at::conv2d(x, w, b);
  for (int o = 0; o < 2; ++o) {
    const float tree = contract::ordered_dot(x.data_ptr<float>(), 1, w.data_ptr<float>() + o * 576, 1, 576);
    EXPECT_EQ(y[0][o].item<float>(), tree + b[o].item<float>());
  }
}

TEST(Convolution, ABatchSplitKeepsTheBits) {
  at::manual_seed(10);
  const Tensor x = at::randn({8, 3, 14, 14}), w = at::randn({9, 3, 3, 3}), b = at::randn({9});
  const aten::OperatorSwitch on;
  Tensors parts;
  for (const Tensor& part : x.split(3)) parts.push_back(at::conv2d(part, w, b, 1, 1));
  EXPECT_TRUE(same_bits(at::cat(parts), at::conv2d(x, w, b, 1, 1)));
}

TEST(Convolution, ChannelsLastGivesTheSameBits) {
  at::manual_seed(11);
  const Tensor x = at::randn({4, 6, 10, 10}), w = at::randn({8, 6, 3, 3});
  const aten::OperatorSwitch on;
  const Tensor last =
      at::conv2d(x.contiguous(at::MemoryFormat::ChannelsLast), w.contiguous(at::MemoryFormat::ChannelsLast));
  EXPECT_TRUE(same_bits(last, at::conv2d(x, w)));
}

Case conv3d(const std::string& name, at::IntArrayRef x, at::IntArrayRef w, const std::vector<std::int64_t>& stride,
            const std::vector<std::int64_t>& pad, const std::vector<std::int64_t>& dilation, std::int64_t groups) {
  return {name, {at::randn(x), at::randn(w), at::randn({w[0]})}, [=](const Tensors& t) {
            return at::conv3d(t[0], t[1], t[2], stride, pad, dilation, groups);
          }};
}

TEST(Convolution, ThreeDimensions) {
  at::manual_seed(12);
  const Case cases[] = {
      conv3d("3x3x3", {2, 3, 5, 6, 7}, {4, 3, 3, 3, 3}, {1}, {1}, {1}, 1),
      conv3d("strides", {2, 4, 9, 8, 7}, {6, 4, 3, 2, 3}, {2, 1, 2}, {1, 0, 1}, {1}, 1),
      conv3d("stride larger than the kernel", {1, 2, 11, 5, 5}, {3, 2, 2, 2, 2}, {4, 2, 3}, {0, 1, 0}, {1}, 1),
      conv3d("dilation and stride share a factor", {1, 2, 12, 6, 9}, {3, 2, 3, 2, 2}, {2, 1, 1}, {2, 1, 1}, {4, 2, 3},
             1),
      conv3d("groups", {2, 6, 4, 5, 6}, {9, 2, 2, 3, 1}, {1}, {1, 1, 0}, {1}, 3),
      conv3d("depth of one", {2, 3, 1, 6, 6}, {4, 3, 1, 3, 3}, {1}, {0}, {1}, 1),
      conv3d("more padding than depth", {1, 2, 1, 4, 4}, {2, 2, 2, 2, 2}, {3, 1, 1}, {4, 1, 1}, {1}, 1),
      conv3d("some planes at a time", {1, 3, 12, 24, 24}, {5, 3, 3, 3, 3}, {1}, {1, 0, 1}, {1}, 1),
      conv3d("some planes at a time, strides", {2, 2, 17, 24, 24}, {3, 2, 3, 3, 3}, {2, 1, 1}, {1, 1, 0}, {1}, 1),
      conv3d("no images", {0, 2, 4, 4, 4}, {3, 2, 3, 3, 3}, {1}, {1}, {1}, 1),
  };
  for (const Case& c : cases) check(c);
}

TEST(Convolution, ThreeDimensionsHaveTheBitsOfTheDefinition) {  // order (ci, kd, kh, kw)
  at::manual_seed(13);
  const Tensor x = at::randn({1, 50, 3, 3, 3}), w = at::randn({2, 50, 3, 3, 3}), b = at::randn({2});
  const aten::OperatorSwitch on;
  const Tensor y = at::conv3d(x, w, b);
  for (int o = 0; o < 2; ++o) {
    const float tree = contract::ordered_dot(x.data_ptr<float>(), 1, w.data_ptr<float>() + o * 1350, 1, 1350);
    EXPECT_EQ(y[0][o].item<float>(), tree + b[o].item<float>());
  }
}

TEST(Convolution, Transposed) {
  at::manual_seed(14);
  const auto one = [](at::IntArrayRef x, at::IntArrayRef w, std::int64_t groups) -> Tensors {
    return {at::randn(x), at::randn(w), at::randn({w[1] * groups})};
  };
  const Case cases[] = {
      {"2x2 stride 2", one({2, 6, 7, 5}, {6, 4, 2, 2}, 1),
       [](const Tensors& t) { return at::conv_transpose2d(t[0], t[1], t[2], 2); }},
      {"padding, output padding, dilation, groups", one({2, 6, 5, 4}, {6, 3, 3, 2}, 2),
       [](const Tensors& t) {
         return at::conv_transpose2d(t[0], t[1], t[2], {3, 2}, {2, 1}, {2, 1}, 2, {1, 3});
       }},
      {"stride 1", one({2, 3, 6, 6}, {3, 5, 3, 3}, 1),
       [](const Tensors& t) { return at::conv_transpose2d(t[0], t[1], t[2], 1, 1); }},
      {"one dimension", one({3, 4, 20}, {4, 5, 4}, 1),
       [](const Tensors& t) { return at::conv_transpose1d(t[0], t[1], t[2], 2, 1, 1); }},
      {"three dimensions", one({2, 4, 3, 4, 5}, {4, 3, 3, 2, 3}, 1),
       [](const Tensors& t) {
         return at::conv_transpose3d(t[0], t[1], t[2], {2, 2, 1}, {1, 0, 1}, {1, 0, 0});
       }},
      {"without bias",
       {at::randn({2, 3, 4, 4}), at::randn({3, 5, 3, 3})},
       [](const Tensors& t) { return at::conv_transpose2d(t[0], t[1]); }},
      {"no images", one({0, 3, 4, 4}, {3, 5, 3, 3}, 1),
       [](const Tensors& t) { return at::conv_transpose2d(t[0], t[1], t[2]); }},
  };
  for (const Case& c : cases) check(c);
}

TEST(Convolution, ATransposedOneHasTheBitsOfTheInputGradient) {
  at::manual_seed(15);
  const Tensor x = at::randn({2, 3, 11, 11}).requires_grad_(), w = at::randn({8, 3, 3, 3}),
               dy = at::randn({2, 8, 6, 6});
  const aten::OperatorSwitch on;
  at::conv2d(x, w, {}, 2, 1).backward(dy);
  EXPECT_TRUE(same_bits(at::conv_transpose2d(dy, w, {}, 2, 1), x.grad()));
}

TEST(Convolution, RefusesWhatTheContractDoesNotSay) {
  const Tensor x = at::ones({1, 2, 5, 5}), w = at::ones({2, 2, 3, 3});
  const aten::OperatorSwitch on;
  expect_throws([&] { at::conv_transpose2d(x, w, {}, 1, 0, 1, 1, 2); }, "output padding");
  expect_throws([&] { at::conv_transpose2d(x, w, {}, 2, 0, 2); }, "output padding");
  const Tensor x4 = at::ones({1, 2, 5, 5, 5, 5}), w4 = at::ones({2, 2, 3, 3, 3, 3});
  expect_throws([&] { at::convolution(x4, w4, {}, {1}, {0}, {1}, false, {0}, 1); }, "spatial");
  expect_throws([&] { at::conv2d(x.to(at::kDouble), w.to(at::kDouble)); }, "Double");
  expect_throws([&] { at::conv2d(x, at::ones({2, 3, 3, 3})); }, "does not fit");
  expect_throws([&] { at::conv2d(x, at::ones({2, 2, 7, 7})); }, "larger than the padded input");
}

}  // namespace
}  // namespace isobit::test
