// The sides of exact products on a device: where a tile's rows find their chunks (exact_chunks.h). Private to this
// folder.
//
// A matrix's rows lie one behind the other. Images keep their pixels, with channels innermost (or, for weight
// gradients, the batch), so a tap of a window is whole chunks, found by a table; nothing is unfolded in
// memory. Sums of integers have no order, so terms go through taps first and channels last.
#pragma once

#include "kernels/cuda/conv_taps.h"
#include "kernels/cuda/exact_chunks.h"

namespace isobit::kernels::ISOBIT_CUDA {

struct MatrixChunks {
  using Row = const std::uint32_t*;  // nullptr: outside

  const std::uint32_t *chunks = nullptr, *of_rows = nullptr;
  std::int64_t batch_rows = 0;  // 0: every batch has the same
  std::int64_t rows = 0, depth = 0;

  ISOBIT_DEVICE Row row(std::int64_t batch, std::int64_t row) const {
    return row < rows ? chunks + (batch * batch_rows + row) * depth * kChunkWords : nullptr;
  }
  ISOBIT_DEVICE const std::uint32_t* chunk(Row row, int q) const {
    return row != nullptr ? row + std::int64_t{q} * kChunkWords : nullptr;
  }
  ISOBIT_DEVICE std::uint32_t largest(std::int64_t batch, std::int64_t row) const {
    return of_rows[batch * batch_rows + row];
  }
};

// All of it at once.
ISOBIT_DEVICE Tap load_tap(const Tap* from) {
  static_assert(sizeof(Tap) == sizeof(ChunkLine));
  const ChunkLine line = *reinterpret_cast<const ChunkLine*>(from);
  return {static_cast<int>(line.at[0]), static_cast<int>(line.at[1]), static_cast<int>(line.at[2]),
          static_cast<int>(line.at[3])};
}

// Rows: channels of a group; k: the taps of the table.
struct WeightChunks {
  using Row = const std::uint32_t*;

  const std::uint32_t *chunks = nullptr, *of_rows = nullptr;
  std::int64_t rows = 0, depth = 0;
  const Tap* taps = nullptr;

  ISOBIT_DEVICE Row row(std::int64_t group, std::int64_t row) const {
    return row < rows ? chunks + (group * rows + row) * depth * kChunkWords : nullptr;
  }
  ISOBIT_DEVICE const std::uint32_t* chunk(Row row, int q) const {
    return row != nullptr ? row + std::int64_t{load_tap(taps + q).weight} * kChunkWords : nullptr;
  }
  ISOBIT_DEVICE std::uint32_t largest(std::int64_t group, std::int64_t row) const {
    return of_rows[group * rows + row];
  }
};

// A window's corner, and the chunk that a tap sees from there.
struct ChunkCorner {
  const std::uint32_t* at;
  int top, left;

  ISOBIT_DEVICE const std::uint32_t* look(const Tap& tap, const PatchGrid& grid) const {
    // No branch: both are looked at.
    const int outside =
        static_cast<int>(static_cast<unsigned>(top + tap.down) >= static_cast<unsigned>(grid.source_h)) |
        static_cast<int>(static_cast<unsigned>(left + tap.right) >= static_cast<unsigned>(grid.source_w));
    return outside == 0 ? at + std::int64_t{tap.offset} * kChunkWords : nullptr;
  }
};

// Rows: positions; k: taps. An image and group has an exponent. The grid's strides count chunks.
struct WindowChunks {
  using Row = ChunkCorner;

  PatchGrid grid;
  const std::uint32_t *chunks = nullptr, *of_images = nullptr;  // of_images: [image][group]
  std::int64_t groups = 1;
  int pitch = 1;  // chunks a pixel
  const Tap* taps = nullptr;

