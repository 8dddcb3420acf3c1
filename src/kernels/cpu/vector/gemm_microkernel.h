// The innermost loop of matrix products and convolutions: one leaf of one tile of outputs, in registers.
//
//   tile[r][c] = chain over k of fma(a[k][r], b[k][c], .), + (+0)        r < kTileRows, c < kTileColumns
//
// a is packed [k][kTileRows], b is packed [k][kTileColumns] (64-byte aligned). Rows are broadcast, columns are
// lanes, so every output is its own chain: the contract's leaf by construction.
//
// Tile sizes fill the register file: 6 x 2 accumulators of 16 registers (AVX2), 14 x 2 of 32 (AVX-512), two left
// for a row of b and one for the broadcast.
#pragma once

#include "kernels/cpu/vector/lanes.h"

namespace isobit::kernels::ISOBIT_ISA {

inline constexpr int kTileVectors = 2;
inline constexpr int kTileRows = ISOBIT_LANES == 16 ? 14 : 6;
inline constexpr int kTileColumns = kTileVectors * kLanes;
inline constexpr int kTileSize = kTileRows * kTileColumns;

namespace {

// Not inlined: register allocation then depends on nothing but this loop.
template <int kRows, int kVectors>
__attribute__((noinline)) void tile_leaf(const float* a, const float* b, std::int64_t terms, float* out,
                                         std::int64_t out_stride) {
  FloatLanes t[kRows][kVectors];
#pragma GCC unroll 16
  for (int r = 0; r < kRows; ++r)
#pragma GCC unroll 2
    for (int v = 0; v < kVectors; ++v) t[r][v] = FloatLanes(0.0f);
#pragma GCC unroll 4
  for (std::int64_t k = 0; k < terms; ++k) {
    FloatLanes column[kVectors];
#pragma GCC unroll 2
    for (int v = 0; v < kVectors; ++v) column[v] = load(b + v * kLanes);
    __builtin_prefetch(b + 16 * kTileColumns);
#pragma GCC unroll 16
    for (int r = 0; r < kRows; ++r) {
      const FloatLanes row(a[r]);
#pragma GCC unroll 2
      for (int v = 0; v < kVectors; ++v) t[r][v] = fma(row, column[v], t[r][v]);
    }
    a += kTileRows;
    b += kTileColumns;
  }
#pragma GCC unroll 16
  for (int r = 0; r < kRows; ++r)
#pragma GCC unroll 2
    for (int v = 0; v < kVectors; ++v) store(out + r * out_stride + v * kLanes, t[r][v] + FloatLanes(0.0f));
}

// The same with the rows of a gathered: a[k][r] = rows[r][offsets[k]].
template <int kRows, int kVectors>
__attribute__((noinline)) void gathered_tile_leaf(const float* const* rows, const std::int32_t* offsets, const float* b,
                                                  std::int64_t terms, float* out) {
  FloatLanes t[kRows][kVectors];
  const float* row[kRows];
#pragma GCC unroll 16
  for (int r = 0; r < kRows; ++r) {
    row[r] = rows[r];
#pragma GCC unroll 2
    for (int v = 0; v < kVectors; ++v) t[r][v] = FloatLanes(0.0f);
  }
#pragma GCC unroll 2
  for (std::int64_t k = 0; k < terms; ++k) {
    const std::int64_t offset = offsets[k];
    FloatLanes column[kVectors];
#pragma GCC unroll 2
    for (int v = 0; v < kVectors; ++v) column[v] = load(b + v * kLanes);
    __builtin_prefetch(b + 16 * kTileColumns);
#pragma GCC unroll 16
    for (int r = 0; r < kRows; ++r) {
      const FloatLanes factor(row[r][offset]);
#pragma GCC unroll 2
      for (int v = 0; v < kVectors; ++v) t[r][v] = fma(factor, column[v], t[r][v]);
    }
    b += kTileColumns;
  }
#pragma GCC unroll 16
  for (int r = 0; r < kRows; ++r)
#pragma GCC unroll 2
    for (int v = 0; v < kVectors; ++v) store(out + r * kTileColumns + v * kLanes, t[r][v] + FloatLanes(0.0f));
}

using TileFunction = void (*)(const float* a, const float* b, std::int64_t terms, float* out,
                              std::int64_t out_stride);

using GatheredTileFunction = void (*)(const float* const* rows, const std::int32_t* offsets, const float* b,
                                      std::int64_t terms, float* out);

struct TileFunctions {
  TileFunction by_size[kTileRows + 1][kTileVectors + 1];
  GatheredTileFunction gathered[kTileRows + 1][kTileVectors + 1];
};

template <int kRows = kTileRows>
constexpr void fill_tile_functions(TileFunctions& f) {
  f.by_size[kRows][1] = tile_leaf<kRows, 1>;
  f.by_size[kRows][2] = tile_leaf<kRows, 2>;
  f.gathered[kRows][1] = gathered_tile_leaf<kRows, 1>;
  f.gathered[kRows][2] = gathered_tile_leaf<kRows, 2>;
  if constexpr (kRows > 1) fill_tile_functions<kRows - 1>(f);
}

constexpr TileFunctions make_tile_functions() {
  TileFunctions f{};
  fill_tile_functions(f);
  return f;
}
constexpr TileFunctions kTileFunctions = make_tile_functions();

// A kernel for a tile of `rows` real rows and `columns` real columns: less work at the borders.
ISOBIT_INLINE TileFunction tile_function(std::int64_t rows, std::int64_t columns) {
  return kTileFunctions.by_size[rows][columns > kLanes ? 2 : 1];
}
ISOBIT_INLINE GatheredTileFunction gathered_tile_function(std::int64_t rows, std::int64_t columns) {
  return kTileFunctions.gathered[rows][columns > kLanes ? 2 : 1];
}

}  // namespace
}  // namespace isobit::kernels::ISOBIT_ISA
