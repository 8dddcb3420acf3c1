// Weight gradients of recurrent layers: one product per step, added in one chain over the steps (recurrent.h).
//
// A tile of outputs takes all steps of a chunk in turn, the steps' packed rows and columns stream past it. A step's
// product is one chain in registers where the step has at most a leaf of rows.
#pragma once

#include "contract/platform.h"
#include "kernels/cpu/vector/by_size.h"
#include "kernels/cpu/vector/packed_product.h"
#include "kernels/dispatch/workspace.h"
#include "kernels/recurrent.h"
#include "kernels/threads.h"

namespace isobit::kernels::ISOBIT_ISA {
namespace {

// total[r][c] = total[r][c] + product of the step, for each of the steps in turn. Sums and products stay in registers,
// so that a step of one row costs no more than its two operations. Not inlined: see tile_leaf.
template <int kRows, int kVectors>
__attribute__((noinline)) void chain_tile(const float* a, const float* b, const std::int64_t* rows, std::int64_t steps,
                                          float* total) {
  FloatLanes sum[kRows][kVectors];
  ISOBIT_UNROLL(GCC unroll 16)
  for (int r = 0; r < kRows; ++r) {
    ISOBIT_UNROLL(GCC unroll 2)
    for (int v = 0; v < kVectors; ++v) sum[r][v] = load(total + r * kTileColumns + v * kLanes);
  }
  for (std::int64_t step = 0; step < steps; ++step) {
    FloatLanes t[kRows][kVectors];
    ISOBIT_UNROLL(GCC unroll 16)
    for (int r = 0; r < kRows; ++r) {
      ISOBIT_UNROLL(GCC unroll 2)
      for (int v = 0; v < kVectors; ++v) t[r][v] = FloatLanes(0.0f);
    }
    for (std::int64_t k = 0; k < rows[step]; ++k) {
      FloatLanes column[kVectors];
      ISOBIT_UNROLL(GCC unroll 2)
      for (int v = 0; v < kVectors; ++v) column[v] = load(b + v * kLanes);
      ISOBIT_UNROLL(GCC unroll 16)
      for (int r = 0; r < kRows; ++r) {
        const FloatLanes row(a[r]);
        ISOBIT_UNROLL(GCC unroll 2)
        for (int v = 0; v < kVectors; ++v) t[r][v] = fma(row, column[v], t[r][v]);
      }
      a += kTileRows;
      b += kTileColumns;
    }
    ISOBIT_UNROLL(GCC unroll 16)
    for (int r = 0; r < kRows; ++r) {  // the sum is never -0, so a -0 need not become +0 first
      ISOBIT_UNROLL(GCC unroll 2)
      for (int v = 0; v < kVectors; ++v) sum[r][v] = sum[r][v] + t[r][v];
    }
  }
  ISOBIT_UNROLL(GCC unroll 16)
  for (int r = 0; r < kRows; ++r) {
    ISOBIT_UNROLL(GCC unroll 2)
    for (int v = 0; v < kVectors; ++v) store(total + r * kTileColumns + v * kLanes, sum[r][v]);
  }
}

// Half a tile's rows at a time: twice as many accumulators as they have outputs fill the registers.
constexpr int kChainRows = kTileRows / 2;
// [rows][vectors of columns]
constexpr auto kChainFunctions = by_size<kChainRows>(
    [](auto rows) { return by_size<2>([](auto vectors) { return &chain_tile<decltype(rows)::value, vectors>; }); });

// Steps of one chunk, in the order they are added.
struct StepChunk {
  const std::int64_t* rows;
  std::int64_t steps, all_rows;
  bool long_steps;  // more rows than a leaf: the tree is needed
};

ISOBIT_INLINE void add_steps(const StepChunk& chunk, const float* a, const float* b, std::int64_t rows,
                             std::int64_t columns, float* total) {
  // With 8 lanes half a tile does not hide the latency of fma: long enough steps take whole ones, sums in memory.
  if (!chunk.long_steps && (kLanes == 16 || chunk.all_rows < 8 * chunk.steps)) {
    for (std::int64_t r = 0; r < rows; r += kChainRows) {
      const std::int64_t count = rows - r < kChainRows ? rows - r : kChainRows;
      kChainFunctions.of[count].of[columns > kLanes ? 2 : 1](a + r, b, chunk.rows, chunk.steps,
                                                             total + r * kTileColumns);
    }
    return;
  }
  alignas(64) float tile[kTileSize];
  for (std::int64_t step = 0; step < chunk.steps; ++step) {
    Workspace workspace;
    packed_product(a, b, chunk.rows[step], rows, columns, tile,
                   workspace.floats(packed_product_scratch(chunk.rows[step])));
    for (int i = 0; i < kTileSize; i += kLanes) store(total + i, load(total + i) + load(tile + i));
    a += chunk.rows[step] * kTileRows;
    b += chunk.rows[step] * kTileColumns;
  }
}

// Rows [i0, i1) of the result, from a whole tile's border.
inline void step_products_rows(const RecurrentShape& s, std::int64_t m, std::int64_t n, const float* a, const float* b,
                               float* c, std::int64_t i0, std::int64_t i1) {
  constexpr std::int64_t kChunkRows = 256;  // the packed rows and columns of a chunk stay in the second cache
  const std::int64_t tiles = (i1 - i0 + kTileRows - 1) / kTileRows, panels = (n + kTileColumns - 1) / kTileColumns;
  const auto tile_rows = [&](std::int64_t i) {
    return i1 - i0 - i * kTileRows < kTileRows ? i1 - i0 - i * kTileRows : kTileRows;
  };
  const auto panel_columns = [&](std::int64_t j) {
    return n - j * kTileColumns < kTileColumns ? n - j * kTileColumns : kTileColumns;
  };
  Workspace workspace;
  float* const totals = workspace.floats(tiles * panels * kTileSize);
  for (std::int64_t i = 0; i < tiles * panels * kTileSize; i += kLanes) store(totals + i, FloatLanes(0.0f));
  const std::int64_t chunk_rows = kChunkRows + s.batch();
  float* const packed_a = workspace.floats(tiles * kTileRows * chunk_rows);
  float* const packed_b = workspace.floats(panels * kTileColumns * chunk_rows);
  auto* const rows =
      static_cast<std::int64_t*>(workspace.bytes(sizeof(std::int64_t) * static_cast<std::size_t>(s.steps)));
  for (std::int64_t taken = s.steps - 1; taken >= 0;) {
    StepChunk chunk{rows, 0, 0, false};
    const std::int64_t start = taken;
    for (; taken >= 0 && chunk.all_rows < kChunkRows; --taken) {
      const std::int64_t count = s.rows[s.time(taken)];
      rows[chunk.steps++] = count;
      chunk.all_rows += count;
      chunk.long_steps |= count > contract::kLeaf;
    }
    std::int64_t at = 0;
    for (std::int64_t step = 0; step < chunk.steps; at += rows[step++]) {
      const std::int64_t first = s.first[s.time(start - step)];
      for (std::int64_t i = 0; i < tiles; ++i) {
        pack_panel<kTileRows>(a + first * m + i0 + i * kTileRows, m, 1, rows[step], tile_rows(i),
                              packed_a + (i * chunk.all_rows + at) * kTileRows);
      }
      for (std::int64_t j = 0; j < panels; ++j) {
        pack_panel<kTileColumns>(b + first * n + j * kTileColumns, n, 1, rows[step], panel_columns(j),
                                 packed_b + (j * chunk.all_rows + at) * kTileColumns);
      }
    }
    for (std::int64_t j = 0; j < panels; ++j) {
      for (std::int64_t i = 0; i < tiles; ++i) {
        add_steps(chunk, packed_a + i * chunk.all_rows * kTileRows, packed_b + j * chunk.all_rows * kTileColumns,
                  tile_rows(i), panel_columns(j), totals + (i * panels + j) * kTileSize);
      }
    }
  }
  for (std::int64_t i = 0; i < tiles; ++i) {
    for (std::int64_t j = 0; j < panels; ++j) {
      const float* const total = totals + (i * panels + j) * kTileSize;
      for (std::int64_t r = 0; r < tile_rows(i); ++r) {
        float* const to = c + (i0 + i * kTileRows + r) * n + j * kTileColumns;
        for (std::int64_t l = 0; l < panel_columns(j); ++l) to[l] = total[r * kTileColumns + l];
      }
    }
  }
}

[[maybe_unused]] void step_products(const RecurrentShape& s, std::int64_t m, std::int64_t n, const float* a,
                                    const float* b, float* c) {
  if (m == 0 || n == 0) return;
  const std::int64_t tiles = (m + kTileRows - 1) / kTileRows;
  const double work = static_cast<double>(s.first[s.steps]) * static_cast<double>(n) * kTileRows;  // of a row of tiles
  parallel_for(0, tiles, static_cast<std::int64_t>(4e5 / (work + 1)) + 1, [&](std::int64_t begin, std::int64_t end) {
    step_products_rows(s, m, n, a, b, c, begin * kTileRows, end * kTileRows < m ? end * kTileRows : m);
  });
}

}  // namespace
}  // namespace isobit::kernels::ISOBIT_ISA