  ISOBIT_DEVICE Row row(std::int64_t group, std::int64_t position) const {
    const bool inside = position < grid.positions;
    const PatchGrid::Place at = grid.place(inside ? static_cast<int>(position) : 0);
    const int top = at.row * grid.step_h, left = at.column * grid.step_w;
    const std::int64_t pixel = std::int64_t{top} * grid.source_w + left;
    return {chunks + (at.image * grid.image_stride + group * grid.group_stride + pixel * pitch) * kChunkWords,
            inside ? top : kNoPosition, left};
  }
  ISOBIT_DEVICE const std::uint32_t* chunk(const Row& row, int q) const { return row.look(load_tap(taps + q), grid); }
  ISOBIT_DEVICE std::uint32_t largest(std::int64_t group, std::int64_t position) const {
    return of_images[grid.place(static_cast<int>(position)).image * groups + group];
  }
};

// Rows: taps (channel, kh, kw); k: positions, each with its batch. An input channel has an exponent.
struct WindowChunksByTap {
  using Row = ChunkCorner;

  PatchGrid grid;  // source_h, source_w
  const std::uint32_t *chunks = nullptr, *of_channels = nullptr;
  std::int64_t rows = 0, channels = 0;  // of a group
  FastDivide taps_of_channel, taps_of_row;
  int pad_h = 0, pad_w = 0, dilation_h = 1, dilation_w = 1, pitch = 1;
  const Tap* taps = nullptr;

  ISOBIT_DEVICE Row row(std::int64_t group, std::int64_t row) const {
    const bool inside = row < rows;
    const int index = inside ? static_cast<int>(row) : 0, channel = taps_of_channel.quotient(index);
    const int rest = index - channel * taps_of_channel.divisor(), h = taps_of_row.quotient(rest);
    const int top = h * dilation_h - pad_h, left = (rest - h * taps_of_row.divisor()) * dilation_w - pad_w;
    const std::int64_t plane = std::int64_t{grid.source_h} * grid.source_w;
    const std::int64_t pixel = (group * channels + channel) * plane + std::int64_t{top} * grid.source_w + left;
    return {chunks + pixel * pitch * kChunkWords, inside ? top : kNoPosition, left};
  }
  ISOBIT_DEVICE const std::uint32_t* chunk(const Row& row, int q) const { return row.look(load_tap(taps + q), grid); }
  ISOBIT_DEVICE std::uint32_t largest(std::int64_t group, std::int64_t row) const {
    return of_channels[group * channels + taps_of_channel.quotient(static_cast<int>(row))];
  }
};

// Chunk q of a window: tap (h, w), its chunk c (the fastest).
struct ChunkTapGeometry {
  Axis h, w;
  int depth = 1;                  // chunks a tap has
  int pitch = 1, row_stride = 0;  // chunks from a pixel to its right neighbour, to the one below
  int weight_row = 0;             // taps a row of the weight has
  int taps = 0;                   // with their chunks

  ISOBIT_DEVICE Tap tap(int q) const {
    const int c = q % depth, i = q / depth, right = w.look(i % w.count), down = h.look(i / w.count);
    return {down * row_stride + right * pitch + c, down, right,
            (h.tap(i / w.count) * weight_row + w.tap(i % w.count)) * depth + c};
  }
};

static ISOBIT_KERNEL void chunk_taps_kernel(ChunkTapGeometry g, Tap* table) {
  const int q = static_cast<int>(block_index()) * kTableThreads + thread_index();
  if (q < g.taps) table[q] = g.tap(q);
}

class ChunkTaps {
 public:
  explicit ChunkTaps(ChunkTapGeometry g) : geometry_(counted(g)), memory_(geometry_.taps * std::int64_t{sizeof(Tap)}) {
    launch(chunk_taps_kernel, {ceil_div(geometry_.taps, kTableThreads), kTableThreads}, geometry_, memory_.as<Tap>());
  }
  [[nodiscard]] const Tap* taps() const { return memory_.as<Tap>(); }
  [[nodiscard]] std::int64_t terms() const { return std::int64_t{geometry_.taps} * kChunkTerms; }

 private:
  static ChunkTapGeometry counted(ChunkTapGeometry g) {
    g.taps = g.depth * g.h.count * g.w.count;
    return g;
  }
  ChunkTapGeometry geometry_;
  Scratch memory_;
};

}  // namespace isobit::kernels::ISOBIT_CUDA
