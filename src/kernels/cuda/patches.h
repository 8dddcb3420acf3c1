// Convolution as a product: elements of images addressed by (position, tap). Private to this folder.
//
//   element(position, tap) = source[image of position][channel of tap][top + down][left + right], +0 outside
//
// A position is a place of the grid that the convolution walks over, batch included, a tap a (channel, kh, kw)
// in contract order. Forward and input gradient have positions as columns and taps as k; the weight gradient
// the other way round. Positions are divided out where needed, taps come from a table in scratch memory.
// 32-bit indices: conv2d.cu refuses what does not fit.
#pragma once

#include "kernels/cuda/tile_product.h"

namespace isobit::kernels::ISOBIT_CUDA {

// n / divisor for 0 <= n < 2^31 and 1 <= divisor < 2^31 by one multiplication: with 2^(s-1) < divisor <= 2^s
// and m = ceil(2^(31+s) / divisor), n * m / 2^(31+s) exceeds n / divisor by less than 1 / divisor.
class FastDivide {
 public:
  FastDivide() = default;
  explicit FastDivide(std::int64_t divisor) : divisor_(static_cast<int>(divisor)) {
    while ((std::int64_t{1} << shift_) < divisor) ++shift_;
    shift_ += 31;
    multiplier_ = static_cast<std::uint32_t>(ceil_div(std::int64_t{1} << shift_, divisor));
  }
  ISOBIT_DEVICE int quotient(int n) const {
    return static_cast<int>(static_cast<std::uint64_t>(static_cast<std::uint32_t>(n)) * multiplier_ >> shift_);
  }
  ISOBIT_DEVICE int divisor() const { return divisor_; }

 private:
  std::uint32_t multiplier_ = 0;
  int shift_ = 0, divisor_ = 1;
};

struct alignas(16) Tap {
  int offset;       // channel, down and right in elements of the source
  int down, right;  // where the tap looks, from a position's (top, left)
  int weight;       // its place in the weights, from the row's start; -1: no tap
};
inline constexpr int kNoTap = 1 << 30;       // a `down` that is outside of every image
inline constexpr int kNoPosition = 1 << 29;  // a `top` likewise, also together with kNoTap
inline constexpr int kTapPadding = 128;      // tables end with taps outside, up to a multiple of this

// The grid of positions and the images that it walks over.
struct PatchGrid {
  FastDivide plane, width;  // of the grid
  int positions = 0;        // batch included
  int step_h = 1, step_w = 1;
  int source_h = 0, source_w = 0;
  std::int64_t image_stride = 0, group_stride = 0;  // of the source

  struct Place {
    int image, row, column;
  };
  ISOBIT_DEVICE Place place(int position) const {
    const int image = plane.quotient(position), rest = position - image * plane.divisor();
    const int row = width.quotient(rest);
    return {image, row, rest - row * width.divisor()};
  }
};

// A position seen from the source.
struct PatchCorner {
  const float* data;
  int top, left;

  ISOBIT_DEVICE PatchCorner(const PatchGrid& grid, const float* group, int position, bool inside) {
    const PatchGrid::Place at = grid.place(inside ? position : 0);
    top = inside ? at.row * grid.step_h : kNoPosition;
    left = at.column * grid.step_w;
    data = group + at.image * grid.image_stride + (at.row * grid.step_h * grid.source_w + left);
  }
  ISOBIT_DEVICE void copy(float* to, const Tap& tap, const PatchGrid& grid) const {
    const bool inside = static_cast<unsigned>(top + tap.down) < static_cast<unsigned>(grid.source_h) &&
                        static_cast<unsigned>(left + tap.right) < static_cast<unsigned>(grid.source_w);
    copy_async_or_zero<4>(to, data + tap.offset, inside);
  }
};

// Rows of the shared tile: positions; k: taps.
struct PatchesByPosition {
  PatchGrid grid;
  const float* source = nullptr;
  const Tap* taps = nullptr;

  template <int extent, class Config>
  class Loader {
    static constexpr int kPitch = extent + Config::kPad;
    static constexpr int kDeep = Config::kThreads > extent ? Config::kThreads / extent : 1;
    static_assert(kDeep <= Config::kStep && Config::kThreads >= extent);

   public:
    ISOBIT_DEVICE Loader(const PatchesByPosition& patches, std::int64_t group, std::int64_t first, std::int64_t k0, int,
                         int thread)
        : grid_(patches.grid),
          corner_(patches.grid, patches.source + group * patches.grid.group_stride,
                  static_cast<int>(first) + thread % extent, first + thread % extent < patches.grid.positions),
          taps_(patches.taps + k0 + thread / extent),
          own_(thread / extent * kPitch + thread % extent) {}

    ISOBIT_DEVICE void copy(float* tile, int k) const {
#pragma unroll
      for (int d = 0; d < Config::kStep; d += kDeep) corner_.copy(tile + d * kPitch + own_, taps_[k + d], grid_);
    }

