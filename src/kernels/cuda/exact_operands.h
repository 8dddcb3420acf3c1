// The sides of exact products on a device: how tiles (exact_tile.h) read words (exact_words.h). Private to this folder.
//
// Images and weights stay where the tensor has them, and taps and positions say where (patches.h): nothing is unfolded
// in memory.
#pragma once

#include "kernels/cuda/conv_taps.h"
#include "kernels/cuda/exact_words.h"

namespace isobit::kernels::ISOBIT_CUDA {

// Rows: channels; k: the taps' weights.
struct TapWeightWords {
  static constexpr bool kAlongTerms = true;
  struct Row {
    const std::uint32_t* from;
  };

  const std::uint32_t *words = nullptr, *of_rows = nullptr;  // of_rows: [group][row]
  std::int64_t group_stride = 0, row_stride = 0, rows = 0;
  const Tap* taps = nullptr;  // padded to kTapPadding

  ISOBIT_DEVICE Row row(std::int64_t group, std::int64_t row) const {
    return {row < rows ? words + group * group_stride + row * row_stride : nullptr};
  }
  ISOBIT_DEVICE void quad(const Row& row, std::int64_t k, std::int64_t end, std::uint32_t (&to)[4]) const {
#pragma unroll
    for (int t = 0; t < 4; ++t) {
      const int weight = row.from != nullptr && k + t < end ? taps[k + t].weight : -1;
      to[t] = weight >= 0 ? row.from[weight] : 0;
    }
  }
  ISOBIT_DEVICE std::uint32_t largest(std::int64_t group, std::int64_t row) const {
    return of_rows[group * rows + row];
  }
};

// A position seen from the source, in words.
struct WordCorner {
  const std::uint32_t* data;
  int top, left;

  WordCorner() = default;
  ISOBIT_DEVICE WordCorner(const PatchGrid& grid, const std::uint32_t* group, std::int64_t position, bool inside) {
    const PatchGrid::Place at = grid.place(inside ? static_cast<int>(position) : 0);
    top = inside ? at.row * grid.step_h : kNoPosition;
    left = at.column * grid.step_w;
    data = group + at.image * grid.image_stride + (at.row * grid.step_h * grid.source_w + left);
  }
  ISOBIT_DEVICE std::uint32_t word(const Tap& tap, const PatchGrid& grid) const {
    const bool inside = static_cast<unsigned>(top + tap.down) < static_cast<unsigned>(grid.source_h) &&
                        static_cast<unsigned>(left + tap.right) < static_cast<unsigned>(grid.source_w);
    return inside ? data[tap.offset] : 0;
  }
};

// Rows: positions; k: taps. An image and group has an exponent.
struct PatchWordsByPosition {
  static constexpr bool kAlongTerms = false;
  using Row = WordCorner;

  PatchGrid grid;
  const std::uint32_t *words = nullptr, *of_images = nullptr;  // of_images: [image][group]
  std::int64_t groups = 1;
  const Tap* taps = nullptr;

  ISOBIT_DEVICE Row row(std::int64_t group, std::int64_t position) const {
    return {grid, words + group * grid.group_stride, position, position < grid.positions};
  }
  ISOBIT_DEVICE void quad(const Row& row, std::int64_t k, std::int64_t end, std::uint32_t (&to)[4]) const {
#pragma unroll
    for (int t = 0; t < 4; ++t) to[t] = k + t < end ? row.word(taps[k + t], grid) : 0;
  }
  ISOBIT_DEVICE std::uint32_t largest(std::int64_t group, std::int64_t position) const {
    return of_images[grid.place(static_cast<int>(position)).image * groups + group];
  }
};

// Rows: taps; k: positions. An input channel has an exponent.
struct PatchWordsByTap {
  static constexpr bool kAlongTerms = true;
  struct Row {
    const std::uint32_t* group;
    Tap tap;
  };

  PatchGrid grid;
  const std::uint32_t *words = nullptr, *of_channels = nullptr;
  std::int64_t rows = 0, channels = 0, taps_of_channel = 1;  // channels: of a group
  const Tap* taps = nullptr;

  ISOBIT_DEVICE Row row(std::int64_t group, std::int64_t row) const {
    return {row < rows ? words + group * grid.group_stride : nullptr, taps[row < rows ? row : 0]};
  }
  ISOBIT_DEVICE void quad(const Row& row, std::int64_t k, std::int64_t end, std::uint32_t (&to)[4]) const {
#pragma unroll
    for (int t = 0; t < 4; ++t) {
      const bool inside = row.group != nullptr && k + t < end;
      to[t] = inside ? WordCorner(grid, row.group, k + t, true).word(row.tap, grid) : 0;
    }
  }
  ISOBIT_DEVICE std::uint32_t largest(std::int64_t group, std::int64_t row) const {
    return of_channels[group * channels + row / taps_of_channel];
  }
};

// Rows: channels of dy; k: positions, batch included.
struct ChannelWordsByPosition {
  static constexpr bool kAlongTerms = true;
  struct Row {
    const std::uint32_t* from;
  };

  const std::uint32_t *words = nullptr, *of_channels = nullptr;
  FastDivide plane;
  std::int64_t image_stride = 0, group_stride = 0, rows = 0;

  ISOBIT_DEVICE Row row(std::int64_t group, std::int64_t row) const {
    return {row < rows ? words + group * group_stride + row * plane.divisor() : nullptr};
  }
  ISOBIT_DEVICE void quad(const Row& row, std::int64_t k, std::int64_t end, std::uint32_t (&to)[4]) const {
#pragma unroll
    for (int t = 0; t < 4; ++t) {
      const bool inside = row.from != nullptr && k + t < end;
      const int position = inside ? static_cast<int>(k + t) : 0, image = plane.quotient(position);
      to[t] = inside ? row.from[image * image_stride + (position - image * plane.divisor())] : 0;
    }
  }
  ISOBIT_DEVICE std::uint32_t largest(std::int64_t group, std::int64_t row) const {
    return of_channels[group * rows + row];
  }
};

}  // namespace isobit::kernels::ISOBIT_CUDA
