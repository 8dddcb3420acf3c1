// Ordered dot product: the one order in which isobit adds products (contract, section 3).
//
//   leaf   chain of fma over at most kLeaf consecutive terms, from +0
//   tree   leaves combined pairwise: tree(n) = tree(p) + tree(n - p), p the largest power of two < n
//
// Promises: the same bits for every caller, thread count and instruction set; never -0; empty is +0.
// Of binary32 (the short names) or binary64. Host and device; no state; no exceptions.
#pragma once

#include <cmath>

#include "contract/platform.h"

ISOBIT_CONTRACT_BEGIN

// Sums leaf results in tree order while they arrive left to right, keeping one partial sum per power of two
// (as a binary counter does), so that n leaves need log2(n) floats and no recursion.
template <class T>
class ScalarTreeOf {
 public:
  ISOBIT_HOST_DEVICE void add(T leaf) {
    int level = 0;
    for (std::int64_t n = count_++; n & 1; n >>= 1) leaf = partial_[level++] + leaf;
    partial_[level] = leaf;
  }

  // The partial sums left over are the rests of rests: combined from the smallest upwards. Adding +0 turns
  // a -0 into +0, so that zero terms may be skipped (contract, section 3).
  [[nodiscard]] ISOBIT_HOST_DEVICE T result() const {
    bool any = false;
    T sum = T(0);
    for (int level = 0; level < kLevels; ++level) {
      if (!(count_ >> level & 1)) continue;
      sum = any ? partial_[level] + sum : partial_[level];
      any = true;
    }
    return sum + T(0);
  }

 private:
  static constexpr int kLevels = 48;  // 2^48 leaves: more than any address space holds
  T partial_[kLevels] = {};
  std::int64_t count_ = 0;
};
using PairwiseTree = ScalarTreeOf<float>;

// Feeds terms one at a time; result() may be asked once all have come.
template <class T>
class OrderedDotOf {
 public:
  ISOBIT_HOST_DEVICE void add(T a, T b) {
    chain_ = std::fma(a, b, chain_);
    if (++in_leaf_ == kLeaf) close_leaf();
  }
  [[nodiscard]] ISOBIT_HOST_DEVICE T result() {
    if (in_leaf_ > 0) close_leaf();
    return tree_.result();
  }

 private:
  ISOBIT_HOST_DEVICE void close_leaf() {
    tree_.add(chain_);
    chain_ = T(0);
    in_leaf_ = 0;
  }
  ScalarTreeOf<T> tree_;
  T chain_ = T(0);
  std::int64_t in_leaf_ = 0;
};
using OrderedDot = OrderedDotOf<float>;

// Dot product of a[0], a[stride_a], ... with b[0], b[stride_b], ...; n terms.
template <class T>
[[nodiscard]] ISOBIT_HOST_DEVICE inline T ordered_dot(const T* a, std::int64_t stride_a, const T* b,
                                                      std::int64_t stride_b, std::int64_t n) {
  OrderedDotOf<T> dot;
  for (std::int64_t k = 0; k < n; ++k) dot.add(a[k * stride_a], b[k * stride_b]);
  return dot.result();
}

ISOBIT_CONTRACT_END
