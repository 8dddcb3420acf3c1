// Deformable convolution (contract, section 16): each tap of the kernel reads the image beside its place, by an offset
// of its own.
//
// The values read are columns, and the rest is products by section 3 and sums by section 4.
#include <ATen/ops/add.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/matmul.h>
#include <ATen/ops/sum.h>
#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>
#include <ATen/core/LegacyTypeDispatch.h>

#include <cmath>
#include <tuple>

#include "aten/refusal.h"
#include "aten/vision/vision.h"
#include "kernels/float_environment.h"
#include "kernels/threads.h"

namespace isobit::aten::vision {
namespace {

using at::Tensor;
using Sizes = at::IntArrayRef;

constexpr const char* kForward = "torchvision::deform_conv2d";
constexpr const char* kBackward = "torchvision::_deform_conv2d_backward";

struct Shape {
  std::int64_t images, channels, height, width;  // of the input
  std::int64_t kernel_height, kernel_width;
  std::int64_t rows, columns;  // of the output
  std::int64_t stride[2], padding[2], dilation[2];
  std::int64_t groups, offset_groups;
  [[nodiscard]] std::int64_t taps() const { return kernel_height * kernel_width; }
  [[nodiscard]] std::int64_t places() const { return rows * columns; }
  [[nodiscard]] std::int64_t channels_of_offsets() const { return channels / offset_groups; }
};

struct Call {
  const char* op;
  Tensor input, weight, offset, mask;  // on the host; mask undefined where none is used
  Shape shape;
};

Call call_of(const char* op, const Tensor& input, const Tensor& weight, const Tensor& offset, const Tensor& mask,
             std::initializer_list<const c10::SymInt*> numbers, bool use_mask) {
  TORCH_CHECK(input.dim() == 4 && weight.dim() == 4 && offset.dim() == 4, op,
              ": input, weight and offset of four dimensions expected");
  std::int64_t n[8];
  std::size_t i = 0;
  for (const c10::SymInt* number : numbers) n[i++] = number->expect_int();
  for (const std::size_t positive : {0, 1, 4, 5, 6, 7})
    TORCH_CHECK(n[positive] > 0, op, ": strides, dilations and groups must be positive");
  TORCH_CHECK(n[2] >= 0 && n[3] >= 0, op, ": paddings must not be negative");
  Shape s{
      input.size(0), input.size(1), input.size(2), input.size(3), weight.size(2), weight.size(3), 0, 0, {n[0], n[1]},
      {n[2], n[3]},  {n[4], n[5]},  n[6],          n[7]};
  s.rows = (s.height + 2 * s.padding[0] - (s.dilation[0] * (s.kernel_height - 1) + 1)) / s.stride[0] + 1;
  s.columns = (s.width + 2 * s.padding[1] - (s.dilation[1] * (s.kernel_width - 1) + 1)) / s.stride[1] + 1;
  TORCH_CHECK(s.rows > 0 && s.columns > 0, op, ": an output of ", s.rows, " by ", s.columns);
  TORCH_CHECK(s.channels % s.groups == 0 && weight.size(0) % s.groups == 0 && s.channels % s.offset_groups == 0 &&
                  weight.size(1) * s.groups == s.channels,
              op, ": ", s.channels, " channels in ", s.groups, " groups (offsets: ", s.offset_groups,
              ") do not fit weights ", weight.sizes());
  TORCH_CHECK(offset.sizes() == Sizes({s.images, s.offset_groups * 2 * s.taps(), s.rows, s.columns}), op,
              ": offsets of sizes ", offset.sizes());
  TORCH_CHECK(!use_mask || mask.sizes() == Sizes({s.images, s.offset_groups * s.taps(), s.rows, s.columns}), op,
              ": a mask of sizes ", mask.sizes());
  return {op, on_host(op, input), on_host(op, weight), on_host(op, offset), use_mask ? on_host(op, mask) : Tensor(), s};
}

// ---- where a tap reads

// The neighbours of a place, and how their weights change with it: [0] downwards, [1] to the right. Outside the image
// there are none (weights 0); NaN is outside.
struct Reading {
  Taps taps{};
  float change[2][4] = {};
};

Reading read_at(float y, float x, std::int64_t height, std::int64_t width) {
  Reading reading;
  if (!(y > -1.0f && y < static_cast<float>(height) && x > -1.0f && x < static_cast<float>(width))) return reading;
  const float top = std::floor(y), left = std::floor(x), down = y - top, across = x - left;
  const float up = 1.0f - down, back = 1.0f - across;
  const float weight[4] = {up * back, up * across, down * back, down * across};
  const float vertical[4] = {-back, -across, back, across}, horizontal[4] = {-up, up, -down, down};
  for (int t = 0; t < 4; ++t) {
    const std::int64_t row = static_cast<std::int64_t>(top) + t / 2, column = static_cast<std::int64_t>(left) + t % 2;
    if (row < 0 || row >= height || column < 0 || column >= width) continue;
    reading.taps.place[t] = row * width + column;
    reading.taps.weight[t] = weight[t];
    reading.change[0][t] = vertical[t], reading.change[1][t] = horizontal[t];
  }
  return reading;
}

// One group of offsets, tap of the kernel and place of the output of an image.
struct Place {
  std::int64_t image, group, tap, output;
};

std::int64_t offset_index(const Shape& s, const Place& p, int direction) {
  return ((p.image * s.offset_groups + p.group) * 2 * s.taps() + 2 * p.tap + direction) * s.places() + p.output;
}
std::int64_t mask_index(const Shape& s, const Place& p) {
  return ((p.image * s.offset_groups + p.group) * s.taps() + p.tap) * s.places() + p.output;
}

Reading reading_of(const Call& call, const Place& p) {
  const Shape& s = call.shape;
  const float* const offsets = call.offset.const_data_ptr<float>();
  const auto along = [&](int d, std::int64_t output, std::int64_t tap) {
    return static_cast<float>(output * s.stride[d] - s.padding[d] + tap * s.dilation[d]) +
           offsets[offset_index(s, p, d)];
  };
  return read_at(along(0, p.output / s.columns, p.tap / s.kernel_width),
                 along(1, p.output % s.columns, p.tap % s.kernel_width), s.height, s.width);
}
float mask_of(const Call& call, const Place& p) {
  return call.mask.defined() ? call.mask.const_data_ptr<float>()[mask_index(call.shape, p)] : 1.0f;
}

float sum_of(const float* image, const std::int64_t* place, const float* weight) {
  float sum = 0.0f;
  for (int t = 0; t < 4; ++t) {
    if (weight[t] != 0.0f) sum = sum + weight[t] * image[place[t]];
  }
  return sum;
}

// visit(Place) for every place of (image, group) pairs, in parallel over those.
template <class Visit>
void for_places(const Shape& s, Visit&& visit) {
  kernels::parallel_for(0, s.images * s.offset_groups, 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) {
      for (std::int64_t tap = 0; tap < s.taps(); ++tap) {
        for (std::int64_t output = 0; output < s.places(); ++output)
          visit(Place{i / s.offset_groups, i % s.offset_groups, tap, output});
      }
    }
  });
}

