// The taps, positions and outputs of a convolution, for kernels that walk over patches.h. Private to this folder.
#pragma once

#include <algorithm>
#include <numeric>
#include <string>

#include "kernels/conv2d.h"
#include "kernels/cuda/patches.h"

namespace isobit::kernels::ISOBIT_CUDA {

// The taps of one axis: first, first + step, ... (count of them); where they look from a position:
// (origin + tap * dilation) / divisor, an exact division.
struct Axis {
  int first = 0, step = 1, count = 0;
  int origin = 0, dilation = 1, divisor = 1;

  ISOBIT_DEVICE int tap(int i) const { return first + i * step; }
  ISOBIT_DEVICE int look(int i) const { return (origin + tap(i) * dilation) / divisor; }
};

inline Axis forward_axis(std::int64_t taps, std::int64_t pad, std::int64_t dilation) {
  return {0, 1, static_cast<int>(taps), static_cast<int>(-pad), static_cast<int>(dilation), 1};
}

// The taps whose phase meets the elements i with i mod stride == phase: (phase + pad - k * dilation) is a
// multiple of the stride. They are evenly spaced.
inline Axis phase_axis(std::int64_t phase, std::int64_t taps, std::int64_t stride, std::int64_t pad,
                       std::int64_t dilation) {
  Axis axis{0,
            static_cast<int>(stride / std::gcd(stride, dilation)),
            0,
            static_cast<int>(phase + pad),
            static_cast<int>(-dilation),
            static_cast<int>(stride)};
  std::int64_t first = 0;
  while (first < taps && (phase + pad - first * dilation) % stride != 0) ++first;
  axis.first = static_cast<int>(first);
  axis.count = first < taps ? static_cast<int>((taps - 1 - first) / axis.step + 1) : 0;
  return axis;
}

struct TapGeometry {
  Axis h, w;
  int taps = 0, padded = 0;                // channels * h.count * w.count
  int channel_stride = 0, row_stride = 0;  // of the source
  int weight_channel = 0, weight_row = 0;  // strides of the weights
};

inline constexpr int kTableThreads = 128;

static ISOBIT_KERNEL void tap_table_kernel(TapGeometry g, Tap* table) {
  const int k = static_cast<int>(block_index()) * kTableThreads + thread_index();
  if (k >= g.padded) return;
  Tap tap{0, kNoTap, 0, -1};
  if (k < g.taps) {
    const int w = k % g.w.count, h = k / g.w.count % g.h.count, channel = k / g.w.count / g.h.count;
    tap.down = g.h.look(h);
    tap.right = g.w.look(w);
    tap.offset = channel * g.channel_stride + tap.down * g.row_stride + tap.right;
    tap.weight = channel * g.weight_channel + g.h.tap(h) * g.weight_row + g.w.tap(w);
  }
  table[k] = tap;
}

class TapTable {
 public:
  TapTable(const TapGeometry& geometry, std::int64_t channels)
      : geometry_(with_counts(geometry, channels)), memory_(geometry_.padded * std::int64_t{sizeof(Tap)}) {
    launch(tap_table_kernel, {ceil_div(geometry_.padded, kTableThreads), kTableThreads}, geometry_, memory_.as<Tap>());
  }
  [[nodiscard]] const Tap* taps() const { return memory_.as<Tap>(); }
  [[nodiscard]] int count() const { return geometry_.taps; }

