// Leaf moments (contract/moments.h) of elements that lie side by side.
#pragma once

#include "contract/moments.h"
#include "kernels/cpu/vector/lane_leaf.h"

namespace isobit::kernels::ISOBIT_ISA {
namespace {

ISOBIT_INLINE float leaf_mean(const float* p, std::int64_t n) {
  return leaf_sum(n, [p](FloatLanes t, std::int64_t i, auto part) { return t + fetch(p + i, part); }) /
         static_cast<float>(n);
}
ISOBIT_INLINE float leaf_squares(const float* p, std::int64_t n, float mean) {
  const FloatLanes center(mean);
  return leaf_sum(n, [p, center](FloatLanes t, std::int64_t i, auto part) {
    const FloatLanes d = keep(fetch(p + i, part) - center, part);
    return fma(d, d, t);
  });
}
inline contract::Moments moments_of_leaf(const float* p, std::int64_t n) {
  const float mean = leaf_mean(p, n);
  return {n, mean, leaf_squares(p, n, mean)};
}

[[maybe_unused]] inline contract::Moments row_moments(const float* x, std::int64_t count) {
  contract::MomentsTree tree;
  for (std::int64_t begin = 0; begin < count; begin += contract::kLeaf) {
    const std::int64_t rest = count - begin;
    tree.add(moments_of_leaf(x + begin, rest < contract::kLeaf ? rest : contract::kLeaf));
  }
  return tree.result();
}

}  // namespace
}  // namespace isobit::kernels::ISOBIT_ISA
