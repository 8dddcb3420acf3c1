// The innermost loop of matrix products and convolutions: one leaf of one tile of outputs, in registers.
//
//   tile[r][c] = chain over k of fma(a[k][r], b[k][c], .), + (+0)        r < kTileRows, c < kTileColumns
//
// a is packed [k][kTileRows], b is packed [k][kTileColumns] (64-byte aligned). Rows are broadcast, columns
// are lanes, so every output is its own chain: the contract's leaf by construction.
//
// Tile sizes fill the register file: 6 x 2 accumulators of 16 registers (AVX2), 14 x 2 of 32 (AVX-512), two
// left for a row of b and one for the broadcast.
#pragma once

#include "kernels/cpu/vector/lanes.h"

namespace isobit::kernels::ISOBIT_ISA {

// The 16-lane build lowered to AVX2 has no registers for its tile: unrolling it would only cost compile time.
#if ISOBIT_LANES == 16 && !defined(__AVX512F__)
#define ISOBIT_UNROLL(pragma) _Pragma("GCC unroll 1")
#else
#define ISOBIT_UNROLL(pragma) _Pragma(#pragma)
#endif

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
  ISOBIT_UNROLL(GCC unroll 16)
  for (int r = 0; r < kRows; ++r) {
    ISOBIT_UNROLL(GCC unroll 2)
    for (int v = 0; v < kVectors; ++v) t[r][v] = FloatLanes(0.0f);
  }
  ISOBIT_UNROLL(GCC unroll 4)
  for (std::int64_t k = 0; k < terms; ++k) {
    FloatLanes column[kVectors];
    ISOBIT_UNROLL(GCC unroll 2)
    for (int v = 0; v < kVectors; ++v) column[v] = load(b + v * kLanes);
    __builtin_prefetch(b + 16 * kTileColumns);
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
  for (int r = 0; r < kRows; ++r) {
    ISOBIT_UNROLL(GCC unroll 2)
    for (int v = 0; v < kVectors; ++v) store(out + r * out_stride + v * kLanes, t[r][v] + FloatLanes(0.0f));
  }
}

using TileFunction = void (*)(const float* a, const float* b, std::int64_t terms, float* out, std::int64_t out_stride);

struct TileFunctions {
  TileFunction by_size[kTileRows + 1][kTileVectors + 1];
};

template <int kRows = kTileRows>
constexpr void fill_tile_functions(TileFunctions& f) {
  f.by_size[kRows][1] = tile_leaf<kRows, 1>;
  f.by_size[kRows][2] = tile_leaf<kRows, 2>;
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

}  // namespace
}  // namespace isobit::kernels::ISOBIT_ISA