 private:
  static TapGeometry with_counts(TapGeometry g, std::int64_t channels) {
    g.taps = static_cast<int>(channels) * g.h.count * g.w.count;
    g.padded = static_cast<int>(ceil_div(g.taps, kTapPadding)) * kTapPadding;
    return g;
  }
  TapGeometry geometry_;
  Scratch memory_;
};

// Indices within an image, a weight tensor and the grid have 32 bits.
inline void require_indexable(const Conv2dShape& s) {
  constexpr std::int64_t kMost = std::int64_t{1} << 28;
  const auto check = [](std::int64_t size, std::int64_t most, const char* what) {
    if (size < most) return;
    throw DeviceError("convolution on a device: " + std::string(what) + " has " + std::to_string(size) +
                      " elements; at most " + std::to_string(most - 1) + " can be indexed");
  };
  check(s.n * s.h * s.w, 4 * kMost, "a channel of the batch");
  check(s.n * s.out_h() * s.out_w(), 4 * kMost, "an output channel of the batch");
  check(s.ci * (s.h + 2 * s.pad_h) * (s.w + 2 * s.pad_w), 4 * kMost, "a padded image");
  check(s.co * s.out_h() * s.out_w(), 4 * kMost, "an output image");
  check(s.co * (s.ci / s.groups) * s.kh * s.kw, 4 * kMost, "the weight");
  check(s.h + 2 * s.pad_h + s.kh * s.dilation_h + s.stride_h, kMost, "an axis");
  check(s.w + 2 * s.pad_w + s.kw * s.dilation_w + s.stride_w, kMost, "an axis");
}

// Positions of the output over the input.
inline PatchGrid output_grid(const Conv2dShape& s) {
  PatchGrid grid;
  grid.plane = FastDivide(std::max<std::int64_t>(1, s.out_h() * s.out_w()));
  grid.width = FastDivide(std::max<std::int64_t>(1, s.out_w()));
  grid.positions = static_cast<int>(s.n * s.out_h() * s.out_w());
  grid.step_h = static_cast<int>(s.stride_h), grid.step_w = static_cast<int>(s.stride_w);
  grid.source_h = static_cast<int>(s.h), grid.source_w = static_cast<int>(s.w);
  grid.image_stride = s.ci * s.h * s.w;
  grid.group_stride = s.ci / s.groups * s.h * s.w;
  return grid;
}

inline TapGeometry forward_taps(const Conv2dShape& s) {
  TapGeometry g;
  g.h = forward_axis(s.kh, s.pad_h, s.dilation_h);
  g.w = forward_axis(s.kw, s.pad_w, s.dilation_w);
  g.channel_stride = static_cast<int>(s.h * s.w), g.row_stride = static_cast<int>(s.w);
  g.weight_channel = static_cast<int>(s.kh * s.kw), g.weight_row = static_cast<int>(s.kw);
  return g;
}

// Of the input gradient of one phase of the stride: over dy.
inline TapGeometry phase_taps(const Conv2dShape& s, std::int64_t phase_h, std::int64_t phase_w) {
  TapGeometry g;
  g.h = phase_axis(phase_h, s.kh, s.stride_h, s.pad_h, s.dilation_h);
  g.w = phase_axis(phase_w, s.kw, s.stride_w, s.pad_w, s.dilation_w);
  g.channel_stride = static_cast<int>(s.out_h() * s.out_w()), g.row_stride = static_cast<int>(s.out_w());
  g.weight_channel = static_cast<int>(s.ci / s.groups * s.kh * s.kw), g.weight_row = static_cast<int>(s.kw);
  return g;
}

inline PatchGrid phase_grid(const Conv2dShape& s, std::int64_t phase_h, std::int64_t phase_w) {
  const std::int64_t grid_h = ceil_div(s.h - phase_h, s.stride_h), grid_w = ceil_div(s.w - phase_w, s.stride_w);
  PatchGrid grid;
  grid.plane = FastDivide(grid_h * grid_w), grid.width = FastDivide(grid_w);
  grid.positions = static_cast<int>(s.n * grid_h * grid_w);
  grid.source_h = static_cast<int>(s.out_h()), grid.source_w = static_cast<int>(s.out_w());
  grid.image_stride = s.co * s.out_h() * s.out_w(), grid.group_stride = s.co / s.groups * s.out_h() * s.out_w();
  return grid;
}

// visit(phase_h, phase_w) for each phase of the stride that an input element can have.
template <class Visit>
void each_phase(const Conv2dShape& s, Visit visit) {
  for (std::int64_t phase_h = 0; phase_h < std::min(s.stride_h, s.h); ++phase_h) {
    for (std::int64_t phase_w = 0; phase_w < std::min(s.stride_w, s.w); ++phase_w) visit(phase_h, phase_w);
  }
}

// ---- what products give: everything but the operands

// Forward, and the input gradient of one phase. Batch: groups; rows: channels; columns: positions of a grid.
struct PatchOutput {
  ProductShape shape;
  float* out = nullptr;  // the grid's origin in it
  std::int64_t out_image = 0, out_group = 0, out_channel = 0;
  int out_row = 0, out_column = 0;  // strides of the grid in an output plane
  const float* bias = nullptr;

  // Channel 0 of a position.
  ISOBIT_DEVICE float* position(const PatchGrid& grid, std::int64_t group, std::int64_t j) const {
    const PatchGrid::Place at = grid.place(static_cast<int>(j));
    return out + at.image * out_image + group * out_group +
           (static_cast<std::int64_t>(at.row) * out_row + at.column * out_column);
  }
  ISOBIT_DEVICE float* place(const PatchGrid& grid, std::int64_t group, std::int64_t i, std::int64_t j) const {
    return position(grid, group, j) + i * out_channel;
  }
  ISOBIT_DEVICE float with_bias(std::int64_t group, std::int64_t i, float product) const {
    return bias == nullptr ? product : product + bias[group * shape.m + i];
  }
};

inline PatchOutput forward_output(const Conv2dShape& s, std::int64_t taps, const float* bias, float* y) {
  const std::int64_t plane = s.out_h() * s.out_w(), co = s.co / s.groups;
  return {{s.groups, co, s.n * plane, taps}, y, s.co * plane, co * plane, plane, static_cast<int>(s.out_w()), 1, bias};
}

inline PatchOutput phase_output(const Conv2dShape& s, std::int64_t phase_h, std::int64_t phase_w, std::int64_t taps,
                                float* dx) {
  const std::int64_t grid_h = ceil_div(s.h - phase_h, s.stride_h), grid_w = ceil_div(s.w - phase_w, s.stride_w);
  const std::int64_t plane = s.h * s.w, ci = s.ci / s.groups;
  return {{s.groups, ci, s.n * grid_h * grid_w, taps}, dx + phase_h * s.w + phase_w, s.ci * plane, ci * plane, plane,
          static_cast<int>(s.stride_h * s.w),          static_cast<int>(s.stride_w), nullptr};
}

// Batch: groups; rows: output channels; columns: taps; k: positions.
struct WeightOutput {
  ProductShape shape;
  float* dweight = nullptr;

  ISOBIT_DEVICE float* place(std::int64_t group, std::int64_t i, std::int64_t j) const {
    return dweight + (group * shape.m + i) * shape.n + j;
  }
};

inline WeightOutput weight_output(const Conv2dShape& s, std::int64_t taps, float* dweight) {
  return {{s.groups, s.co / s.groups, taps, s.n * s.out_h() * s.out_w()}, dweight};
}

}  // namespace isobit::kernels::ISOBIT_CUDA
