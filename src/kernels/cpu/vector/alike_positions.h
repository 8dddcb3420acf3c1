// One row of a product at several positions at once: image_lanes.h where one row of weights meets the images.
//
//   tile[q][l] = chain over k of fma(weights[a_offsets[k]], pixels[q * step + b_offsets[k] + l], .), + (+0)
//
// A tile of one row has too few chains to keep a processor's units busy, and reads a weight for each position anew.
// Positions that lie step floats apart and whose taps fall inside alike take the rows' place.
#pragma once

#include "kernels/cpu/vector/by_size.h"
#include "kernels/cpu/vector/gemm_microkernel.h"

namespace isobit::kernels::ISOBIT_ISA {
namespace {

inline constexpr int kAlikePositions = ISOBIT_LANES == 16 ? 12 : 6;

struct AlikePositions {
  const float *weights, *pixels;
  std::int64_t step;
  const std::int32_t *a_offsets, *b_offsets;
};

template <int kPositions>
__attribute__((noinline)) void alike_leaf(AlikePositions p, std::int64_t terms, float* out) {
  FloatLanes t[kPositions][kTileVectors];
  ISOBIT_UNROLL(GCC unroll 16)
  for (int q = 0; q < kPositions; ++q) {
    ISOBIT_UNROLL(GCC unroll 2)
    for (int v = 0; v < kTileVectors; ++v) t[q][v] = FloatLanes(0.0f);
  }
  for (std::int64_t k = 0; k < terms; ++k) {
    const FloatLanes weight(p.weights[p.a_offsets[k]]);
    const float* pixels = p.pixels + p.b_offsets[k];
    ISOBIT_UNROLL(GCC unroll 16)
    for (int q = 0; q < kPositions; ++q, pixels += p.step) {
      ISOBIT_UNROLL(GCC unroll 2)
      for (int v = 0; v < kTileVectors; ++v) t[q][v] = fma(weight, load(pixels + v * kLanes), t[q][v]);
    }
  }
  ISOBIT_UNROLL(GCC unroll 16)
  for (int q = 0; q < kPositions; ++q) {
    ISOBIT_UNROLL(GCC unroll 2)
    for (int v = 0; v < kTileVectors; ++v) store(out + q * kTileColumns + v * kLanes, t[q][v] + FloatLanes(0.0f));
  }
}

// tile[q * kTileColumns + l] for q < i, of[i].
constexpr auto kAlikeFunctions = by_size<kAlikePositions>([](auto positions) { return &alike_leaf<positions>; });

}  // namespace
}  // namespace isobit::kernels::ISOBIT_ISA
