// Exact sums as the contract writes them, element by element.
#include "contract/exact_sum.h"

#include <algorithm>
#include <cmath>

#include "kernels/dispatch/kernel_table.h"

namespace isobit::kernels::reference {
namespace {

int top_limb(const float* x, std::int64_t n) {
  int top = kNoLimb;
  for (std::int64_t i = 0; i < n; ++i) {
    if (!std::isfinite(x[i])) return kNotFinite;
    top = std::max(top, contract::top_limb_of(x[i]));
  }
  return top;
}

void add_digits(const float* x, int t, std::int64_t* hi, std::int64_t* lo, std::int64_t n) {
  if (t == kNoLimb) return;
  for (std::int64_t i = 0; i < n; ++i) {
    const contract::SumDigits digits = contract::sum_digits(x[i], t);
    hi[i] += digits.high;
    lo[i] += digits.low;
  }
}

void round_digits(const std::int64_t* hi, const std::int64_t* lo, int t, float* out, std::int64_t n) {
  for (std::int64_t i = 0; i < n; ++i) out[i] = t == kNoLimb ? 0.0f : contract::round_sum(hi[i], lo[i], t);
}

}  // namespace

void fill_exact_sum(KernelTable& t) {
  t.top_limb = top_limb;
  t.add_digits = add_digits;
  t.round_digits = round_digits;
}

}  // namespace isobit::kernels::reference
