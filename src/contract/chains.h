// What is carried along a chain: products, running extrema, reductions by index (contract, sections 1 and 4).
//
//   Factor            a product; + multiplies, so that the pairwise tree serves products; starts at 1
//   takes_over        whether x, met after the extremum so far, takes its place: the last NaN, else the last of the
//   largest reduced_by_index  an element with its n occurrences in ascending order: sums in leaves of 512, each a chain
//   from +0, and
//                     the tree; else a chain
//
// Host and device; no state; no exceptions.
#pragma once

#include "contract/extrema.h"
#include "contract/ordered_dot.h"
#include "contract/pairwise_tree.h"

namespace isobit::contract {
// One type for every instruction set: kernels' signatures name it.
enum class IndexReduction { sum, mean, product, maximum, minimum };
}  // namespace isobit::contract

ISOBIT_CONTRACT_BEGIN

template <class T>
struct FactorOf {
  T value = T(1);
};
using Factor = FactorOf<float>;
template <class T>
[[nodiscard]] ISOBIT_HOST_DEVICE inline FactorOf<T> operator+(FactorOf<T> a, FactorOf<T> b) {
  return {a.value * b.value};
}

template <class T>
[[nodiscard]] ISOBIT_HOST_DEVICE inline bool takes_over(bool largest, T x, T so_far) {
  if (x != x || so_far != so_far) return x != x;
  return largest ? x >= so_far : x <= so_far;
}

template <class T = float, class At>
[[nodiscard]] ISOBIT_HOST_DEVICE inline T sum_in_leaves(std::int64_t n, At at) {
  ScalarTreeOf<T> tree;
  for (std::int64_t begin = 0; begin < n; begin += kLeaf) {
    T leaf = T(0);
    for (std::int64_t i = begin; i < n && i < begin + kLeaf; ++i) leaf = leaf + at(i);
    tree.add(leaf);
  }
  return tree.result();
}

// n > 0; at(0) .. at(n - 1) are the occurrences. include_self: `self` comes before them.
template <class T, class At>
[[nodiscard]] ISOBIT_HOST_DEVICE inline T reduced_by_index(IndexReduction kind, std::int64_t n, T self,
                                                           bool include_self, At at) {
  if (kind == IndexReduction::sum || kind == IndexReduction::mean) {
    const T s = sum_in_leaves<T>(n, at), total = include_self ? self + s : s;
    return kind == IndexReduction::sum ? total : total / static_cast<T>(n + (include_self ? 1 : 0));
  }
  T t = include_self ? self : kind == IndexReduction::product ? T(1) : at(0);
  for (std::int64_t i = 0; i < n; ++i) {
    const T v = at(i);
    t = kind == IndexReduction::product ? t * v : kind == IndexReduction::maximum ? maximum(t, v) : minimum(t, v);
  }
  return t;
}

ISOBIT_CONTRACT_END
