// Negative log-likelihood: leaves of rows in parallel, each gathered and then summed over the lane count.
#include <cstring>

#include "contract/lane_sum.h"
#include "kernels/dispatch/kernel_table.h"
#include "kernels/cpu/vector/lane_leaf.h"
#include "kernels/dispatch/workspace.h"
#include "kernels/threads.h"

namespace isobit::kernels::ISOBIT_ISA {
namespace {

using contract::kLeaf;

std::int64_t smaller(std::int64_t a, std::int64_t b) { return a < b ? a : b; }

// -1, or the first row whose target is neither a class nor ignore_index.
std::int64_t first_bad_row(const NllShape& s, const std::int64_t* target) {
  for (std::int64_t i = 0; i < s.n; ++i) {
    const bool is_class = static_cast<std::uint64_t>(target[i]) < static_cast<std::uint64_t>(s.classes);
    if (!is_class && target[i] != s.ignore_index) return i;
  }
  return -1;
}

float contiguous_sum(const float* p, std::int64_t n) {
  return leaf_sum(n, [p](FloatLanes t, std::int64_t i, auto part) { return t + fetch(p + i, part); });
}

std::int64_t nll_forward(const NllShape& s, const float* x, const std::int64_t* target, const float* weight,
                         float* loss, float* total_weight) {
  if (const std::int64_t bad = first_bad_row(s, target); bad >= 0) return bad;
  const std::int64_t leaves = (s.n + kLeaf - 1) / kLeaf;
  Workspace workspace;
  float* const term_sums = workspace.floats(leaves);
  float* const weight_sums = workspace.floats(leaves);
  parallel_for(0, leaves, 4, [&](std::int64_t begin, std::int64_t end) {
    float terms[kLeaf], weights[kLeaf];
    for (std::int64_t leaf = begin; leaf < end; ++leaf) {
      const std::int64_t first = leaf * kLeaf, n = smaller(kLeaf, s.n - first);
      for (std::int64_t i = 0; i < n; ++i) {
        const std::int64_t t = target[first + i];
        const bool ignored = t == s.ignore_index;
        const float picked = ignored ? 0.0f : x[(first + i) * s.classes + t];
        weights[i] = ignored ? 0.0f : weight ? weight[t] : 1.0f;
        terms[i] = ignored ? 0.0f : weight ? -(weights[i] * picked) : -picked;
      }
      if (s.reduction == Reduction::none) {
        std::memcpy(loss + first, terms, static_cast<std::size_t>(n) * sizeof(float));
      }
      term_sums[leaf] = contiguous_sum(terms, n);
      weight_sums[leaf] = contiguous_sum(weights, n);
    }
  });
  contract::PairwiseTreeOf<float> terms, weights;
  for (std::int64_t leaf = 0; leaf < leaves; ++leaf) {
    terms.add(term_sums[leaf]);
    weights.add(weight_sums[leaf]);
  }
  *total_weight = weights.result() + 0.0f;
  if (s.reduction == Reduction::sum) *loss = terms.result() + 0.0f;
  if (s.reduction == Reduction::mean) *loss = (terms.result() + 0.0f) / *total_weight;
  return -1;
}

std::int64_t nll_backward(const NllShape& s, const float* dy, const std::int64_t* target, const float* weight,
                          const float* total_weight, float* dx) {
  if (const std::int64_t bad = first_bad_row(s, target); bad >= 0) return bad;
  const float shared = s.reduction == Reduction::none   ? 0.0f
                       : s.reduction == Reduction::mean ? *dy / *total_weight
                                                        : *dy;
  parallel_for(0, s.n, 16384 / (s.classes + 1) + 1, [&](std::int64_t begin, std::int64_t end) {
    std::memset(dx + begin * s.classes, 0, static_cast<std::size_t>((end - begin) * s.classes) * sizeof(float));
    for (std::int64_t i = begin; i < end; ++i) {
      const std::int64_t t = target[i];
      if (t == s.ignore_index) continue;
      const float g = s.reduction == Reduction::none ? dy[i] : shared;
      dx[i * s.classes + t] = weight ? -(weight[t] * g) : -g;
    }
  });
  return -1;
}

}  // namespace

void fill_loss(KernelTable& t) {
  t.nll_forward = nll_forward;
  t.nll_backward = nll_backward;
}

}  // namespace isobit::kernels::ISOBIT_ISA
