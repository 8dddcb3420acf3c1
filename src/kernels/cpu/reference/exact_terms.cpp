// Exact sums of terms that are all at hand, element by element.
#include "contract/exact_sum.h"
#include "kernels/dispatch/kernel_table.h"

namespace isobit::kernels::reference {
namespace {

void sum_terms(const float* const* terms, std::int64_t count, int t, float* out, std::int64_t n) {
  for (std::int64_t i = 0; i < n; ++i) {
    std::int64_t high = 0, low = 0;
    for (std::int64_t k = 0; k < count && t != kNoLimb; ++k) {
      const contract::SumDigits digits = contract::sum_digits(terms[k][i], t);
      high += digits.high, low += digits.low;
    }
    out[i] = t == kNoLimb ? 0.0f : contract::round_sum(high, low, t);
  }
}

}  // namespace

void fill_exact_terms(HostTable& t) { t.sum_terms = sum_terms; }

}  // namespace isobit::kernels::reference
