// The pairwise tree of sections 3 and 4 over any value with an operator +.
//
//   tree(0) = T{},  tree(1) = the leaf,  tree(n) = tree(first p) + tree(rest), p the largest power of two < n
//
// Leaves arrive left to right; one partial value per power of two is kept, as a binary counter does, so that
// n leaves need log2(n) values and no recursion. + need not be commutative: the left operand is always the
// earlier one. Host and device; no exceptions.
#pragma once

#include "contract/platform.h"

ISOBIT_CONTRACT_BEGIN

template <class T>
class PairwiseTreeOf {
 public:
  ISOBIT_HOST_DEVICE PairwiseTreeOf() {}

  ISOBIT_HOST_DEVICE void add(T leaf) {
    int level = 0;
    for (std::int64_t n = count_++; n & 1; n >>= 1) leaf = partial_[level++] + leaf;
    partial_[level] = leaf;
  }

  // The partial values left over are the rests of rests: combined from the smallest upwards.
  [[nodiscard]] ISOBIT_HOST_DEVICE T result() const {
    if (count_ == 0) return T{};
    int level = 0;
    while (!(count_ >> level & 1)) ++level;
    T sum = partial_[level];
    while (count_ >> ++level) {
      if (count_ >> level & 1) sum = partial_[level] + sum;
    }
    return sum;
  }

 private:
  static constexpr int kLevels = 48;  // 2^48 leaves: more than any address space holds
  union {                             // only the levels in use ever hold a value: no time spent on the others
    T partial_[kLevels];
  };
  std::int64_t count_ = 0;
};

ISOBIT_CONTRACT_END
