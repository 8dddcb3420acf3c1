// A slice of several ranks' gradients, summed exactly (contract, section 7) where every contribution is at hand.
//
// What the accumulators do over a step's grains, in one pass: as all contributions are there, and the top limb of each
// tensor is known from all ranks, no digits are kept between them. Thread-safe; uses the pool.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <span>

namespace isobit::grains {

// Consecutive elements of one tensor, and the top limb of that whole tensor over all ranks (kernels::kNoLimb: all
// zero).
struct Segment {
  std::int64_t length = 0;
  int limb = 0;
};

// limbs[i]: the top limb of the i-th of consecutive pieces of x, kernels::kNotFinite where it has a NaN or infinity.
// Precondition: x is contiguous float32 and the lengths add up to its size (std::invalid_argument).
void top_limbs(const at::Tensor& x, std::span<const std::int64_t> lengths, std::span<int> limbs);

// out[i] = the sum of rows[r][i] over the rows, rounded once to binary32 (infinite beyond its range). rows [ranks, n]
// and out [n] are contiguous float32 of one device. False, and out of no use, where a row exceeds its segment's limb:
// such values are not those that the limbs were taken from. std::invalid_argument where sizes do not fit or rows exceed
// 2^17.
[[nodiscard]] bool sum_rows(const at::Tensor& rows, std::span<const Segment> segments, const at::Tensor& out);

}  // namespace isobit::grains
