// The microkernel of gemm_microkernel.h with its rows gathered instead of packed: a[k][r] =
// rows[r][offsets[k]].
//
// So that a convolution's taps are read where the pixels lie: nothing is copied, whatever the strides.
#pragma once

#include "kernels/cpu/vector/gemm_microkernel.h"

namespace isobit::kernels::ISOBIT_ISA {
namespace {

template <int kRows, int kVectors>
__attribute__((noinline)) void gathered_tile_leaf(const float* const* rows, const std::int32_t* offsets, const float* b,
                                                  std::int64_t terms, float* out) {
  FloatLanes t[kRows][kVectors];
  const float* row[kRows];
  ISOBIT_UNROLL(GCC unroll 16)
  for (int r = 0; r < kRows; ++r) {
    row[r] = rows[r];
    ISOBIT_UNROLL(GCC unroll 2)
    for (int v = 0; v < kVectors; ++v) t[r][v] = FloatLanes(0.0f);
  }
  ISOBIT_UNROLL(GCC unroll 2)
  for (std::int64_t k = 0; k < terms; ++k) {
    const std::int64_t offset = offsets[k];
    FloatLanes column[kVectors];
    ISOBIT_UNROLL(GCC unroll 2)
    for (int v = 0; v < kVectors; ++v) column[v] = load(b + v * kLanes);
    __builtin_prefetch(b + 16 * kTileColumns);
    ISOBIT_UNROLL(GCC unroll 16)
    for (int r = 0; r < kRows; ++r) {
      const FloatLanes factor(row[r][offset]);
      ISOBIT_UNROLL(GCC unroll 2)
      for (int v = 0; v < kVectors; ++v) t[r][v] = fma(factor, column[v], t[r][v]);
    }
    b += kTileColumns;
  }
  ISOBIT_UNROLL(GCC unroll 16)
  for (int r = 0; r < kRows; ++r) {
    ISOBIT_UNROLL(GCC unroll 2)
    for (int v = 0; v < kVectors; ++v) store(out + r * kTileColumns + v * kLanes, t[r][v] + FloatLanes(0.0f));
  }
}

using GatheredTileFunction = void (*)(const float* const* rows, const std::int32_t* offsets, const float* b,
                                      std::int64_t terms, float* out);

struct GatheredTileFunctions {
  GatheredTileFunction by_size[kTileRows + 1][kTileVectors + 1];
};

template <int kRows = kTileRows>
constexpr void fill_gathered_tile_functions(GatheredTileFunctions& f) {
  f.by_size[kRows][1] = gathered_tile_leaf<kRows, 1>;
  f.by_size[kRows][2] = gathered_tile_leaf<kRows, 2>;
  if constexpr (kRows > 1) fill_gathered_tile_functions<kRows - 1>(f);
}

constexpr GatheredTileFunctions make_gathered_tile_functions() {
  GatheredTileFunctions f{};
  fill_gathered_tile_functions(f);
  return f;
}
constexpr GatheredTileFunctions kGatheredTileFunctions = make_gathered_tile_functions();

ISOBIT_INLINE GatheredTileFunction gathered_tile_function(std::int64_t rows, std::int64_t columns) {
  return kGatheredTileFunctions.by_size[rows][columns > kLanes ? 2 : 1];
}

}  // namespace
}  // namespace isobit::kernels::ISOBIT_ISA
