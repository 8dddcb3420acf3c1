// Negative log-likelihood, row after row, as loss.h writes it.
#include "contract/lane_sum.h"
#include "kernels/dispatch/kernel_table.h"

namespace isobit::kernels::reference {
namespace {

// -1, or the first row whose target is neither a class nor ignore_index.
std::int64_t first_bad_row(const NllShape& s, const std::int64_t* target) {
  for (std::int64_t i = 0; i < s.n; ++i) {
    if (target[i] != s.ignore_index && (target[i] < 0 || target[i] >= s.classes)) return i;
  }
  return -1;
}

std::int64_t nll_forward(const NllShape& s, const float* x, const std::int64_t* target, const float* weight,
                         float* loss, float* total_weight) {
  if (const std::int64_t bad = first_bad_row(s, target); bad >= 0) return bad;
  contract::LaneSum terms, weights;
  for (std::int64_t i = 0; i < s.n; ++i) {
    const std::int64_t t = target[i];
    const bool ignored = t == s.ignore_index;
    const float w = ignored ? 0.0f : weight ? weight[t] : 1.0f;
    const float term = ignored ? 0.0f : weight ? -(w * x[i * s.classes + t]) : -x[i * s.classes + t];
    if (s.reduction == Reduction::none) loss[i] = term;
    terms.add(term);
    weights.add(w);
  }
  *total_weight = weights.result();
  if (s.reduction == Reduction::sum) *loss = terms.result();
  if (s.reduction == Reduction::mean) *loss = terms.result() / *total_weight;
  return -1;
}

std::int64_t nll_backward(const NllShape& s, const float* dy, const std::int64_t* target, const float* weight,
                          const float* total_weight, float* dx) {
  if (const std::int64_t bad = first_bad_row(s, target); bad >= 0) return bad;
  for (std::int64_t i = 0; i < s.n * s.classes; ++i) dx[i] = 0.0f;
  for (std::int64_t i = 0; i < s.n; ++i) {
    const std::int64_t t = target[i];
    if (t == s.ignore_index) continue;
    const float g = s.reduction == Reduction::none ? dy[i] : s.reduction == Reduction::mean ? *dy / *total_weight : *dy;
    dx[i * s.classes + t] = weight ? -(weight[t] * g) : -g;
  }
  return -1;
}

}  // namespace

void fill_loss(KernelTable& t) {
  t.nll_forward = nll_forward;
  t.nll_backward = nll_backward;
}

}  // namespace isobit::kernels::reference
