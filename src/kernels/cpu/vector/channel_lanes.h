// The weight gradient of a convolution by channel (one input channel a group): a register holds channels.
//
//   dw[c, m, kh, kw] = tree over k = (n, oh, ow) of x(k)[c, kh, kw] * dy(k)[c, m]
//
// Taps are few and the chains long, so neither fills lanes; kLanes channels do. An image of theirs, with its padding,
// and its dy are turned so that channels lie side by side. The sums of a leaf are carried over rows and images.
#pragma once

#include <algorithm>
#include <new>

#include "contract/pairwise_tree.h"
#include "kernels/cpu/vector/by_size.h"
#include "kernels/cpu/vector/conv_split.h"
#include "kernels/cpu/vector/packing.h"
#include "kernels/dispatch/workspace.h"

namespace isobit::kernels::ISOBIT_ISA {
namespace {

// to[i * kLanes + l] = from[l][i], i < n
ISOBIT_INLINE void turn_lanes(const float* const* from, std::int64_t n, float* to) {
  std::int64_t i = 0;
  for (; i + 8 <= n; i += 8) {
    for (int half = 0; half < kLanes; half += 8) {
      __m256 block[8];
      read_transposed(from + half, i, block);
      for (int j = 0; j < 8; ++j) _mm256_storeu_ps(to + (i + j) * kLanes + half, block[j]);
    }
  }
  for (; i < n; ++i) {
    for (int l = 0; l < kLanes; ++l) to[i * kLanes + l] = from[l][i];
  }
}

// `count` positions of an output row: sums[r * sums_row + t] += x[r * x_row + t * x_tap + j * x_step] * dy[j], in
// registers (all strides in floats). As many chains as registers hold.
struct TapSums {
  const float *x, *dy;
  std::int64_t x_row, x_tap, x_step, count;
  float* sums;
  std::int64_t sums_row;
};
constexpr int kTapChains = 12;
constexpr int tap_rows(int taps) { return kTapChains / taps < 8 ? kTapChains / taps : 8; }

template <int kRows, int kTaps>
__attribute__((noinline)) void add_taps(const TapSums& a) {
  FloatLanes t[kRows][kTaps];
  const float* x[kRows];
  ISOBIT_UNROLL(GCC unroll 8)
  for (int r = 0; r < kRows; ++r) {
    x[r] = a.x + r * a.x_row;
    ISOBIT_UNROLL(GCC unroll 8)
    for (int k = 0; k < kTaps; ++k) t[r][k] = load(a.sums + r * a.sums_row + k * kLanes);
  }
  for (std::int64_t j = 0; j < a.count; ++j) {
    const FloatLanes dy = load(a.dy + j * kLanes);
    const std::int64_t at = j * a.x_step;
    ISOBIT_UNROLL(GCC unroll 8)
    for (int r = 0; r < kRows; ++r) {
      ISOBIT_UNROLL(GCC unroll 8)
      for (int k = 0; k < kTaps; ++k) t[r][k] = fma(load(x[r] + at + k * a.x_tap), dy, t[r][k]);
    }
  }
  ISOBIT_UNROLL(GCC unroll 8)
  for (int r = 0; r < kRows; ++r) {
    ISOBIT_UNROLL(GCC unroll 8)
    for (int k = 0; k < kTaps; ++k) store(a.sums + r * a.sums_row + k * kLanes, t[r][k]);
  }
}

constexpr int kMostTaps = 8;  // of a kernel row at once
using AddTaps = void (*)(const TapSums&);
// [taps of a kernel row][kernel rows]
constexpr auto kAddTaps = by_size<kMostTaps>([](auto taps) {
  return by_size<8>([](auto rows) -> AddTaps {
    if constexpr (rows <= tap_rows(decltype(taps)::value)) return &add_taps<rows, decltype(taps)::value>;
    return nullptr;
  });
});

// Kernel rows [row0, row1) of dw for all output channels of one block of channels.
class ChannelLanesGradient {
 public:
  ChannelLanesGradient(const Conv2dShape& s, std::int64_t row0, std::int64_t row1)
      : s_(s),
        row0_(row0),
        rows_(row1 - row0),
        height_((s.out_h() - 1) * s.stride_h + (rows_ - 1) * s.dilation_h + 1),
        width_((s.out_w() - 1) * s.stride_w + (s.kw - 1) * s.dilation_w + 1),
        taps_(rows_ * s.kw),
        outputs_(s.co / s.groups) {
    x_ = workspace_.floats(height_ * width_ * kLanes);
    dy_ = workspace_.floats(s.out_h() * s.out_w() * kLanes);
    sums_ = workspace_.floats(outputs_ * taps_ * kLanes);
    trees_ = static_cast<Tree*>(workspace_.bytes(sizeof(Tree) * static_cast<std::size_t>(outputs_ * taps_)));
    zero_floats(x_, height_ * width_ * kLanes);  // the padding stays; the images' places are written anew
  }

