// One row by one column, both along k: leaves in lanes, then their tree.
#pragma once

#include "contract/ordered_dot.h"
#include "kernels/cpu/vector/row_columns.h"
#include "kernels/dispatch/workspace.h"
#include "kernels/threads.h"

namespace isobit::kernels::ISOBIT_ISA {
namespace {

// Chains of the leaves [0, count) of a and b, count <= kGroups * kLanes, all of them whole; absent ones repeat the
// first.
template <int kGroups>
void chains_of_leaves(const float* a, const float* b, std::int64_t count, float* chains) {
  constexpr std::int64_t kAll = std::int64_t{kGroups} * kLanes;
  const float *of_a[kAll], *of_b[kAll];
  for (std::int64_t l = 0; l < kAll; ++l) {
    const std::int64_t at = (l < count ? l : 0) * contract::kLeaf;
    of_a[l] = a + at, of_b[l] = b + at;
  }
  FloatLanes t[kGroups];
  for (int g = 0; g < kGroups; ++g) t[g] = FloatLanes(0.0f);
  for (std::int64_t k = 0; k < contract::kLeaf; k += 4) {
    for (int g = 0; g < kGroups; ++g) {
      FloatLanes x[4], y[4];
      if (count == kAll) {
        const std::int64_t first = std::int64_t{g} * kLanes * contract::kLeaf;
        read_four_columns(EvenRows{a + first, contract::kLeaf}, k, x);
        read_four_columns(EvenRows{b + first, contract::kLeaf}, k, y);
      } else {
        read_four_columns(of_a + g * kLanes, k, x);
        read_four_columns(of_b + g * kLanes, k, y);
      }
      for (int i = 0; i < 4; ++i) t[g] = fma(x[i], y[i], t[g]);
    }
  }
  float all[kAll];
  for (int g = 0; g < kGroups; ++g) store(all + g * kLanes, t[g]);
  for (std::int64_t l = 0; l < count; ++l) chains[l] = all[l];
}

// contract::ordered_dot(a, 1, b, 1, n).
inline float long_dot(const float* a, const float* b, std::int64_t n) {
  constexpr int kGroups = 2;  // their chains hide each other's latency
  constexpr std::int64_t kTogether = std::int64_t{kGroups} * kLanes;
  const std::int64_t leaves = n / contract::kLeaf;
  Workspace workspace;
  float* const chains = workspace.floats(leaves);
  parallel_for(0, (leaves + kTogether - 1) / kTogether, 4, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t g = begin; g < end; ++g) {
      const std::int64_t first = g * kTogether, count = leaves - first < kTogether ? leaves - first : kTogether;
      const float *const x = a + first * contract::kLeaf, *const y = b + first * contract::kLeaf;
      if (count > kLanes) {
        chains_of_leaves<kGroups>(x, y, count, chains + first);
      } else {
        chains_of_leaves<1>(x, y, count, chains + first);
      }
    }
  });
  contract::ScalarTreeOf<float> tree;
  for (std::int64_t l = 0; l < leaves; ++l) tree.add(chains[l]);
  float rest = 0.0f;
  for (std::int64_t k = leaves * contract::kLeaf; k < n; ++k) rest = std::fma(a[k], b[k], rest);
  if (n % contract::kLeaf != 0) tree.add(rest);
  return tree.result();
}

}  // namespace
}  // namespace isobit::kernels::ISOBIT_ISA
