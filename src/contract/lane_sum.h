// Section 4 sums: the order in which isobit adds values that are not dot products of section 3.
//
//   leaf   kLeaf consecutive elements; lane j of 32 starts at +0 and takes the leaf's elements j, j + 32, ...
//          by t = t + x (add) or t = fma(a, b, t) (add_product)
//   fold   w = 16, 8, 4, 2, 1: lane j = lane j + lane j + w, for j < w; lane 0 is the leaf's value
//   tree   leaves combined pairwise (pairwise_tree.h); the root is + (+0)
//
// Promises: the same bits for every caller, thread count and instruction set; never -0; empty is +0; a zero
// element, or a product with a zero factor and a finite one, may be left out without changing a bit.
// Of binary32 (LaneSum) or binary64. Host and device; no exceptions.
#pragma once

#include <cmath>

#include "contract/pairwise_tree.h"
#include "contract/platform.h"

ISOBIT_CONTRACT_BEGIN

// lane[0..31] to one value; overwrites the lanes.
template <class T>
[[nodiscard]] ISOBIT_HOST_DEVICE inline T fold_lanes(T* lane) {
  for (std::int64_t w = kSumLanes / 2; w >= 1; w /= 2) {
    for (std::int64_t j = 0; j < w; ++j) lane[j] = lane[j] + lane[j + w];
  }
  return lane[0];
}

// Takes elements one at a time, in order; result() may be asked once all have come.
template <class T>
class LaneSumOf {
 public:
  ISOBIT_HOST_DEVICE void add(T x) {
    T& lane = lane_[in_leaf_ % kSumLanes];
    lane = lane + x;
    next();
  }
  ISOBIT_HOST_DEVICE void add_product(T a, T b) {
    T& lane = lane_[in_leaf_ % kSumLanes];
    lane = std::fma(a, b, lane);
    next();
  }
  // Only products that underflow can make a lane -0: + (+0) at the root takes the sign away, and makes
  // elements that are absent the same as elements that are zero.
  [[nodiscard]] ISOBIT_HOST_DEVICE T result() {
    if (in_leaf_ > 0) close_leaf();
    return tree_.result() + T(0);
  }

 private:
  ISOBIT_HOST_DEVICE void next() {
    if (++in_leaf_ == kLeaf) close_leaf();
  }
  ISOBIT_HOST_DEVICE void close_leaf() {
    tree_.add(fold_lanes(lane_));
    for (std::int64_t j = 0; j < kSumLanes; ++j) lane_[j] = T(0);
    in_leaf_ = 0;
  }

  PairwiseTreeOf<T> tree_;
  T lane_[kSumLanes] = {};
  std::int64_t in_leaf_ = 0;
};
using LaneSum = LaneSumOf<float>;

ISOBIT_CONTRACT_END
