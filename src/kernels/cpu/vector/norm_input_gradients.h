// The input gradient of a normalised row (kernels/group_norm.h), whatever its channels' factors are.
#pragma once

#include "contract/pairwise_tree.h"
#include "kernels/cpu/vector/lane_leaf.h"
#include "kernels/group_norm.h"

namespace isobit::kernels::ISOBIT_ISA {
namespace {

constexpr std::int64_t kLine = 16;  // floats of a line of the cache

struct SeenByNobody {
  ISOBIT_INLINE auto operator()(std::int64_t) const {
    return [](std::int64_t, FloatLanes, FloatLanes, auto) {};
  }
};

// Rows [first, first + rows), kRowsTogether at most, a step further together. gradient(r)(i, Whole or Part): of the
// normalised values of row first + r from element i on; also(r)(i, x - mean, 1 / deviation, Whole or Part) sees them as
// dx is written. What they return holds a row's pointers, so that they stay in registers. While dx is written, x and dy
// of the rows `ahead` further, whose turn comes next, are fetched into the cache: a row is about a page, and the
// processor's own prefetching ends with it.
template <class Gradient, class Also>
ISOBIT_INLINE void norm_input_gradients(const GroupNormBackward& p, std::int64_t first, std::int64_t rows,
                                        std::int64_t ahead, Gradient gradient, Also also) {
  const std::int64_t count = p.shape.per_row();
  contract::PairwiseTreeOf<float> sums[kRowsTogether], dots[kRowsTogether];
  for (std::int64_t begin = 0; begin < count; begin += contract::kLeaf) {
    const std::int64_t length = count - begin < contract::kLeaf ? count - begin : contract::kLeaf;
    for (std::int64_t r = 0; r < rows; ++r) {
      const FloatLanes mean(p.mean[first + r]);
      const float* const x = p.x + (first + r) * count + begin;
      const auto row = gradient(r);
      const auto step = [&](FloatLanes & sum, FloatLanes & dot, std::int64_t i, auto part)
          __attribute__((always_inline)) {
        const FloatLanes g = row(begin + i, part);
        sum = sum + g;
        dot = fma(g, keep(fetch(x + i, part) - mean, part), dot);
      };
      const TwoSums leaf = leaf_two_sums(length, step);
      sums[r].add(leaf.first), dots[r].add(leaf.second);
    }
  }
  const float n = static_cast<float>(count);
  for (std::int64_t r = 0; r < rows; ++r) {
    const float invstd = p.invstd[first + r];
    const FloatLanes mean(p.mean[first + r]), inverse(invstd);
    const FloatLanes a((sums[r].result() + 0.0f) / n), k((dots[r].result() + 0.0f) * invstd * invstd / n);
    const float* const x = p.x + (first + r) * count;
    float* const dx = p.dx + (first + r) * count;
    const auto row = gradient(r);
    const auto seen = also(r);
    const float *const next_x = x + ahead * count, *const next_dy = p.dy + (first + r + ahead) * count;
    for_each_register(
        count, [&](std::int64_t i, auto part) __attribute__((always_inline)) {
          if (i % kLine == 0) __builtin_prefetch(next_x + i), __builtin_prefetch(next_dy + i);
          const FloatLanes centered = fetch(x + i, part) - mean;
          seen(i, centered, inverse, part);
          put(dx + i, fma(-centered, k, row(i, part) - a) * inverse, part);
        });
  }
}

}  // namespace
}  // namespace isobit::kernels::ISOBIT_ISA
