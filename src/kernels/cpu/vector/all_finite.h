// Whether factors can be left out whose partners are zero (contract, section 3): where these are finite.
#pragma once

#include "kernels/cpu/vector/lanes.h"

namespace isobit::kernels::ISOBIT_ISA {
namespace {

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
