#include "aten/certified/support/convolution_plan.h"

#include <vector>

#include "aten/certified/support/products.h"

namespace isobit::aten {

using at::Tensor;
using kernels::Conv2dShape;

namespace {

at::DimVector sizes_of(std::int64_t rank, std::int64_t first, std::int64_t second, std::int64_t d, std::int64_t h,
                       std::int64_t w) {
  at::DimVector sizes{first, second};
  if (rank == 3) sizes.push_back(d);
  if (rank >= 2) sizes.push_back(h);
  sizes.push_back(w);
  return sizes;
}

const float* read(const Tensor& tensor) { return tensor.defined() ? tensor.const_data_ptr<float>() : nullptr; }

std::int64_t up(std::int64_t a, std::int64_t b) { return a <= 0 ? 0 : (a + b - 1) / b; }  // ceiling, at least 0

// Planes from[:, :, first + i * step] for i < count, [n, channels, ...], as [n, count, channels, ...]; +0 where there
// is no such plane. Written into to[:, :, :, place] of [n, count, channels, places, h, w].
void gather_planes(const Tensor& from, std::int64_t first, std::int64_t step, std::int64_t place, const Tensor& to) {
  const std::int64_t begin = up(-first, step), end = std::min(to.size(1), up(from.size(2) - first, step));
  if (begin >= end) return;
  const Tensor planes = from.slice(2, first + begin * step, first + (end - 1) * step + 1, step).transpose(1, 2);
  to.select(3, place).slice(1, begin, end).copy_(planes);
}
Tensor zeros(at::IntArrayRef sizes) {
  Tensor result = new_tensor(sizes);
  return result.zero_();
}

// [n * od, ci * kd, h, w]: what every output's plane is made of.
Tensor side_by_side(const ConvolutionPlan& p, const Tensor& x) {
  const Conv2dShape& s = p.plane;
  const Tensor to = zeros({s.n, p.out_d(), s.ci, p.kd, s.h, s.w});
  for (std::int64_t k = 0; k < p.kd; ++k) gather_planes(x, k * p.dilation_d - p.pad_d, p.stride_d, k, to);
  return to;
}
Conv2dShape side_by_side(const ConvolutionPlan& p) {
  Conv2dShape s = p.plane;
  s.n *= p.out_d(), s.ci *= p.kd;
  return s;
}
// [n, od, co, oh, ow] <-> [n, co, od, oh, ow]
Tensor swapped(const Tensor& t) { return t.transpose(1, 2).contiguous(); }

// The gradient of the input planes d with (d + pad) mod stride = phase: a convolution of the taps that meet them.
void phase_gradient(const ConvolutionPlan& p, std::int64_t phase, const Tensor& dy, const Tensor& weight,
                    const Tensor& dx) {
  std::vector<std::int64_t> taps;
  for (std::int64_t k = 0; k < p.kd; ++k) {
    if ((k * p.dilation_d) % p.stride_d == phase) taps.push_back(k);
  }
  const std::int64_t first = ((phase - p.pad_d) % p.stride_d + p.stride_d) % p.stride_d,
                     count = up(p.depth - first, p.stride_d);
  if (taps.empty() || count == 0) return;
  const Conv2dShape& s = p.plane;
  const auto n_taps = static_cast<std::int64_t>(taps.size());
  const Tensor planes = zeros({s.n, count, s.co, n_taps, s.out_h(), s.out_w()});
  const Tensor part = new_tensor({s.co, n_taps, s.ci / s.groups, s.kh, s.kw});
  for (std::int64_t i = 0; i < n_taps; ++i) {
    gather_planes(dy, (first + p.pad_d - taps[i] * p.dilation_d) / p.stride_d, 1, i, planes);
    part.select(1, i).copy_(weight.select(2, taps[i]));
  }
  Conv2dShape shape = s;
  shape.n *= count, shape.co *= n_taps;
  const Tensor result = new_tensor({s.n, count, s.ci, s.h, s.w});
  planes_input_gradient(shape, read(planes), read(part), result.mutable_data_ptr<float>());
  dx.slice(2, first, p.depth, p.stride_d).copy_(result.transpose(1, 2));
}

}  // namespace

at::DimVector ConvolutionPlan::input_sizes() const {
  return sizes_of(rank, plane.n, plane.ci, depth, plane.h, plane.w);
}
at::DimVector ConvolutionPlan::output_sizes() const {
  return sizes_of(rank, plane.n, plane.co, out_d(), plane.out_h(), plane.out_w());
}
at::DimVector ConvolutionPlan::weight_sizes() const {
  return sizes_of(rank, plane.co, plane.ci / plane.groups, kd, plane.kh, plane.kw);
}

Tensor convolve(const ConvolutionPlan& p, const Tensor& x, const Tensor& weight, const Tensor& bias) {
  if (p.rank < 3) {
    return write_new(p.output_sizes(),
                     [&](float* y) { convolve_planes(p.plane, read(x), read(weight), read(bias), y); });
  }
  const Tensor planes = side_by_side(p, x);
  const Conv2dShape& s = p.plane;
  return swapped(write_new({s.n, p.out_d(), s.co, s.out_h(), s.out_w()}, [&](float* y) {
    convolve_planes(side_by_side(p), read(planes), read(weight), read(bias), y);
  }));
}

Tensor input_gradient(const ConvolutionPlan& p, const Tensor& dy, const Tensor& weight) {
  if (p.rank < 3) {
    return write_new(p.input_sizes(), [&](float* dx) { planes_input_gradient(p.plane, read(dy), read(weight), dx); });
  }
  const Tensor dx = zeros(p.input_sizes());
  for (std::int64_t phase = 0; phase < p.stride_d; ++phase) phase_gradient(p, phase, dy, weight, dx);
  return dx;
}

Tensor weight_gradient(const ConvolutionPlan& p, const Tensor& x, const Tensor& dy) {
  if (p.rank < 3) {
    return write_new(p.weight_sizes(), [&](float* dw) { planes_weight_gradient(p.plane, read(x), read(dy), dw); });
  }
  const Tensor planes = side_by_side(p, x), gradients = swapped(dy);
  return write_new(p.weight_sizes(),
                   [&](float* dw) { planes_weight_gradient(side_by_side(p), read(planes), read(gradients), dw); });
}

}  // namespace isobit::aten
