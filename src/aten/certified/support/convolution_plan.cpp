#include "aten/certified/support/convolution_plan.h"

#include <algorithm>
#include <vector>

#include "aten/certified/support/products.h"
#include "aten/device_work.h"
#include "kernels/dispatch/workspace.h"
#include "kernels/threads.h"

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

// ---- the same on the host: copies on the pool (stock's start OpenMP's threads, which keep spinning beside the
// pool's), and some places at a time, whose planes stay in the cache

// Place d of `count` along the depth meets planes d * step + shift[k] of `depth`; those outside are +0.
struct DepthTaps {
  std::int64_t count = 0, step = 1, depth = 0;
  std::vector<std::int64_t> shift;

  [[nodiscard]] std::int64_t taps() const { return static_cast<std::int64_t>(shift.size()); }
};

// From that size on kernels take planes where they are: smaller ones they copy with images as lanes, all in one place.
constexpr std::int64_t kListed = 256;

// Places first .. last - 1 of the n * count, planes of `size` floats: from [n, channels, depth] to [places, channels,
// taps].
void gather_planes(const DepthTaps& t, std::int64_t channels, std::int64_t size, std::int64_t first, std::int64_t last,
                   const float* from, float* to) {
  const std::int64_t taps = t.taps(), rows = (last - first) * channels;
  kernels::parallel_for(0, rows, 16384 / (size * taps + 1) + 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) {
      const std::int64_t place = first + i / channels, channel = place / t.count * channels + i % channels;
      for (std::int64_t k = 0; k < taps; ++k) {
        const std::int64_t plane = place % t.count * t.step + t.shift[static_cast<std::size_t>(k)];
        float* const here = to + (i * taps + k) * size;
        if (plane < 0 || plane >= t.depth) {
          std::fill_n(here, size, 0.0f);
        } else {
          std::copy_n(from + (channel * t.depth + plane) * size, size, here);
        }
      }
    }
  });
}
// The same planes where they are: nullptr for those of +0.
const float* const* list_planes(const DepthTaps& t, std::int64_t channels, std::int64_t size, std::int64_t first,
                                std::int64_t last, const float* from, kernels::Workspace& workspace) {
  const std::int64_t taps = t.taps(), rows = (last - first) * channels;
  auto* const list =
      static_cast<const float**>(workspace.bytes(static_cast<std::size_t>(rows * taps) * sizeof(const float*)));
  for (std::int64_t i = 0; i < rows; ++i) {
    const std::int64_t place = first + i / channels, channel = place / t.count * channels + i % channels;
    for (std::int64_t k = 0; k < taps; ++k) {
      const std::int64_t plane = place % t.count * t.step + t.shift[static_cast<std::size_t>(k)];
      list[i * taps + k] = plane < 0 || plane >= t.depth ? nullptr : from + (channel * t.depth + plane) * size;
    }
  }
  return list;
}
// The way back of one tap: from [places, channels] into [n, channels, depth].
void place_planes(const DepthTaps& t, std::int64_t channels, std::int64_t size, std::int64_t first, std::int64_t last,
                  const float* from, float* to) {
  kernels::parallel_for(
      0, (last - first) * channels, 16384 / (size + 1) + 1, [&](std::int64_t begin, std::int64_t end) {
        for (std::int64_t i = begin; i < end; ++i) {
          const std::int64_t place = first + i / channels, channel = place / t.count * channels + i % channels;
          std::copy_n(from + i * size, size, to + (channel * t.depth + place % t.count * t.step + t.shift[0]) * size);
        }
      });
}

DepthTaps input_taps(const ConvolutionPlan& p) {
  DepthTaps t{p.out_d(), p.stride_d, p.depth, {}};
  for (std::int64_t k = 0; k < p.kd; ++k) t.shift.push_back(k * p.dilation_d - p.pad_d);
  return t;
}
DepthTaps output_planes(const ConvolutionPlan& p) { return {p.out_d(), 1, p.out_d(), {0}}; }

// multiply(first, last) for all places, `positions` outputs each: as many at a time as the packing of the weight is
// little beside, but few enough that what they write stays in a cache; in parallel where there are enough of them, else
// within each call.
template <class Multiply>
void some_places(std::int64_t places, std::int64_t positions, Multiply multiply) {
  constexpr std::int64_t kFewest = 1024, kMost = 4096;
  positions = std::max<std::int64_t>(positions, 1);
  const std::int64_t threads = kernels::thread_count(),
                     share = threads == 1 ? kMost : places * positions / (2 * threads);
  const std::int64_t together = up(std::clamp(share, kFewest, kMost), positions), chunks = up(places, together);
  if (chunks < 2 * threads) return multiply(0, places);
  kernels::parallel_for(0, chunks, 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) multiply(i * together, std::min(places, (i + 1) * together));
  });
}

void convolve_volume(const ConvolutionPlan& p, const float* x, const float* weight, const float* bias, float* y) {
  const Conv2dShape& s = p.plane;
  const DepthTaps in = input_taps(p), out = output_planes(p);
  const std::int64_t plane = s.h * s.w, out_plane = s.out_h() * s.out_w();
  some_places(s.n * out.count, out_plane, [&](std::int64_t first, std::int64_t last) {
    kernels::Workspace workspace;
    Conv2dShape shape = s;
    shape.n = last - first, shape.ci *= p.kd;
    float* const result = workspace.floats(shape.n * s.co * out_plane);
    if (plane >= kListed) {
      shape.planes = list_planes(in, s.ci, plane, first, last, x, workspace);
      convolve_planes(shape, x, weight, bias, result);
    } else {
      float* const planes = workspace.floats(shape.n * shape.ci * plane);
      gather_planes(in, s.ci, plane, first, last, x, planes);
      convolve_planes(shape, planes, weight, bias, result);
    }
    place_planes(out, s.co, out_plane, first, last, result, y);
  });
}

