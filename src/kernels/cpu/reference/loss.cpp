// Negative log-likelihood, row after row, as loss.h writes it.
#include "contract/lane_sum.h"
#include "kernels/cpu/reference/plain.h"
#include "kernels/dispatch/kernel_table.h"

namespace isobit::kernels::ISOBIT_PLAIN {
namespace {

// -1, or the first row whose target is neither a class nor ignore_index.
std::int64_t first_bad_row(const NllShape& s, const std::int64_t* target) {
  for (std::int64_t i = 0; i < s.n; ++i) {
    if (target[i] != s.ignore_index && (target[i] < 0 || target[i] >= s.classes)) return i;
  }
  return -1;
}

template <class T>
std::int64_t nll_forward(const NllShape& s, const T* x, const std::int64_t* target, const T* weight, T* loss,
                         T* total_weight) {
  if (const std::int64_t bad = first_bad_row(s, target); bad >= 0) return bad;
  contract::LaneSumOf<T> terms, weights;
  for (std::int64_t i = 0; i < s.n; ++i) {
    const std::int64_t t = target[i];
    const bool ignored = t == s.ignore_index;
    const T w = ignored ? T(0) : weight ? weight[t] : T(1);
    const T term = ignored ? T(0) : weight ? -(w * x[i * s.classes + t]) : -x[i * s.classes + t];
    if (s.reduction == Reduction::none) loss[i] = term;
    terms.add(term);
    weights.add(w);
  }
  *total_weight = weights.result();
  if (s.reduction == Reduction::sum) *loss = terms.result();
  if (s.reduction == Reduction::mean) *loss = terms.result() / *total_weight;
  return -1;
}

template <class T>
std::int64_t nll_backward(const NllShape& s, const T* dy, const std::int64_t* target, const T* weight,
                          const T* total_weight, T* dx) {
  if (const std::int64_t bad = first_bad_row(s, target); bad >= 0) return bad;
  for (std::int64_t i = 0; i < s.n * s.classes; ++i) dx[i] = T(0);
  for (std::int64_t i = 0; i < s.n; ++i) {
    const std::int64_t t = target[i];
    if (t == s.ignore_index) continue;
    const T g = s.reduction == Reduction::none ? dy[i] : s.reduction == Reduction::mean ? *dy / *total_weight : *dy;
    dx[i * s.classes + t] = weight ? -(weight[t] * g) : -g;
  }
  return -1;
}

template <class T, class Table>
void fill_loss(Table& t) {
  t.nll_forward = nll_forward<T>;
  t.nll_backward = nll_backward<T>;
}

}  // namespace

#ifndef ISOBIT_LANES
void fill_loss(KernelTable& t) { fill_loss<float>(t); }
#endif
void fill_loss(HostTable& t) { fill_loss<double>(t); }

}  // namespace isobit::kernels::ISOBIT_PLAIN
