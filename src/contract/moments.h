// Mean and sum of squared deviations by leaf moments (contract, section 4).
//
//   leaf   c <= kLeaf consecutive elements: mean = lane sum / c, m2 = lane sum of fma(d, d, .), d = x - mean,
//          both folded as in lane_sum.h
//   merge  n = na + nb;  d = mean_b - mean_a;  q = nb / n;
//          mean = fma(d, q, mean_a);  m2 = fma(d * d, na * q, m2_a + m2_b)
//          products rounded; counts are integers, each rounded to the elements' type where it enters a formula
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

template <class T>
struct MomentsOf {
  std::int64_t n = 0;
  T mean = T(0);
  T m2 = T(0);
};
using Moments = MomentsOf<float>;

template <class T>
[[nodiscard]] ISOBIT_HOST_DEVICE inline MomentsOf<T> operator+(const MomentsOf<T>& a, const MomentsOf<T>& b) {
  const std::int64_t n = a.n + b.n;
  const T d = b.mean - a.mean;
  const T q = static_cast<T>(b.n) / static_cast<T>(n);
  const T squared = d * d;
  const T share = static_cast<T>(a.n) * q;
  return {n, std::fma(d, q, a.mean), std::fma(squared, share, a.m2 + b.m2)};
}

using MomentsTree = PairwiseTreeOf<Moments>;

// element(i) is element i of the leaf, 0 <= i < n, 1 <= n <= kLeaf.
template <class T = float, class Element>
[[nodiscard]] ISOBIT_HOST_DEVICE inline MomentsOf<T> leaf_moments(std::int64_t n, Element&& element) {
  T lane[kSumLanes] = {};
  const auto each = [&](auto&& add) {  // all lanes in turn, which vectors can take together
    std::int64_t i = 0;
    for (; i + kSumLanes <= n; i += kSumLanes)
      for (std::int64_t j = 0; j < kSumLanes; ++j) add(lane[j], element(i + j));
    for (std::int64_t j = 0; i + j < n; ++j) add(lane[j], element(i + j));
  };
  each([](T& t, T x) { t = t + x; });
  const T mean = fold_lanes(lane) / static_cast<T>(n);
  for (std::int64_t j = 0; j < kSumLanes; ++j) lane[j] = T(0);
  each([mean](T& t, T x) {
    const T d = x - mean;
    t = std::fma(d, d, t);
  });
  return {n, mean, fold_lanes(lane)};
}

// element(i), 0 <= i < n, in the reduced index's order.
template <class T = float, class Element>
[[nodiscard]] ISOBIT_HOST_DEVICE inline MomentsOf<T> moments(std::int64_t n, Element&& element) {
  PairwiseTreeOf<MomentsOf<T>> tree;
  for (std::int64_t begin = 0; begin < n; begin += kLeaf) {
    const std::int64_t count = n - begin < kLeaf ? n - begin : kLeaf;
    tree.add(leaf_moments<T>(count, [&](std::int64_t i) { return element(begin + i); }));
  }
  return tree.result();
}

ISOBIT_CONTRACT_END