  void run(const float* x, const float* dy, std::int64_t first, float* dw) {
    const std::int64_t channels = std::min<std::int64_t>(kLanes, s_.groups - first), plane = s_.out_h() * s_.out_w();
    for (std::int64_t t = 0; t < outputs_ * taps_; ++t) new (trees_ + t) Tree;
    zero_floats(sums_, outputs_ * taps_ * kLanes);
    for (std::int64_t n = 0; n < s_.n; ++n) {
      turn_image(x + (n * s_.ci + first) * s_.h * s_.w, channels);
      for (std::int64_t q = 0; q < outputs_; ++q) {
        turn_gradient(dy + (n * s_.co + first * outputs_ + q) * plane, channels);
        add_image(n, q);
      }
    }
    for (std::int64_t q = 0; q < outputs_; ++q) {
      if (s_.n * plane % contract::kLeaf != 0) finish_leaf(q);
      for (std::int64_t t = 0; t < taps_; ++t) {
        const FloatLanes sum = trees_[q * taps_ + t].result();
        float* const to = dw + (first * outputs_ + q) * s_.kh * s_.kw + row0_ * s_.kw + t;
        for (std::int64_t l = 0; l < channels; ++l) to[l * outputs_ * s_.kh * s_.kw] = sum.v[l];
      }
    }
  }

 private:
  using Tree = contract::PairwiseTreeOf<FloatLanes>;

  // Source rows under these kernel rows, at their places among the padding.
  void turn_image(const float* x, std::int64_t channels) {
    const std::int64_t above = s_.pad_h - row0_ * s_.dilation_h;  // place of the image's first row; may be negative
    const std::int64_t left = s_.pad_w, length = std::min(s_.w, width_ - left);
    if (length <= 0) return;
    for (std::int64_t r = std::max<std::int64_t>(0, -above); r < s_.h && r + above < height_; ++r) {
      const float* from[kLanes];
      for (std::int64_t l = 0; l < kLanes; ++l) from[l] = x + std::min(l, channels - 1) * s_.h * s_.w + r * s_.w;
      turn_lanes(from, length, x_ + ((r + above) * width_ + left) * kLanes);
    }
  }
  void turn_gradient(const float* dy, std::int64_t channels) {
    const std::int64_t plane = s_.out_h() * s_.out_w();
    const float* from[kLanes];
    for (std::int64_t l = 0; l < kLanes; ++l) from[l] = dy + std::min(l, channels - 1) * outputs_ * plane;
    turn_lanes(from, plane, dy_);
  }

  // The image's positions into output q's sums, leaf after leaf: image n begins within one.
  void add_image(std::int64_t n, std::int64_t q) {
    std::int64_t left = contract::kLeaf - n * s_.out_h() * s_.out_w() % contract::kLeaf;  // terms until it is full
    for (std::int64_t i = 0; i < s_.out_h(); ++i) {
      for (std::int64_t j = 0; j < s_.out_w();) {
        const std::int64_t count = std::min(left, s_.out_w() - j);
        add(q, i, j, count);
        j += count, left -= count;
        if (left > 0) continue;
        finish_leaf(q);
        left = contract::kLeaf;
      }
    }
  }

