// Pooling of one and three dimensions, and adaptive maxima (contract, sections 1 and 4).
#include <ATen/ops/max_pool1d_with_indices.h>

#include <algorithm>
#include <array>
#include <optional>
#include <tuple>
#include <vector>

#include "aten/certified/support/entry.h"
#include "aten/certified/support/tensors.h"
#include "kernels/pool3d.h"

namespace isobit::aten {
namespace {

using at::IntArrayRef;
using at::Tensor;
using kernels::Divisor;
using Pair = std::tuple<Tensor, Tensor>;
using OutPair = std::tuple<Tensor&, Tensor&>;

// The windows of one dimension, with the memory that a PoolAxis points to.
struct Axis {
  std::int64_t in = 1, step = 1;
  std::vector<std::int64_t> begin, end, extent;

  void add(std::int64_t first, std::int64_t last, std::int64_t limit) {  // limit: the padded image's end
    extent.push_back(std::min(last, limit) - first);
    const std::int64_t inside = first < 0 ? first + (-first + step - 1) / step * step : first;
    begin.push_back(inside), end.push_back(std::min(last, in));
  }
  [[nodiscard]] std::int64_t out() const { return static_cast<std::int64_t>(begin.size()); }
  [[nodiscard]] kernels::PoolAxis view() const { return {in, out(), step, begin.data(), end.data(), extent.data()}; }
};
using Axes = std::array<Axis, 3>;

kernels::PoolWindows windows_of(std::int64_t planes, const Axes& axes) {
  return {planes, axes[0].view(), axes[1].view(), axes[2].view()};
}
at::DimVector sizes_with(const Tensor& x, const Axes& axes, std::int64_t rank) {
  at::DimVector sizes(x.sizes());
  for (std::int64_t d = 0; d < rank; ++d) {
    sizes[static_cast<std::size_t>(x.dim() - rank + d)] = axes[static_cast<std::size_t>(3 - rank + d)].out();
  }
  return sizes;
}

// ---- windows of a fixed size, three dimensions

struct Window {
  IntArrayRef kernel, stride, padding, dilation;
  bool ceil_mode = false;
};

Axis axis_of(const char* op, std::int64_t in, const Window& window, std::size_t d) {
  const auto along = [&](IntArrayRef values, std::int64_t absent) {
    TORCH_CHECK(values.size() <= 1 || values.size() == 3, op, ": one or three values expected, got ", values);
    return values.empty() ? absent : values.size() == 1 ? values[0] : values[d];
  };
  const std::int64_t kernel = along(window.kernel, 0), stride = along(window.stride, kernel),
                     pad = along(window.padding, 0);
  const std::int64_t dilation = along(window.dilation, 1), reach = dilation * (kernel - 1) + 1;
  TORCH_CHECK(kernel > 0 && stride > 0 && dilation > 0, op, ": kernel size, stride and dilation must be positive");
  TORCH_CHECK(pad >= 0 && 2 * pad <= reach, op, ": padding must be at least 0 and at most half the kernel's extent");
  const std::int64_t free = in + 2 * pad - reach + (window.ceil_mode ? stride - 1 : 0);
  std::int64_t out = free < 0 ? 0 : free / stride + 1;
  if (window.ceil_mode && (out - 1) * stride >= in + pad) --out;
  TORCH_CHECK(out > 0, op, ": the window is larger than the image");
  Axis axis;
  axis.in = in, axis.step = dilation;
  for (std::int64_t o = 0; o < out; ++o) axis.add(o * stride - pad, o * stride - pad + reach, in + pad);
  return axis;
}
Axes axes_of(const char* op, const Tensor& x, const Window& window) {
  return {axis_of(op, x.size(-3), window, 0), axis_of(op, x.size(-2), window, 1), axis_of(op, x.size(-1), window, 2)};
}

// ---- adaptive windows

Axis adaptive_axis(std::int64_t in, std::int64_t out) {
  Axis axis;
  axis.in = in;
  for (std::int64_t o = 0; o < out; ++o) axis.add(o * in / out, ((o + 1) * in + out - 1) / out, in);
  return axis;
}
Axes adaptive_axes(const char* op, const Tensor& x, IntArrayRef out, std::int64_t rank) {
  TORCH_CHECK(static_cast<std::int64_t>(out.size()) == rank, op, ": ", rank, " output sizes expected, got ", out);
  Axes axes{adaptive_axis(1, 1), adaptive_axis(1, 1), adaptive_axis(1, 1)};
  for (std::int64_t d = 0; d < rank; ++d) {
    const std::int64_t in = x.size(d - rank), wanted = out[static_cast<std::size_t>(d)];
    TORCH_CHECK(wanted >= 0 && in > 0, op, ": output sizes of at least 0 and a non-empty image expected, got ", out,
                " and ", x.sizes());
    axes[static_cast<std::size_t>(3 - rank + d)] = adaptive_axis(in, wanted);
  }
  return axes;
}

// ---- maxima

Pair maxima(const Tensor& input, std::int64_t planes, const Axes& axes, std::int64_t rank) {
  const Tensor x = contiguous(input);
  const at::DimVector sizes = sizes_with(x, axes, rank);
  Tensor y = new_tensor(sizes), index = new_tensor(sizes, at::kLong);
  kernels::max_pool3d(windows_of(planes, axes), x.const_data_ptr<float>(), y.mutable_data_ptr<float>(),
                      index.mutable_data_ptr<std::int64_t>());
  return {y, index};
}
Tensor maxima_backward(const char* op, const Tensor& grad_output, const Tensor& x, const Tensor& indices,
                       std::int64_t rank) {
  const std::int64_t planes = planes_of(op, x, rank);
  require_float(op, grad_output);
  TORCH_CHECK(
      grad_output.dim() == x.dim() && indices.scalar_type() == at::kLong && indices.sizes() == grad_output.sizes(), op,
      ": grad_output ", grad_output.sizes(), " or indices ", indices.sizes(), " do not fit input ", x.sizes());
  for (std::int64_t d = 0; d < x.dim() - rank; ++d) {
    TORCH_CHECK(grad_output.size(d) == x.size(d), op, ": grad_output ", grad_output.sizes(), " does not fit input ",
                x.sizes());
  }
  const Tensor dy = contiguous(grad_output), index = contiguous(indices);
  return write_new(x.sizes(), [&](float* dx) {
    if (planes > 0) {
      kernels::max_pool_gradient(planes, x.numel() / planes, dy.numel() / planes, dy.const_data_ptr<float>(),
                                 index.const_data_ptr<std::int64_t>(), dx);
    }
  });
}
OutPair into(const Pair& results, Tensor& y, Tensor& index) {
  require_float("a pooling's out", y);
  copy_out(y, std::get<0>(results));
  copy_out(index, std::get<1>(results));
  return {y, index};
}
Tensor& into(const Tensor& result, Tensor& out) { return float_out("a pooling's out", result, out); }

constexpr const char* kMax = "aten::max_pool3d_with_indices";
constexpr const char* kMaxBackward = "aten::max_pool3d_with_indices_backward";

Pair max_pool(const Tensor& x, IntArrayRef kernel, IntArrayRef stride, IntArrayRef padding, IntArrayRef dilation,
              bool ceil_mode) {
  const std::int64_t planes = planes_of(kMax, x, 3);
  return maxima(x, planes, axes_of(kMax, x, {kernel, stride, padding, dilation, ceil_mode}), 3);
}
OutPair max_pool_out(const Tensor& x, IntArrayRef kernel, IntArrayRef stride, IntArrayRef padding, IntArrayRef dilation,
                     bool ceil_mode, Tensor& y, Tensor& index) {
  return into(max_pool(x, kernel, stride, padding, dilation, ceil_mode), y, index);
}
Tensor max_pool_backward(const Tensor& dy, const Tensor& x, IntArrayRef, IntArrayRef, IntArrayRef, IntArrayRef, bool,
                         const Tensor& indices) {
  return maxima_backward(kMaxBackward, dy, x, indices, 3);
}
Tensor& max_pool_backward_out(const Tensor& dy, const Tensor& x, IntArrayRef, IntArrayRef, IntArrayRef, IntArrayRef,
                              bool, const Tensor& indices, Tensor& dx) {
  return into(maxima_backward(kMaxBackward, dy, x, indices, 3), dx);
}

template <std::int64_t rank>
constexpr const char* kAdaptiveMax = rank == 2 ? "aten::adaptive_max_pool2d" : "aten::adaptive_max_pool3d";
template <std::int64_t rank>
constexpr const char* kAdaptiveMaxBackward =
    rank == 2 ? "aten::adaptive_max_pool2d_backward" : "aten::adaptive_max_pool3d_backward";
template <std::int64_t rank>
Pair adaptive_max(const Tensor& x, IntArrayRef out) {
  const std::int64_t planes = planes_of(kAdaptiveMax<rank>, x, rank);
  return maxima(x, planes, adaptive_axes(kAdaptiveMax<rank>, x, out, rank), rank);
}
template <std::int64_t rank>
OutPair adaptive_max_out(const Tensor& x, IntArrayRef out, Tensor& y, Tensor& index) {
  return into(adaptive_max<rank>(x, out), y, index);
}
template <std::int64_t rank>
Tensor adaptive_max_backward(const Tensor& dy, const Tensor& x, const Tensor& indices) {
  return maxima_backward(kAdaptiveMaxBackward<rank>, dy, x, indices, rank);
}
template <std::int64_t rank>
Tensor& adaptive_max_backward_out(const Tensor& dy, const Tensor& x, const Tensor& indices, Tensor& dx) {
  return into(adaptive_max_backward<rank>(dy, x, indices), dx);
}

// Without a graph PyTorch takes a kernel of its own here; this is the other way's.
Tensor max_pool1d(const Tensor& x, IntArrayRef kernel, IntArrayRef stride, IntArrayRef padding, IntArrayRef dilation,
                  bool ceil_mode) {
  return std::get<0>(at::max_pool1d_with_indices(x, kernel, stride, padding, dilation, ceil_mode));
}

// ---- averages

Tensor averages(const Tensor& input, std::int64_t planes, const Axes& axes, Divisor divisor, std::int64_t fixed) {
  const Tensor x = contiguous(input);
  return write_new(sizes_with(x, axes, 3), [&](float* y) {
    kernels::average_pool3d(windows_of(planes, axes), divisor, fixed, x.const_data_ptr<float>(), y);
  });
}
Tensor averages_backward(const char* op, const Tensor& grad_output, const Tensor& x, std::int64_t planes,
                         const Axes& axes, Divisor divisor, std::int64_t fixed) {
  require_float(op, grad_output);
  TORCH_CHECK(grad_output.sizes() == IntArrayRef(sizes_with(x, axes, 3)), op, ": grad_output has sizes ",
              grad_output.sizes(), ", not those of the output");
  const Tensor dy = contiguous(grad_output);
  return write_new(x.sizes(), [&](float* dx) {
    kernels::average_pool3d_backward(windows_of(planes, axes), divisor, fixed, dy.const_data_ptr<float>(), dx);
  });
}

constexpr const char* kAverage = "aten::avg_pool3d";
constexpr const char* kAverageBackward = "aten::avg_pool3d_backward";
using Fixed = std::optional<std::int64_t>;

Divisor divisor_of(const char* op, bool count_padding, const Fixed& fixed) {
  TORCH_CHECK(!fixed || *fixed != 0, op, ": the divisor must not be zero");
  return fixed ? Divisor::fixed : count_padding ? Divisor::with_padding : Divisor::inside;
}
Tensor average_pool(const Tensor& x, IntArrayRef kernel, IntArrayRef stride, IntArrayRef padding, bool ceil_mode,
                    bool count_padding, Fixed fixed) {
  const std::int64_t planes = planes_of(kAverage, x, 3);
  return averages(x, planes, axes_of(kAverage, x, {kernel, stride, padding, {}, ceil_mode}),
                  divisor_of(kAverage, count_padding, fixed), fixed.value_or(0));
}
Tensor& average_pool_out(const Tensor& x, IntArrayRef kernel, IntArrayRef stride, IntArrayRef padding, bool ceil_mode,
                         bool count_padding, Fixed fixed, Tensor& y) {
  return into(average_pool(x, kernel, stride, padding, ceil_mode, count_padding, fixed), y);
}
Tensor average_pool_backward(const Tensor& dy, const Tensor& x, IntArrayRef kernel, IntArrayRef stride,
                             IntArrayRef padding, bool ceil_mode, bool count_padding, Fixed fixed) {
  const std::int64_t planes = planes_of(kAverageBackward, x, 3);
  return averages_backward(kAverageBackward, dy, x, planes,
                           axes_of(kAverageBackward, x, {kernel, stride, padding, {}, ceil_mode}),
                           divisor_of(kAverageBackward, count_padding, fixed), fixed.value_or(0));
}
Tensor& average_pool_backward_out(const Tensor& dy, const Tensor& x, IntArrayRef kernel, IntArrayRef stride,
                                  IntArrayRef padding, bool ceil_mode, bool count_padding, Fixed fixed, Tensor& dx) {
  return into(average_pool_backward(dy, x, kernel, stride, padding, ceil_mode, count_padding, fixed), dx);
}

constexpr const char* kAdaptive = "aten::_adaptive_avg_pool3d";
constexpr const char* kAdaptiveBackward = "aten::_adaptive_avg_pool3d_backward";
Tensor adaptive_average(const Tensor& x, IntArrayRef out) {
  const std::int64_t planes = planes_of(kAdaptive, x, 3);
  return averages(x, planes, adaptive_axes(kAdaptive, x, out, 3), Divisor::inside, 0);
}
Tensor& adaptive_average_out(const Tensor& x, IntArrayRef out, Tensor& y) { return into(adaptive_average(x, out), y); }
Tensor adaptive_average_backward(const Tensor& dy, const Tensor& x) {
  const std::int64_t planes = planes_of(kAdaptiveBackward, x, 3);
  TORCH_CHECK(dy.dim() == x.dim(), kAdaptiveBackward, ": grad_output has sizes ", dy.sizes());
  return averages_backward(kAdaptiveBackward, dy, x, planes,
                           adaptive_axes(kAdaptiveBackward, x, dy.sizes().slice(dy.dim() - 3), 3), Divisor::inside, 0);
}
Tensor& adaptive_average_backward_out(const Tensor& dy, const Tensor& x, Tensor& dx) {
  return into(adaptive_average_backward(dy, x), dx);
}

}  // namespace

std::vector<Entry> pooling3d_operators() {
  constexpr std::string_view maximum = "1: the first NaN, else the first of the largest, with its index";
  constexpr std::string_view average = "4: chain over (kd, kh, kw), divided by the count";
  constexpr std::string_view gradient = "4: over covering windows in ascending (od, oh, ow)";
  return {
      certify<max_pool>(kMax, "", maximum),
      certify<max_pool_out>(kMax, "out", maximum),
      certify<max_pool_backward>(kMaxBackward, "", gradient),
      certify<max_pool_backward_out>(kMaxBackward, "grad_input", gradient),
      certify<adaptive_max<2>>(kAdaptiveMax<2>, "", maximum),
      certify<adaptive_max_out<2>>(kAdaptiveMax<2>, "out", maximum),
      certify<adaptive_max_backward<2>>(kAdaptiveMaxBackward<2>, "", gradient),
      certify<adaptive_max_backward_out<2>>(kAdaptiveMaxBackward<2>, "grad_input", gradient),
      certify<adaptive_max<3>>(kAdaptiveMax<3>, "", maximum),
      certify<adaptive_max_out<3>>(kAdaptiveMax<3>, "out", maximum),
      certify<adaptive_max_backward<3>>(kAdaptiveMaxBackward<3>, "", gradient),
      certify<adaptive_max_backward_out<3>>(kAdaptiveMaxBackward<3>, "grad_input", gradient),
      certify_layer<max_pool1d>("aten::max_pool1d", "", maximum),
      certify<average_pool>(kAverage, "", average),
      certify<average_pool_out>(kAverage, "out", average),
      certify<average_pool_backward>(kAverageBackward, "", gradient),
      certify<average_pool_backward_out>(kAverageBackward, "grad_input", gradient),
      certify<adaptive_average>(kAdaptive, "", average),
      certify<adaptive_average_out>("aten::adaptive_avg_pool3d", "out", average),
      certify<adaptive_average_backward>(kAdaptiveBackward, "", gradient),
      certify<adaptive_average_backward_out>("aten::adaptive_avg_pool3d_backward", "grad_input", gradient),
  };
}

}  // namespace isobit::aten