// Of (image, channel, tap, output) in [images, channels * taps, places].
std::int64_t column_index(const Shape& s, const Place& p, std::int64_t channel) {
  return ((p.image * s.channels + channel) * s.taps() + p.tap) * s.places() + p.output;
}

Tensor columns_of(const Call& call) {
  const Shape& s = call.shape;
  const Tensor columns = at::zeros({s.images, s.channels * s.taps(), s.places()});
  const float* const input = call.input.const_data_ptr<float>();
  float* const values = columns.mutable_data_ptr<float>();
  for_places(s, [&](const Place& p) {
    const Reading reading = reading_of(call, p);
    const float mask = mask_of(call, p);
    for (std::int64_t c = p.group * s.channels_of_offsets(); c < (p.group + 1) * s.channels_of_offsets(); ++c) {
      const float* const image = input + (p.image * s.channels + c) * s.height * s.width;
      values[column_index(s, p, c)] = mask * sum_of(image, reading.taps.place, reading.taps.weight);
    }
  });
  return columns;
}

// ---- products: one for each group of channels

Tensor of_group(const Tensor& tensor, std::int64_t dim, std::int64_t group, std::int64_t groups) {
  const std::int64_t size = tensor.size(dim) / groups;
  return tensor.narrow(dim, group * size, size);
}