  // Positions [j, j + count) of output row i into all taps' sums.
  void add(std::int64_t q, std::int64_t i, std::int64_t j, std::int64_t count) const {
    for (std::int64_t tap = 0; tap < s_.kw; tap += kMostTaps) {
      const auto taps = static_cast<int>(std::min<std::int64_t>(kMostTaps, s_.kw - tap));
      for (std::int64_t r = 0; r < rows_;) {
        const std::int64_t rows = std::min<std::int64_t>(tap_rows(taps), rows_ - r);
        const std::int64_t row = i * s_.stride_h + r * s_.dilation_h, column = j * s_.stride_w + tap * s_.dilation_w;
        kAddTaps.of[taps].of[rows]({.x = x_ + (row * width_ + column) * kLanes,
                                    .dy = dy_ + (i * s_.out_w() + j) * kLanes,
                                    .x_row = s_.dilation_h * width_ * kLanes,
                                    .x_tap = s_.dilation_w * kLanes,
                                    .x_step = s_.stride_w * kLanes,
                                    .count = count,
                                    .sums = sums_ + (q * taps_ + r * s_.kw + tap) * kLanes,
                                    .sums_row = s_.kw * kLanes});
        r += rows;
      }
    }
  }
  void finish_leaf(std::int64_t q) {
    const FloatLanes zero(0.0f);
    for (std::int64_t t = q * taps_; t < (q + 1) * taps_; ++t) {
      trees_[t].add(load(sums_ + t * kLanes) + zero);
      store(sums_ + t * kLanes, zero);
    }
  }

  const Conv2dShape& s_;
  const std::int64_t row0_, rows_, height_, width_, taps_, outputs_;
  Workspace workspace_;
  float *x_, *dy_, *sums_;
  Tree* trees_;
};

constexpr std::int64_t kMostChannelTaps = 256;  // a tree each
constexpr std::int64_t kMostScratch = 1 << 22;  // floats of one image of kLanes channels
ISOBIT_INLINE bool channel_lanes_pay(const Conv2dShape& s) {
  return s.ci == s.groups && s.groups > 1 && s.co / s.groups <= 4 && s.kh * s.kw <= kMostChannelTaps;
}
ISOBIT_INLINE bool gradient_by_channel_lanes_pays(const Conv2dShape& s) {
  const auto side = [](std::int64_t outputs, std::int64_t stride, std::int64_t taps, std::int64_t dilation) {
    return static_cast<double>((outputs - 1) * stride + (taps - 1) * dilation + 1);
  };
  return channel_lanes_pay(s) &&
         side(s.out_h(), s.stride_h, s.kh, s.dilation_h) * side(s.out_w(), s.stride_w, s.kw, s.dilation_w) * kLanes <=
             static_cast<double>(kMostScratch);
}

[[maybe_unused]] void weight_gradient_by_channel_lanes(const Conv2dShape& s, const float* x, const float* dy,
                                                       float* dweight) {
  const std::int64_t blocks = (s.groups + kLanes - 1) / kLanes, threads = useful_threads(s);
  // Kernel rows apart where blocks do not give each thread some: each turns the images it reads for itself.
  const std::int64_t pieces = at_most(s.kh, (threads + blocks - 1) / blocks), total = blocks * pieces;
  parallel_for(0, total, at_least(1, total / (4 * threads)), [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) {
      const std::int64_t piece = i % pieces, block = i / pieces;
      ChannelLanesGradient(s, s.kh * piece / pieces, s.kh * (piece + 1) / pieces).run(x, dy, block * kLanes, dweight);
    }
  });
}

}  // namespace
}  // namespace isobit::kernels::ISOBIT_ISA