// As phase_gradient.
void volume_phase_gradient(const ConvolutionPlan& p, std::int64_t phase, const float* dy, const float* weight,
                           float* dx) {
  const Conv2dShape& s = p.plane;
  const std::int64_t plane = s.h * s.w, out_plane = s.out_h() * s.out_w(), kernel = s.ci / s.groups * s.kh * s.kw;
  const std::int64_t start = ((phase - p.pad_d) % p.stride_d + p.stride_d) % p.stride_d;
  const DepthTaps to{up(p.depth - start, p.stride_d), p.stride_d, p.depth, {start}};
  DepthTaps from{to.count, 1, p.out_d(), {}};
  std::vector<std::int64_t> taps;
  for (std::int64_t k = 0; k < p.kd; ++k) {
    if ((k * p.dilation_d) % p.stride_d != phase) continue;
    taps.push_back(k), from.shift.push_back((start + p.pad_d - k * p.dilation_d) / p.stride_d);
  }
  if (to.count == 0) return;
  if (taps.empty()) {
    kernels::parallel_for(0, s.n * s.ci * to.count, 16384 / (plane + 1) + 1, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t i = begin; i < end; ++i) {
        std::fill_n(dx + (i / to.count * to.depth + start + i % to.count * to.step) * plane, plane, 0.0f);
      }
    });
    return;
  }
  kernels::Workspace weights;
  float* const part = weights.floats(s.co * from.taps() * kernel);
  for (std::int64_t o = 0; o < s.co; ++o) {  // [co, taps, ci, kh, kw]
    for (std::int64_t k = 0; k < from.taps(); ++k) {
      for (std::int64_t c = 0; c < s.ci / s.groups; ++c) {
        std::copy_n(weight + ((o * (s.ci / s.groups) + c) * p.kd + taps[static_cast<std::size_t>(k)]) * s.kh * s.kw,
                    s.kh * s.kw, part + (o * from.taps() + k) * kernel + c * s.kh * s.kw);
      }
    }
  }
  some_places(s.n * to.count, plane, [&](std::int64_t first, std::int64_t last) {
    kernels::Workspace workspace;
    Conv2dShape shape = s;
    shape.n = last - first, shape.co *= from.taps();
    float* const result = workspace.floats(shape.n * s.ci * plane);
    if (out_plane >= kListed) {
      shape.planes = list_planes(from, s.co, out_plane, first, last, dy, workspace);
      planes_input_gradient(shape, dy, part, result);
    } else {
      float* const planes = workspace.floats(shape.n * shape.co * out_plane);
      gather_planes(from, s.co, out_plane, first, last, dy, planes);
      planes_input_gradient(shape, planes, part, result);
    }
    place_planes(to, s.ci, plane, first, last, result, dx);
  });
}

void volume_weight_gradient(const ConvolutionPlan& p, const float* x, const float* dy, float* dweight) {
  Conv2dShape shape = side_by_side(p);
  const DepthTaps in = input_taps(p), out = output_planes(p);
  const std::int64_t plane = shape.h * shape.w, out_plane = shape.out_h() * shape.out_w();
  // Tensors, not scratch memory, which a thread would keep: of the whole volume, of small planes kd times x.
  const Tensor gradients = write_new({shape.n, shape.co, out_plane},
                                     [&](float* to) { gather_planes(out, shape.co, out_plane, 0, shape.n, dy, to); });
  if (plane >= kListed) {
    kernels::Workspace workspace;
    shape.planes = list_planes(in, p.plane.ci, plane, 0, shape.n, x, workspace);
    return planes_weight_gradient(shape, x, read(gradients), dweight);
  }
  const Tensor planes = write_new({shape.n, shape.ci, plane},
                                  [&](float* to) { gather_planes(in, p.plane.ci, plane, 0, shape.n, x, to); });
  planes_weight_gradient(shape, read(planes), read(gradients), dweight);
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
  if (working_device() == nullptr) {
    return write_new(p.output_sizes(), [&](float* y) { convolve_volume(p, read(x), read(weight), read(bias), y); });
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
  if (working_device() == nullptr) {
    return write_new(p.input_sizes(), [&](float* dx) {
      for (std::int64_t phase = 0; phase < p.stride_d; ++phase) {
        volume_phase_gradient(p, phase, read(dy), read(weight), dx);
      }
    });
  }
  const Tensor dx = zeros(p.input_sizes());
  for (std::int64_t phase = 0; phase < p.stride_d; ++phase) phase_gradient(p, phase, dy, weight, dx);
  return dx;
}

Tensor weight_gradient(const ConvolutionPlan& p, const Tensor& x, const Tensor& dy) {
  if (p.rank < 3) {
    return write_new(p.weight_sizes(), [&](float* dw) { planes_weight_gradient(p.plane, read(x), read(dy), dw); });
  }
  if (working_device() == nullptr) {
    return write_new(p.weight_sizes(), [&](float* dw) { volume_weight_gradient(p, read(x), read(dy), dw); });
  }
  const Tensor planes = side_by_side(p, x), gradients = swapped(dy);
  return write_new(p.weight_sizes(),
                   [&](float* dw) { planes_weight_gradient(side_by_side(p), read(planes), read(gradients), dw); });
}

}  // namespace isobit::aten