   private:
    const PatchGrid& grid_;
    PatchCorner corner_;
    const Tap* taps_;
    int own_;
  };
};

// Threads of a warp side by side in k: 8 terms, 4 rows.
template <int extent, class Config>
struct AlongK {
  static constexpr int kPitch = extent + Config::kPad;
  static constexpr int kDeep = Config::kThreads / extent > 8 ? Config::kThreads / extent : 8;
  static constexpr int kRows = Config::kThreads / kDeep;
  static_assert(kDeep <= Config::kStep && kRows <= extent);
  int deep, row;
  ISOBIT_DEVICE explicit AlongK(int thread) : deep(thread % kDeep), row(thread / kDeep) {}
};

// Rows of the shared tile: taps; k: positions.
struct PatchesByTap {
  PatchGrid grid;
  const float* source = nullptr;
  const Tap* taps = nullptr;

  template <int extent, class Config>
  class Loader {
    using Along = AlongK<extent, Config>;
    static_assert(kTapPadding % extent == 0);  // every row of a tile has a tap in the table

   public:
    ISOBIT_DEVICE Loader(const PatchesByTap& patches, std::int64_t group, std::int64_t first, std::int64_t k0,
                         int terms, int thread)
        : grid_(patches.grid),
          at_(thread),
          group_(patches.source + group * patches.grid.group_stride),
          taps_(patches.taps + first + at_.row),
          first_(static_cast<int>(k0) + at_.deep),
          terms_(terms - at_.deep) {}

    ISOBIT_DEVICE void copy(float* tile, int k) const {
#pragma unroll
      for (int d = 0; d < Config::kStep; d += Along::kDeep) {
        const PatchCorner corner(grid_, group_, first_ + k + d, k + d < terms_);
#pragma unroll
        for (int r = 0; r < extent; r += Along::kRows) {
          corner.copy(tile + (d + at_.deep) * Along::kPitch + r + at_.row, taps_[r], grid_);
        }
      }
    }

   private:
    const PatchGrid& grid_;
    Along at_;
    const float* group_;
    const Tap* taps_;
    int first_, terms_;
  };
};

// Rows: channels; k: the taps' weights.
struct TapWeights {
  const float* weight = nullptr;
  std::int64_t group_stride = 0, row_stride = 0;
  int rows = 0;
  const Tap* taps = nullptr;

  template <int extent, class Config>
  class Loader {
    using Along = AlongK<extent, Config>;

   public:
    ISOBIT_DEVICE Loader(const TapWeights& w, std::int64_t group, std::int64_t first, std::int64_t k0, int, int thread)
        : weights_(w),
          at_(thread),
          from_(w.weight + group * w.group_stride + (first + at_.row) * w.row_stride),
          taps_(w.taps + k0 + at_.deep),
          rows_(static_cast<int>(w.rows - first) - at_.row) {}

    ISOBIT_DEVICE void copy(float* tile, int k) const {
#pragma unroll
      for (int d = 0; d < Config::kStep; d += Along::kDeep) {
        const int weight = taps_[k + d].weight;
#pragma unroll
        for (int r = 0; r < extent; r += Along::kRows) {
          copy_async_or_zero<4>(tile + (d + at_.deep) * Along::kPitch + r + at_.row,
                                from_ + r * weights_.row_stride + weight, weight >= 0 && r < rows_);
        }
      }
    }

   private:
    const TapWeights& weights_;
    Along at_;
    const float* from_;
    const Tap* taps_;
    int rows_;
  };
};

// Rows: channels of dy; k: positions, batch included.
struct ChannelsByPosition {
  const float* data = nullptr;
  FastDivide plane;
  std::int64_t image_stride = 0, group_stride = 0;
  int rows = 0;

  template <int extent, class Config>
  class Loader {
    using Along = AlongK<extent, Config>;

   public:
    ISOBIT_DEVICE Loader(const ChannelsByPosition& c, std::int64_t group, std::int64_t first, std::int64_t k0,
                         int terms, int thread)
        : channels_(c),
          at_(thread),
          from_(c.data + group * c.group_stride + (first + at_.row) * c.plane.divisor()),
          rows_(static_cast<int>(c.rows - first) - at_.row),
          first_(static_cast<int>(k0) + at_.deep),
          terms_(terms - at_.deep) {}

    ISOBIT_DEVICE void copy(float* tile, int k) const {
      const int plane = channels_.plane.divisor();
#pragma unroll
      for (int d = 0; d < Config::kStep; d += Along::kDeep) {
        const int position = first_ + k + d, image = channels_.plane.quotient(position);
        const float* const from = from_ + image * channels_.image_stride + (position - image * plane);
#pragma unroll
        for (int r = 0; r < extent; r += Along::kRows) {
          copy_async_or_zero<4>(tile + (d + at_.deep) * Along::kPitch + r + at_.row,
                                from + static_cast<std::int64_t>(r) * plane, k + d < terms_ && r < rows_);
        }
      }
    }

   private:
    const ChannelsByPosition& channels_;
    Along at_;
    const float* from_;
    int rows_, first_, terms_;
  };
};

}  // namespace isobit::kernels::ISOBIT_CUDA
