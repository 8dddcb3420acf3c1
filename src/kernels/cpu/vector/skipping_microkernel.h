// The microkernel of gemm_microkernel.h for some of a leaf's terms: those with a zero factor are left out.
//
//   tile[r][c] = chain over m of fma(rows[r][a_offsets[m]], b[b_offsets[m]][c], .), + (+0)
//
// The contract (section 3) allows it where the other factor is finite; who builds the offsets has made sure.
#pragma once

#include "kernels/cpu/vector/gathered_microkernel.h"

namespace isobit::kernels::ISOBIT_ISA {
namespace {

// kAhead more offsets than terms are read, to fetch what comes.
constexpr int kAhead = 12;

// Rows packed [k][kTileRows].
template <int kRows, int kVectors>
__attribute__((noinline)) void skipping_tile_leaf(const float* a, const std::int32_t* a_offsets, const float* b,
                                                  const std::int32_t* b_offsets, std::int64_t terms, float* out) {
  FloatLanes t[kRows][kVectors];
  ISOBIT_UNROLL(GCC unroll 16)
  for (int r = 0; r < kRows; ++r) {
    ISOBIT_UNROLL(GCC unroll 2)
    for (int v = 0; v < kVectors; ++v) t[r][v] = FloatLanes(0.0f);
  }
  ISOBIT_UNROLL(GCC unroll 2)
  for (std::int64_t m = 0; m < terms; ++m) {
    const float* row = a + a_offsets[m];
    const float* from = b + b_offsets[m];
    FloatLanes column[kVectors];
    ISOBIT_UNROLL(GCC unroll 2)
    for (int v = 0; v < kVectors; ++v) column[v] = load(from + v * kLanes);
    ISOBIT_UNROLL(GCC unroll 2)
    for (int v = 0; v < kVectors; v += 16 / kLanes) __builtin_prefetch(b + b_offsets[m + kAhead] + v * kLanes);
    ISOBIT_UNROLL(GCC unroll 16)
    for (int r = 0; r < kRows; ++r) {
      const FloatLanes factor(row[r]);
      ISOBIT_UNROLL(GCC unroll 2)
      for (int v = 0; v < kVectors; ++v) t[r][v] = fma(factor, column[v], t[r][v]);
    }
  }
  ISOBIT_UNROLL(GCC unroll 16)
  for (int r = 0; r < kRows; ++r) {
    ISOBIT_UNROLL(GCC unroll 2)
    for (int v = 0; v < kVectors; ++v) store(out + r * kTileColumns + v * kLanes, t[r][v] + FloatLanes(0.0f));
  }
}

// Rows gathered; b [k][kTileColumns], its terms by b_offsets.
template <int kRows, int kVectors>
__attribute__((noinline)) void skipping_gathered_leaf(const float* const* rows, const std::int32_t* a_offsets,
                                                      const float* b, const std::int32_t* b_offsets, std::int64_t terms,
                                                      float* out) {
  FloatLanes t[kRows][kVectors];
  const float* row[kRows];
  ISOBIT_UNROLL(GCC unroll 16)
  for (int r = 0; r < kRows; ++r) {
    row[r] = rows[r];
    ISOBIT_UNROLL(GCC unroll 2)
    for (int v = 0; v < kVectors; ++v) t[r][v] = FloatLanes(0.0f);
  }
  ISOBIT_UNROLL(GCC unroll 2)
  for (std::int64_t m = 0; m < terms; ++m) {
    const std::int64_t offset = a_offsets[m];
    const float* from = b + b_offsets[m];
    FloatLanes column[kVectors];
    ISOBIT_UNROLL(GCC unroll 2)
    for (int v = 0; v < kVectors; ++v) column[v] = load(from + v * kLanes);
    __builtin_prefetch(from + 16 * kTileColumns);
    ISOBIT_UNROLL(GCC unroll 16)
    for (int r = 0; r < kRows; ++r) {
      const FloatLanes factor(row[r][offset]);
      ISOBIT_UNROLL(GCC unroll 2)
      for (int v = 0; v < kVectors; ++v) t[r][v] = fma(factor, column[v], t[r][v]);
    }
  }
  ISOBIT_UNROLL(GCC unroll 16)
  for (int r = 0; r < kRows; ++r) {
    ISOBIT_UNROLL(GCC unroll 2)
    for (int v = 0; v < kVectors; ++v) store(out + r * kTileColumns + v * kLanes, t[r][v] + FloatLanes(0.0f));
  }
}

using SkippingTileFunction = void (*)(const float* a, const std::int32_t* a_offsets, const float* b,
                                      const std::int32_t* b_offsets, std::int64_t terms, float* out);
using SkippingGatheredFunction = void (*)(const float* const* rows, const std::int32_t* a_offsets, const float* b,
                                          const std::int32_t* b_offsets, std::int64_t terms, float* out);

struct SkippingFunctions {
  SkippingTileFunction packed[kTileRows + 1][kTileVectors + 1];
  SkippingGatheredFunction gathered[kTileRows + 1][kTileVectors + 1];
};

template <int kRows = kTileRows>
constexpr void fill_skipping_functions(SkippingFunctions& f) {
  f.packed[kRows][1] = skipping_tile_leaf<kRows, 1>;
  f.packed[kRows][2] = skipping_tile_leaf<kRows, 2>;
  f.gathered[kRows][1] = skipping_gathered_leaf<kRows, 1>;
  f.gathered[kRows][2] = skipping_gathered_leaf<kRows, 2>;
  if constexpr (kRows > 1) fill_skipping_functions<kRows - 1>(f);
}

constexpr SkippingFunctions make_skipping_functions() {
  SkippingFunctions f{};
  fill_skipping_functions(f);
  return f;
}
constexpr SkippingFunctions kSkippingFunctions = make_skipping_functions();

// No infinity, no NaN among x[0..n): then x * 0 sums to 0.
ISOBIT_INLINE bool all_finite(const float* x, std::int64_t n) {
  FloatLanes sum[4] = {FloatLanes(0.0f), FloatLanes(0.0f), FloatLanes(0.0f), FloatLanes(0.0f)};
  std::int64_t i = 0;
  for (; i + 4 * kLanes <= n; i += 4 * kLanes) {
    for (int v = 0; v < 4; ++v) sum[v] = fma(load(x + i + v * kLanes), FloatLanes(0.0f), sum[v]);
  }
  alignas(64) float lane[kLanes];
  store(lane, (sum[0] + sum[1]) + (sum[2] + sum[3]));
  float total = 0;
  for (int l = 0; l < kLanes; ++l) total += lane[l];
  for (; i < n; ++i) total += x[i] * 0.0f;
  return total == 0.0f;
}

}  // namespace
}  // namespace isobit::kernels::ISOBIT_ISA
