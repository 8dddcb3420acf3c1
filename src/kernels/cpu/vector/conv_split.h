// What the three kernels of a convolution share: how work is cut for threads, and the slab of x that outputs read.
#pragma once

#include "kernels/conv2d.h"
#include "kernels/cpu/vector/conv_slab.h"
#include "kernels/threads.h"

namespace isobit::kernels::ISOBIT_ISA {
namespace {

constexpr std::int64_t kOffsetLimit = std::int64_t{1} << 29;  // offsets inside a slab are 32 bits wide

ISOBIT_INLINE std::int64_t at_least(std::int64_t a, std::int64_t b) { return a > b ? a : b; }
ISOBIT_INLINE std::int64_t at_most(std::int64_t a, std::int64_t b) { return a < b ? a : b; }

// Whether places along the axes, and their products with strides, stay far below what 32 and 64 bits hold, and there
// are pixels and taps at all. Other shapes are the reference's.
ISOBIT_INLINE bool is_ordinary(const Conv2dShape& s) {
  const auto axis = [](std::int64_t size, std::int64_t taps, std::int64_t stride, std::int64_t pad,
                       std::int64_t dilation) {
    constexpr std::int64_t kLongest = std::int64_t{1} << 28, kWidest = std::int64_t{1} << 24;
    return size > 0 && taps > 0 && size <= kLongest && pad <= kWidest && stride <= kWidest && taps <= kWidest &&
           dilation <= kLongest / taps;
  };
  return axis(s.h, s.kh, s.stride_h, s.pad_h, s.dilation_h) && axis(s.w, s.kw, s.stride_w, s.pad_w, s.dilation_w);
}

double multiplications(const Conv2dShape& s) {
  return static_cast<double>(s.n * s.out_h() * s.out_w()) * static_cast<double>(s.co * (s.ci / s.groups)) *
         static_cast<double>(s.kh * s.kw + 1);
}

// Threads worth waking: one per 200000 multiply-adds.
std::int64_t useful_threads(const Conv2dShape& s) {
  return at_most(thread_count(), static_cast<std::int64_t>(multiplications(s) / 2e5) + 1);
}

// Calls work(group, first unit, units, first row tile, end row tile) over disjoint parts of a convolution: units
// (images, or sets of images) first, rows of the product too where units are too few.
template <class Work>
void split_images(const Conv2dShape& s, std::int64_t units, std::int64_t tiles, Work work) {
  const std::int64_t threads = useful_threads(s);
  const std::int64_t image_pieces = at_least(1, at_most(units, threads));
  const std::int64_t tile_pieces = at_most(tiles, (threads + image_pieces * s.groups - 1) / (image_pieces * s.groups));
  const std::int64_t total = s.groups * image_pieces * tile_pieces;
  parallel_for(0, total, at_least(1, total / threads), [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t t = begin; t < end; ++t) {
      const std::int64_t tile = t % tile_pieces, piece = t / tile_pieces % image_pieces;
      const std::int64_t n0 = units * piece / image_pieces, n1 = units * (piece + 1) / image_pieces;
      work(t / tile_pieces / image_pieces, n0, n1 - n0, tiles * tile / tile_pieces, tiles * (tile + 1) / tile_pieces);
    }
  });
}

// The slab of x that the outputs read, and the outputs' stride in its rows.
inline Slab input_slab(const Conv2dShape& s) {
  const std::int64_t out_h = s.out_h(), out_w = s.out_w();
  const std::int64_t step_h = s.kh == 1 ? s.stride_h : 1, step_w = s.kw == 1 ? s.stride_w : 1;
  const std::int64_t height = step_h > 1 ? out_h : (out_h - 1) * s.stride_h + (s.kh - 1) * s.dilation_h + 1;
  const std::int64_t width = step_w > 1 ? out_w : (out_w - 1) * s.stride_w + (s.kw - 1) * s.dilation_w + 1;
  return make_slab(s.ci / s.groups, height, width, step_w > 1 ? 1 : s.stride_w, step_h, step_w);
}
inline std::int64_t output_row_step(const Conv2dShape& s, const Slab& slab) {
  return slab.row * (slab.step_h > 1 ? 1 : s.stride_h);
}

}  // namespace
}  // namespace isobit::kernels::ISOBIT_ISA
