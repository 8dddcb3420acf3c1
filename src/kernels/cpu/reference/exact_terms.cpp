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

bool join_digits(const std::int64_t* hi, const std::int64_t* lo, double* out, std::int64_t n) {
  bool exact = true;
  for (std::int64_t i = 0; i < n; ++i)
    exact &= contract::join_sum(hi == nullptr ? 0 : hi[i], lo == nullptr ? 0 : lo[i], out[i]);
  return exact;
}

bool add_joined(const double* term, double* sum, std::int64_t n) {
  bool exact = true;
  for (std::int64_t i = 0; i < n; ++i) exact &= contract::add_exactly(term[i], sum[i]);
  return exact;
}

bool add_widened(const float* x, int t, double* sum, std::int64_t n) {
  bool exact = true;
  for (std::int64_t i = 0; i < n && t != kNoLimb; ++i) {
    const contract::SumDigits digits = contract::sum_digits(x[i], t);
    double term = 0;
    exact &= contract::join_sum(digits.high, digits.low, term) && contract::add_exactly(term, sum[i]);
  }
  return exact;
}

void round_joined(const double* sum, int t, float* out, std::int64_t n) {
  const double unit = contract::power_of_two(contract::limb_exponent(t - 1));
  for (std::int64_t i = 0; i < n; ++i) out[i] = static_cast<float>(sum[i] * unit) + 0.0f;
}

bool split_joined(const double* sum, std::int64_t* hi, std::int64_t* lo, std::int64_t n) {
  contract::SumDigits digits{};
  for (std::int64_t i = 0; i < n; ++i) {
    if (!contract::split_sum(sum[i], digits)) return false;
  }
  for (std::int64_t i = 0; i < n; ++i) {
    if (contract::split_sum(sum[i], digits)) hi[i] += digits.high, lo[i] += digits.low;
  }
  return true;
}

}  // namespace

void fill_exact_terms(HostTable& t) {
  t.sum_terms = sum_terms;
  t.join_digits = join_digits;
  t.add_joined = add_joined;
  t.add_widened = add_widened;
  t.round_joined = round_joined;
  t.split_joined = split_joined;
}

}  // namespace isobit::kernels::reference
