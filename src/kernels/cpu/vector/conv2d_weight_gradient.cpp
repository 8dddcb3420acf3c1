#include "kernels/cpu/vector/channel_lanes.h"
#include "kernels/cpu/vector/conv2d_kernels.h"
#include "kernels/cpu/vector/conv_split.h"
#include "kernels/cpu/vector/weight_gradient.h"
#include "kernels/dispatch/kernel_table.h"
#include "kernels/tuning.h"

namespace isobit::kernels::ISOBIT_ISA {
namespace {

// How one group's work is cut for threads: leaves at multiples of a power of two where there are enough of
// them (nothing is then done twice), row tiles otherwise.
struct Cut {
  std::int64_t leaves_per_range, ranges, tile_pieces;
};

Cut cut_for(std::int64_t leaves, std::int64_t tiles, std::int64_t pieces) {
  if (pieces <= 1) return {at_least(1, leaves), 1, 1};
  if (leaves < 4 * pieces) return {at_least(1, leaves), 1, at_most(tiles, pieces)};
  std::int64_t per_range = 1;
  while (per_range * 2 * 4 * pieces <= leaves) per_range *= 2;
  // Half as long where the last ranges would keep one thread busy alone for longer than a seventeenth. No shorter: each
  // copies its images with their borders.
  const auto longest = [&](std::int64_t length) {
    const std::int64_t ranges = (leaves + length - 1) / length;
    return (ranges + pieces - 1) / pieces * length;
  };
  if (per_range > 1 && 16 * pieces * longest(per_range) > 17 * leaves && longest(per_range / 2) < longest(per_range))
    per_range /= 2;
  return {per_range, (leaves + per_range - 1) / per_range, 1};
}

// The part of an axis' (tap, output) pairs that falls inside.
ISOBIT_INLINE double inside_pairs(std::int64_t outputs, std::int64_t inputs, std::int64_t taps, std::int64_t stride,
                                  std::int64_t pad, std::int64_t dilation) {
  std::int64_t inside = 0;
  for (std::int64_t k = 0; k < taps; ++k) {
    const InsideRange range = inside_range(outputs, inputs, stride, pad, k * dilation);
    inside += at_least(0, range.end - range.begin);
  }
  return static_cast<double>(inside) / static_cast<double>(outputs * taps);
}

// Tiles of one tap each need channels to fill them.
ISOBIT_INLINE bool skipping_pays(const Conv2dShape& s) {
  return s.ci / s.groups >= 3 * kTileRows && s.kh * s.kw <= 64 &&
         inside_pairs(s.out_h(), s.h, s.kh, s.stride_h, s.pad_h, s.dilation_h) *
                 inside_pairs(s.out_w(), s.w, s.kw, s.stride_w, s.pad_w, s.dilation_w) <
             0.97;
}

}  // namespace

void conv2d_weight_gradient(const Conv2dShape& s, const float* x, const float* dy, float* dweight) {
  using contract::kLeaf;
  const std::int64_t ci = s.ci / s.groups, co = s.co / s.groups, out_h = s.out_h(), out_w = s.out_w();
  const std::int64_t rows = ci * s.kh * s.kw, terms = s.n * out_h * out_w;
  if (co <= 0 || rows <= 0) return;
  if (terms <= 0) return zero_floats(dweight, s.co * rows);
  if (!is_ordinary(s)) return table_of(Isa::reference).conv2d_weight_gradient(s, x, dy, dweight);
  if (s.planes == nullptr && gradient_by_channel_lanes_pays(s))
    return weight_gradient_by_channel_lanes(s, x, dy, dweight);
  Workspace workspace;
  const Slab slab = input_slab(s);
  const std::int64_t plane = out_h * out_w, images = at_least(1, 2 * tuning().slab_floats / slab.image);
  if (slab.image > kOffsetLimit || kLeaf / plane * slab.image > kOffsetLimit)
    return table_of(Isa::reference).conv2d_weight_gradient(s, x, dy, dweight);
  auto* corner = static_cast<std::int64_t*>(workspace.bytes(sizeof(std::int64_t) * static_cast<std::size_t>(rows)));
  for (std::int64_t r = 0; r < rows; ++r)
    corner[r] = slab.offset(r / (s.kh * s.kw), r / s.kw % s.kh * s.dilation_h, r % s.kw * s.dilation_w);
  const WeightGradient w{s,  slab,   output_row_step(s, slab), at_least(1, images * plane / kLeaf), rows, co, x,
                         dy, corner, skipping_pays(s)};

  const std::int64_t leaves = (terms + kLeaf - 1) / kLeaf, tiles = w.tiles(), threads = useful_threads(s);
  const Cut cut = cut_for(leaves, tiles, (threads + s.groups - 1) / s.groups);
  const bool combine = cut.ranges > 1 || w.skipping;
  float* results = combine ? workspace.floats(s.groups * cut.ranges * w.tile_floats()) : nullptr;
  const std::int64_t per_group = cut.ranges * cut.tile_pieces, total = s.groups * per_group;
  parallel_for(0, total, at_least(1, total / threads), [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end;) {
      const std::int64_t group = i / per_group, at = i % per_group, piece = at % cut.tile_pieces;
      // The last ranges first: one of them is shorter, and the first thread may have one more.
      const std::int64_t count = cut.tile_pieces > 1 ? 1 : at_most(end - i, cut.ranges - at);
      const std::int64_t last = cut.ranges - at / cut.tile_pieces, first = last - count;
      weight_gradient_leaves(w, group, {first, last, cut.leaves_per_range, at_least(1, leaves)},
                             tiles * piece / cut.tile_pieces, tiles * (piece + 1) / cut.tile_pieces,
                             combine ? results + (group * cut.ranges + first) * w.tile_floats() : nullptr,
                             dweight + group * co * rows);
      i += count;
    }
  });
  if (!combine) return;
  const std::int64_t panels = column_panels(co);
  parallel_for(0, s.groups * panels, 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) {
      const std::int64_t group = i / panels;
      finish_weight_gradient(w, i % panels, results + group * cut.ranges * w.tile_floats(), cut.ranges, w.tile_floats(),
                             dweight + group * co * rows);
    }
  });
}

}  // namespace isobit::kernels::ISOBIT_ISA
