// Images as lanes: taps along the axes, when it pays, and the call that forward and input gradient share.
#pragma once

#include "kernels/cpu/vector/conv_split.h"
#include "kernels/cpu/vector/image_lanes.h"
#include "kernels/dispatch/workspace.h"
#include "kernels/tuning.h"

namespace isobit::kernels::ISOBIT_ISA {
namespace {

// For each of `outputs` coordinates the kernel's taps along one axis: place(o, k) is where tap k reads, or where it is
// no term kNoTerm.
constexpr std::int64_t kNoTerm = std::int64_t{1} << 40;

// The kind of coordinate o, after those before it: mostly that of its neighbour, or with a stride that of one a
// stride away. Where none of those near is alike, o is of a kind of its own, which costs a list of its own and no bit.
constexpr std::int64_t kNearKinds = 32;
ISOBIT_INLINE std::int64_t kind_of(const AxisTaps& a, const AxisTaps* before, std::int64_t o) {
  for (std::int64_t n = o - 1; n >= 0 && n >= o - kNearKinds; --n)
    if (alike(a, before[n])) return before[n].kind;
  return o;
}

template <class Place>
AxisTaps* axis_taps(Workspace& workspace, std::int64_t outputs, std::int64_t taps, std::int64_t inputs, Place place) {
  auto* axis = static_cast<AxisTaps*>(workspace.bytes(sizeof(AxisTaps) * static_cast<std::size_t>(outputs)));
  for (std::int64_t o = 0; o < outputs; ++o) {
    AxisTaps a;
    a.term_index = workspace.ints(taps), a.tap = workspace.ints(taps), a.source = workspace.ints(taps);
    for (std::int64_t k = 0; k < taps; ++k) {
      const std::int64_t source = place(o, k);
      if (source == kNoTerm) continue;
      const std::int64_t index = a.terms++;
      if (source < 0 || source >= inputs) continue;
      a.term_index[a.count] = static_cast<std::int32_t>(index);
      a.tap[a.count] = static_cast<std::int32_t>(k);
      a.source[a.count++] = static_cast<std::int32_t>(source);
    }
    a.kind = kind_of(a, axis, o);
    axis[o] = a;
  }
  return axis;
}

// The part of an axis' terms that falls inside.
ISOBIT_INLINE double inside_part(const AxisTaps* axis, std::int64_t outputs) {
  std::int64_t terms = 0, inside = 0;
  for (std::int64_t o = 0; o < outputs; ++o) terms += axis[o].terms, inside += axis[o].count;
  return terms == 0 ? 1.0 : static_cast<double>(inside) / static_cast<double>(terms);
}

ISOBIT_INLINE bool fills_lanes(std::int64_t images) {
  const std::int64_t last = images % kTileColumns;
  return images >= kTileColumns && (last == 0 || last > kTileColumns / 2 || images > 8 * kTileColumns);
}

// Batches that fill the lanes, maps where skipping saves more than transposing costs; or any batch, where so much is
// skipped that lanes may stay empty: a kernel as high as the image, whose input gradient meets one of its rows a row.
ISOBIT_INLINE bool image_lanes_pay(std::int64_t images, double inside) {
  if (inside < 0.97 && fills_lanes(images)) return true;
  const std::int64_t rest = images % kTileColumns;
  const auto lanes = static_cast<double>(images - rest + (rest > 0 ? lanes_of(rest) : 0));
  return lanes * inside < 0.375 * static_cast<double>(images);  // a tile of one vector takes a third more
}

// Nor need anything be skipped where rows of outputs are too short to fill the lanes and channels too few to share a
// panel of pixels that is copied piece by piece (direct_pixels.h copies nothing, but leaves lanes empty): as long as
// the images stay in the caches, and there are sets of them for all threads.
ISOBIT_INLINE bool short_rows_pay(const Conv2dShape& s) {
  const std::int64_t co = s.co / s.groups, width = s.out_w();
  const std::int64_t wasted = (width + kLanes - 1) / kLanes * kLanes - width;
  const bool copied = width < kTileColumns && co > 4 && co <= 4 * kTileRows && co * wasted >= 6 * width;
  return copied && fills_lanes(s.n) && s.ci / s.groups * s.h * s.w * kTileColumns <= tuning().slab_floats &&
         s.n / kTileColumns * s.groups >= useful_threads(s);
}

// pack(i) for i < pieces of `floats` values each, on all threads; whether all of them returned true.
template <class Pack>
bool pack_finite(std::int64_t pieces, std::int64_t floats, Pack pack) {
  int infinite = 0;
  parallel_for(0, pieces, 1 + 100000 / at_least(1, floats), [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i)
      if (!pack(i)) __atomic_store_n(&infinite, 1, __ATOMIC_RELAXED);
  });
  return __atomic_load_n(&infinite, __ATOMIC_RELAXED) == 0;
}

// What the forward convolution and the input gradient give to image_lanes.h, for all groups.
struct ImageLanesCall {
  ImageLanes shape;  // of one group; weights of the first
  const float *x = nullptr, *bias = nullptr;
  float* y = nullptr;
  std::int64_t x_image = 0, y_image = 0;
};

void run_image_lanes(const Conv2dShape& s, const ImageLanesCall& call) {
  const ImageLanes& shape = call.shape;
  const std::int64_t tiles = row_tiles(shape.rows), sets = (s.n + kTileColumns - 1) / kTileColumns;
  split_images(s, sets, tiles,
               [&](std::int64_t group, std::int64_t first, std::int64_t count, std::int64_t tile0, std::int64_t tile1) {
                 ImageLanes p = shape;
                 p.weights += group * tiles * p.channels * p.kernel * kTileRows;
                 p.bias = call.bias == nullptr ? nullptr : call.bias + group * p.rows;
                 for (std::int64_t n = first * kTileColumns; n < at_most(s.n, (first + count) * kTileColumns);
                      n += kTileColumns)
                   multiply_image_lanes(p, call.x + n * call.x_image + group * p.channels * p.h * p.w, call.x_image,
                                        call.y + n * call.y_image + group * p.rows * p.height * p.width, call.y_image,
                                        at_most(kTileColumns, s.n - n), tile0, tile1);
               });
}

}  // namespace
}  // namespace isobit::kernels::ISOBIT_ISA
