// Max, average and adaptive average pooling over [n, c, h, w] or [c, h, w] (contract, sections 1 and 4).
#include <optional>
#include <tuple>

#include "aten/certified/support/entry.h"
#include "aten/certified/support/tensors.h"
#include "kernels/pool2d.h"

namespace isobit::aten {
namespace {

using at::IntArrayRef;
using at::Tensor;
using kernels::Pool2dShape;

std::int64_t at_dimension(IntArrayRef values, std::size_t d, std::int64_t absent) {
  return values.empty() ? absent : values.size() == 1 ? values[0] : values[d];
}

// torch's rule: with ceil_mode the last window may stick out, but must start inside the image or its left
// padding.
std::int64_t output_size(std::int64_t in, std::int64_t kernel, std::int64_t stride, std::int64_t pad,
                         std::int64_t dilation, bool ceil_mode) {
  const std::int64_t free = in + 2 * pad - dilation * (kernel - 1) - 1 + (ceil_mode ? stride - 1 : 0);
  std::int64_t out = (free >= 0 ? free / stride : -((-free + stride - 1) / stride)) + 1;
  if (ceil_mode && (out - 1) * stride >= in + pad) --out;
  return out;
}

void check_image(const char* op, const Tensor& x) {
  require_float(op, x);
  TORCH_CHECK(x.dim() == 3 || x.dim() == 4, op, ": [n, c, h, w] or [c, h, w] expected, got ", x.sizes());
}

Pool2dShape planes_of(const Tensor& x) {
  Pool2dShape shape;
  shape.planes = x.size(-3) * (x.dim() == 4 ? x.size(0) : 1);
  shape.h = x.size(-2), shape.w = x.size(-1);
  return shape;
}

at::DimVector sizes_with(const Tensor& x, std::int64_t h, std::int64_t w) {
  at::DimVector sizes(x.sizes());
  sizes[x.dim() - 2] = h, sizes[x.dim() - 1] = w;
  return sizes;
}

struct Window {
  IntArrayRef kernel, stride, padding, dilation;
  bool ceil_mode = false;
};

Pool2dShape shape_of(const char* op, const Tensor& x, const Window& window) {
  check_image(op, x);
  TORCH_CHECK(!window.kernel.empty(), op, ": no kernel size");
  Pool2dShape s = planes_of(x);
  s.kh = at_dimension(window.kernel, 0, 1), s.kw = at_dimension(window.kernel, 1, 1);
  s.stride_h = at_dimension(window.stride, 0, s.kh), s.stride_w = at_dimension(window.stride, 1, s.kw);
  s.pad_h = at_dimension(window.padding, 0, 0), s.pad_w = at_dimension(window.padding, 1, 0);
  s.dilation_h = at_dimension(window.dilation, 0, 1), s.dilation_w = at_dimension(window.dilation, 1, 1);
  TORCH_CHECK(s.kh > 0 && s.kw > 0 && s.stride_h > 0 && s.stride_w > 0 && s.dilation_h > 0 && s.dilation_w > 0, op,
              ": kernel size, stride and dilation must be positive");
  TORCH_CHECK(s.pad_h >= 0 && s.pad_w >= 0 && 2 * s.pad_h <= s.dilation_h * (s.kh - 1) + 1 &&
                  2 * s.pad_w <= s.dilation_w * (s.kw - 1) + 1,
              op, ": padding must be at least 0 and at most half the kernel's extent");
  s.out_h = output_size(s.h, s.kh, s.stride_h, s.pad_h, s.dilation_h, window.ceil_mode);
  s.out_w = output_size(s.w, s.kw, s.stride_w, s.pad_w, s.dilation_w, window.ceil_mode);
  TORCH_CHECK(s.out_h > 0 && s.out_w > 0, op, ": the window is larger than the image of sizes ", x.sizes());
  return s;
}

void check_gradient(const char* op, const Tensor& dy, const Tensor& x, const Pool2dShape& shape) {
  require_float(op, dy);
  TORCH_CHECK(dy.sizes() == IntArrayRef(sizes_with(x, shape.out_h, shape.out_w)), op, ": grad_output has sizes ",
              dy.sizes(), ", not those of the output");
}

// ---- maximum

constexpr const char* kMax = "aten::max_pool2d_with_indices";
constexpr const char* kMaxBackward = "aten::max_pool2d_with_indices_backward";

std::tuple<Tensor, Tensor> max_pool(const Tensor& input, IntArrayRef kernel, IntArrayRef stride, IntArrayRef padding,
                                    IntArrayRef dilation, bool ceil_mode) {
  const Pool2dShape shape = shape_of(kMax, input, {kernel, stride, padding, dilation, ceil_mode});
  const Tensor x = contiguous(input);
  const at::DimVector sizes = sizes_with(x, shape.out_h, shape.out_w);
  Tensor y = new_tensor(sizes), index = new_tensor(sizes, at::kLong);
  kernels::max_pool2d(shape, x.const_data_ptr<float>(), y.mutable_data_ptr<float>(),
                      index.mutable_data_ptr<std::int64_t>());
  return {y, index};
}
std::tuple<Tensor&, Tensor&> max_pool_out(const Tensor& x, IntArrayRef kernel, IntArrayRef stride, IntArrayRef padding,
                                          IntArrayRef dilation, bool ceil_mode, Tensor& y, Tensor& index) {
  require_float(kMax, y);
  const auto [value, where] = max_pool(x, kernel, stride, padding, dilation, ceil_mode);
  copy_out(y, value);
  copy_out(index, where);
  return {y, index};
}
Tensor max_pool_backward(const Tensor& grad_output, const Tensor& x, IntArrayRef kernel, IntArrayRef stride,
                         IntArrayRef padding, IntArrayRef dilation, bool ceil_mode, const Tensor& indices) {
  const Pool2dShape shape = shape_of(kMaxBackward, x, {kernel, stride, padding, dilation, ceil_mode});
  check_gradient(kMaxBackward, grad_output, x, shape);
  TORCH_CHECK(indices.scalar_type() == at::kLong && indices.sizes() == grad_output.sizes(), kMaxBackward,
              ": indices do not fit grad_output");
  const Tensor dy = contiguous(grad_output), index = contiguous(indices);
  return write_new(x.sizes(), [&](float* dx) {
    kernels::max_pool2d_backward(shape, dy.const_data_ptr<float>(), index.const_data_ptr<std::int64_t>(), dx);
  });
}
Tensor& max_pool_backward_out(const Tensor& dy, const Tensor& x, IntArrayRef kernel, IntArrayRef stride,
                              IntArrayRef padding, IntArrayRef dilation, bool ceil_mode, const Tensor& index,
                              Tensor& dx) {
  require_float(kMaxBackward, dx);
  copy_out(dx, max_pool_backward(dy, x, kernel, stride, padding, dilation, ceil_mode, index));
  return dx;
}

// ---- average

constexpr const char* kAverage = "aten::avg_pool2d";
constexpr const char* kAverageBackward = "aten::avg_pool2d_backward";

std::int64_t divisor_of(const char* op, std::optional<std::int64_t> override) {
  TORCH_CHECK(!override || *override != 0, op, ": the divisor must not be zero");
  return override.value_or(0);
}

Tensor average_pool(const Tensor& input, IntArrayRef kernel, IntArrayRef stride, IntArrayRef padding, bool ceil_mode,
                    bool count_padding, std::optional<std::int64_t> divisor) {
  const Pool2dShape shape = shape_of(kAverage, input, {kernel, stride, padding, {}, ceil_mode});
  const std::int64_t fixed = divisor_of(kAverage, divisor);
  const Tensor x = contiguous(input);
  return write_new(sizes_with(x, shape.out_h, shape.out_w), [&](float* y) {
    kernels::average_pool2d(shape, count_padding, fixed, x.const_data_ptr<float>(), y);
  });
}
Tensor& average_pool_out(const Tensor& x, IntArrayRef kernel, IntArrayRef stride, IntArrayRef padding, bool ceil_mode,
                         bool count_padding, std::optional<std::int64_t> divisor, Tensor& y) {
  require_float(kAverage, y);
  copy_out(y, average_pool(x, kernel, stride, padding, ceil_mode, count_padding, divisor));
  return y;
}
Tensor average_pool_backward(const Tensor& grad_output, const Tensor& x, IntArrayRef kernel, IntArrayRef stride,
                             IntArrayRef padding, bool ceil_mode, bool count_padding,
                             std::optional<std::int64_t> divisor) {
  const Pool2dShape shape = shape_of(kAverageBackward, x, {kernel, stride, padding, {}, ceil_mode});
  check_gradient(kAverageBackward, grad_output, x, shape);
  const std::int64_t fixed = divisor_of(kAverageBackward, divisor);
  const Tensor dy = contiguous(grad_output);
  return write_new(x.sizes(), [&](float* dx) {
    kernels::average_pool2d_backward(shape, count_padding, fixed, dy.const_data_ptr<float>(), dx);
  });
}
Tensor& average_pool_backward_out(const Tensor& dy, const Tensor& x, IntArrayRef kernel, IntArrayRef stride,
                                  IntArrayRef padding, bool ceil_mode, bool count_padding,
                                  std::optional<std::int64_t> divisor, Tensor& dx) {
  require_float(kAverageBackward, dx);
  copy_out(dx, average_pool_backward(dy, x, kernel, stride, padding, ceil_mode, count_padding, divisor));
  return dx;
}

// ---- adaptive average

constexpr const char* kAdaptive = "aten::_adaptive_avg_pool2d";
constexpr const char* kAdaptiveBackward = "aten::_adaptive_avg_pool2d_backward";

Tensor adaptive_average_pool(const Tensor& input, IntArrayRef output_size) {
  check_image(kAdaptive, input);
  TORCH_CHECK(output_size.size() == 2 && output_size[0] >= 0 && output_size[1] >= 0, kAdaptive,
              ": two output sizes expected, got ", output_size);
  const Tensor x = contiguous(input);
  Pool2dShape shape = planes_of(x);
  shape.out_h = output_size[0], shape.out_w = output_size[1];
  TORCH_CHECK((shape.h > 0 && shape.w > 0) || x.numel() == 0, kAdaptive, ": empty image of sizes ", x.sizes());
  return write_new(sizes_with(x, shape.out_h, shape.out_w),
                   [&](float* y) { kernels::adaptive_average_pool2d(shape, x.const_data_ptr<float>(), y); });
}
Tensor& adaptive_average_pool_out(const Tensor& x, IntArrayRef output_size, Tensor& y) {
  require_float(kAdaptive, y);
  copy_out(y, adaptive_average_pool(x, output_size));
  return y;
}
Tensor adaptive_average_pool_backward(const Tensor& grad_output, const Tensor& x) {
  check_image(kAdaptiveBackward, x);
  require_float(kAdaptiveBackward, grad_output);
  Pool2dShape shape = planes_of(x);
  shape.out_h = grad_output.size(-2), shape.out_w = grad_output.size(-1);
  check_gradient(kAdaptiveBackward, grad_output, x, shape);
  const Tensor dy = contiguous(grad_output);
  return write_new(
      x.sizes(), [&](float* dx) { kernels::adaptive_average_pool2d_backward(shape, dy.const_data_ptr<float>(), dx); });
}

}  // namespace

std::vector<Entry> pooling_operators() {
  constexpr std::string_view maximum = "1: the first NaN, else the first of the largest, with its index";
  constexpr std::string_view average = "4: chain over (kh, kw), divided by the count";
  constexpr std::string_view gradient = "4: over covering windows in ascending (oh, ow)";
  return {
      certify<max_pool>(kMax, "", maximum),
      certify<max_pool_out>(kMax, "out", maximum),
      certify<max_pool_backward>(kMaxBackward, "", gradient),
      certify<max_pool_backward_out>(kMaxBackward, "grad_input", gradient),
      certify<average_pool>(kAverage, "", average),
      certify<average_pool_out>(kAverage, "out", average),
      certify<average_pool_backward>(kAverageBackward, "", gradient),
      certify<average_pool_backward_out>(kAverageBackward, "grad_input", gradient),
      certify<adaptive_average_pool>(kAdaptive, "", average),
      certify<adaptive_average_pool_out>("aten::adaptive_avg_pool2d", "out", average),
      certify<adaptive_average_pool_backward>(kAdaptiveBackward, "", gradient),
  };
}

}  // namespace isobit::aten