Tensor deform_conv2d(const Tensor& input, const Tensor& weight, const Tensor& offset, const Tensor& mask,
                     const Tensor& bias, const c10::SymInt& stride_h, const c10::SymInt& stride_w,
                     const c10::SymInt& pad_h, const c10::SymInt& pad_w, const c10::SymInt& dilation_h,
                     const c10::SymInt& dilation_w, const c10::SymInt& groups, const c10::SymInt& offset_groups,
                     bool use_mask) {
  const at::AutoDispatchBelowADInplaceOrView below;
  const kernels::FloatEnvironment environment;
  const Call call =
      call_of(kForward, input, weight, offset, mask,
              {&stride_h, &stride_w, &pad_h, &pad_w, &dilation_h, &dilation_w, &groups, &offset_groups}, use_mask);
  const Shape& s = call.shape;
  const Tensor columns = columns_of(call), flat = call.weight.flatten(1);
  std::vector<Tensor> parts;
  for (std::int64_t g = 0; g < s.groups; ++g)
    parts.push_back(at::matmul(of_group(flat, 0, g, s.groups), of_group(columns, 1, g, s.groups)));
  const Tensor product = at::cat(parts, 1).view({s.images, weight.size(0), s.rows, s.columns});
  return at::add(product, on_host(kForward, bias).view({1, -1, 1, 1})).to(input.device());
}

// ---- gradients

// One chain per pixel of the input, over taps and outputs in ascending order.
Tensor input_gradient(const Call& call, const Tensor& column_gradient) {
  const Shape& s = call.shape;
  const Tensor result = at::zeros_like(call.input);
  const float* const gradients = column_gradient.const_data_ptr<float>();
  float* const sums = result.mutable_data_ptr<float>();
  for_places(s, [&](const Place& p) {
    const Reading reading = reading_of(call, p);
    const float mask = mask_of(call, p);
    for (std::int64_t c = p.group * s.channels_of_offsets(); c < (p.group + 1) * s.channels_of_offsets(); ++c) {
      float* const image = sums + (p.image * s.channels + c) * s.height * s.width;
      const float part = mask * gradients[column_index(s, p, c)];
      for (int t = 0; t < 4; ++t) {
        if (reading.taps.weight[t] != 0.0f)
          image[reading.taps.place[t]] = image[reading.taps.place[t]] + reading.taps.weight[t] * part;
      }
    }
  });
  return result;
}

// Chains over a group's channels in ascending order.
std::tuple<Tensor, Tensor> offset_and_mask_gradients(const Call& call, const Tensor& column_gradient) {
  const Shape& s = call.shape;
  const Tensor offsets = at::zeros_like(call.offset);
  const Tensor masks = call.mask.defined() ? at::zeros_like(call.mask)
                                           : at::zeros({s.images, s.offset_groups * s.taps(), s.rows, s.columns});
  const float *const gradients = column_gradient.const_data_ptr<float>(), *const input =
                                                                              call.input.const_data_ptr<float>();
  float *const of_offsets = offsets.mutable_data_ptr<float>(), *const of_masks = masks.mutable_data_ptr<float>();
  for_places(s, [&](const Place& p) {
    const Reading reading = reading_of(call, p);
    const float mask = mask_of(call, p);
    float moved[2] = {0.0f, 0.0f}, masked = 0.0f;
    for (std::int64_t c = p.group * s.channels_of_offsets(); c < (p.group + 1) * s.channels_of_offsets(); ++c) {
      const float* const image = input + (p.image * s.channels + c) * s.height * s.width;
      const float gradient = gradients[column_index(s, p, c)];
      masked = masked + gradient * sum_of(image, reading.taps.place, reading.taps.weight);
      for (int d = 0; d < 2; ++d)
        moved[d] = moved[d] + (mask * sum_of(image, reading.taps.place, reading.change[d])) * gradient;
    }
    for (int d = 0; d < 2; ++d) of_offsets[offset_index(s, p, d)] = moved[d];
    if (call.mask.defined()) of_masks[mask_index(s, p)] = masked;
  });
  return {offsets, masks};
}

