// Weighted sums along one dimension from a table: interpolation, its gradient, sums of what padding copied (contract,
// section 12).
//
// On the host only: throws DeviceError within a DeviceScope (devices compose it, src/aten). Thread-safe; uses the pool.
#pragma once

#include <cstdint>

namespace isobit::kernels {

// Output r of the dimension is made of inputs source[e], e from begin[r] to begin[r + 1] - 1.
struct AxisTable {
  std::int64_t in = 0, out = 0;
  const std::int32_t* begin = nullptr;   // [out + 1]
  const std::int32_t* source = nullptr;  // [begin[out]]
  const float* weight = nullptr;         // the same
  std::int64_t most = 0;                 // the longest row's entries
};

// x [outer, in, inner], y [outer, out, inner]: y = chain of t = fma(weight, x, t) over the row's entries in their
// order, from +0; no entries give +0.
void resample_axis(const AxisTable& table, std::int64_t outer, std::int64_t inner, const float* x, float* y);

}  // namespace isobit::kernels
