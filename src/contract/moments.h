// Mean and sum of squared deviations by leaf moments (contract, section 4).
//
//   leaf   c <= kLeaf consecutive elements: mean = lane sum / c, m2 = lane sum of fma(d, d, .), d = x - mean,
//          both folded as in lane_sum.h
//   merge  n = na + nb;  d = mean_b - mean_a;  q = nb / n;
//          mean = fma(d, q, mean_a);  m2 = fma(d * d, na * q, m2_a + m2_b)
//          products rounded; counts are integers, each rounded to binary32 where it enters a formula
//   tree   pairwise_tree.h; no elements: n = 0, mean = +0, m2 = +0
//
// The update is that of Chan, Golub and LeVeque ("Updating formulae and a pairwise algorithm for computing
// sample variances", 1979). m2 is never negative. One pass over memory, since a leaf stays in cache between
// its two sweeps; relative error of m2 stays small where one-pass shifted sums lose every digit (mean much
// larger than the deviation). Host and device; no state; no exceptions.
#pragma once

#include <cmath>

#include "contract/lane_sum.h"
#include "contract/pairwise_tree.h"
#include "contract/platform.h"

ISOBIT_CONTRACT_BEGIN

struct Moments {
  std::int64_t n = 0;
  float mean = 0.0f;
  float m2 = 0.0f;
};

[[nodiscard]] ISOBIT_HOST_DEVICE inline Moments operator+(const Moments& a, const Moments& b) {
  const std::int64_t n = a.n + b.n;
  const float d = b.mean - a.mean;
  const float q = static_cast<float>(b.n) / static_cast<float>(n);
  const float squared = d * d;
  const float share = static_cast<float>(a.n) * q;
  return {n, std::fma(d, q, a.mean), std::fma(squared, share, a.m2 + b.m2)};
}

using MomentsTree = PairwiseTreeOf<Moments>;

// element(i) is element i of the leaf, 0 <= i < n, 1 <= n <= kLeaf.
template <class Element>
[[nodiscard]] ISOBIT_HOST_DEVICE inline Moments leaf_moments(std::int64_t n, Element&& element) {
  float lane[kSumLanes] = {};
  for (std::int64_t i = 0; i < n; ++i) lane[i % kSumLanes] = lane[i % kSumLanes] + element(i);
  const float mean = fold_lanes(lane) / static_cast<float>(n);
  for (std::int64_t j = 0; j < kSumLanes; ++j) lane[j] = 0.0f;
  for (std::int64_t i = 0; i < n; ++i) {
    const float d = element(i) - mean;
    lane[i % kSumLanes] = std::fma(d, d, lane[i % kSumLanes]);
  }
  return {n, mean, fold_lanes(lane)};
}

// element(i), 0 <= i < n, in the reduced index's order.
template <class Element>
[[nodiscard]] ISOBIT_HOST_DEVICE inline Moments moments(std::int64_t n, Element&& element) {
  MomentsTree tree;
  for (std::int64_t begin = 0; begin < n; begin += kLeaf) {
    const std::int64_t count = n - begin < kLeaf ? n - begin : kLeaf;
    tree.add(leaf_moments(count, [&](std::int64_t i) { return element(begin + i); }));
  }
  return tree.result();
}

ISOBIT_CONTRACT_END