using Five = std::tuple<Tensor, Tensor, Tensor, Tensor, Tensor>;

Five deform_conv2d_backward(const Tensor& given, const Tensor& input, const Tensor& weight, const Tensor& offset,
                            const Tensor& mask, const Tensor& bias, const c10::SymInt& stride_h,
                            const c10::SymInt& stride_w, const c10::SymInt& pad_h, const c10::SymInt& pad_w,
                            const c10::SymInt& dilation_h, const c10::SymInt& dilation_w, const c10::SymInt& groups,
                            const c10::SymInt& offset_groups, bool use_mask) {
  const at::AutoDispatchBelowADInplaceOrView below;
  const kernels::FloatEnvironment environment;
  const Call call =
      call_of(kBackward, input, weight, offset, mask,
              {&stride_h, &stride_w, &pad_h, &pad_w, &dilation_h, &dilation_w, &groups, &offset_groups}, use_mask);
  const Shape& s = call.shape;
  TORCH_CHECK(given.sizes() == Sizes({s.images, weight.size(0), s.rows, s.columns}), kBackward,
              ": a gradient of sizes ", given.sizes());
  const Tensor dy = on_host(kBackward, given).view({s.images, weight.size(0), s.places()});
  const Tensor columns = columns_of(call), flat = call.weight.flatten(1);
  std::vector<Tensor> of_columns, of_weights;
  for (std::int64_t g = 0; g < s.groups; ++g) {
    const Tensor part = of_group(dy, 1, g, s.groups);
    of_columns.push_back(at::matmul(of_group(flat, 0, g, s.groups).t(), part));
    // One product over all images and places: the terms of a weight in their order.
    const Tensor rows = part.transpose(0, 1).flatten(1),
                 others = of_group(columns, 1, g, s.groups).transpose(0, 1).flatten(1);
    of_weights.push_back(at::matmul(rows, others.t()));
  }
  const Tensor column_gradient = at::cat(of_columns, 1).contiguous();
  const auto [offsets, masks] = offset_and_mask_gradients(call, column_gradient);
  const auto back = [&](const Tensor& result) { return result.to(input.device()); };
  return {back(input_gradient(call, column_gradient)), back(at::cat(of_weights, 0).view(weight.sizes())), back(offsets),
          back(masks), back(dy.sum(at::IntArrayRef({0, 2})).view(bias.sizes()))};
}

}  // namespace

std::vector<LibraryOperator> deformable_operators() {
  using c10::KernelFunction;
  return {
      {"torchvision::deform_conv2d(Tensor input, Tensor weight, Tensor offset, Tensor mask, Tensor bias, SymInt "
       "stride_h, SymInt "
       "stride_w, SymInt pad_h, SymInt pad_w, SymInt dilation_h, SymInt dilation_w, SymInt groups, SymInt "
       "offset_groups, bool "
       "use_mask) -> Tensor",
       "16: columns read beside the kernel's places; 3: products",
       [] { return KernelFunction::makeFromUnboxedFunction(TORCH_FN(deform_conv2d)); }},
      {"torchvision::_deform_conv2d_backward(Tensor grad, Tensor input, Tensor weight, Tensor offset, Tensor mask, "
       "Tensor bias, SymInt "
       "stride_h, SymInt stride_w, SymInt pad_h, SymInt pad_w, SymInt dilation_h, SymInt dilation_w, SymInt groups, "
       "SymInt "
       "offset_groups, bool use_mask) -> (Tensor, Tensor, Tensor, Tensor, Tensor)",
       "16: chains over taps, outputs and channels; 3: products",
       [] { return KernelFunction::makeFromUnboxedFunction(TORCH_FN(deform_conv2d_backward)); }},
  };
}

}  // namespace isobit::aten::vision
