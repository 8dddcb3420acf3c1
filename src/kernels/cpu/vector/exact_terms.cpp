// Exact sums of terms that are all at hand, a register of binary64 at a time.
//
// What a term gives its two digits is the term rounded to a multiple of the lower digit's weight: digit t is an integer
// times 2^45 of those, an even number of them, so that a tie is decided alike. The rounded terms are added in binary64
// with each addition's exact error (Knuth's two-sum). Where all errors are 0 the sum is exact and one rounding to
// binary32 follows; otherwise, where terms of one element lie 2^29 and more apart, its digits are added.
#include "contract/exact_sum.h"
#include "kernels/cpu/vector/wide_lanes.h"
#include "kernels/dispatch/kernel_table.h"
#include "kernels/threads.h"

namespace isobit::kernels::ISOBIT_ISA {
namespace {

constexpr std::int64_t kSmallest = 1 << 14;  // elements a thread should at least have

float sum_by_digits(const float* const* terms, std::int64_t count, int t, std::int64_t i) {
  std::int64_t high = 0, low = 0;
  for (std::int64_t k = 0; k < count; ++k) {
    const contract::SumDigits digits = contract::sum_digits(terms[k][i], t);
    high += digits.high, low += digits.low;
  }
  return contract::round_sum(high, low, t);
}

struct Weights {
  WideDouble unit, per_unit;  // of digit t - 1, and its reciprocal: powers of two
};

// False where some sum is not exact.
ISOBIT_INLINE bool sum_block(const float* const* terms, std::int64_t count, const Weights& w, std::int64_t i,
                             float* out) {
  WideDouble sum = wide_round(wide_from_floats(terms[0] + i) * w.per_unit);
  WideInt errors = wide_set(0);
  for (std::int64_t k = 1; k < count; ++k) {
    const WideDouble term = wide_round(wide_from_floats(terms[k] + i) * w.per_unit);
    const WideDouble next = sum + term;
    const WideDouble part = next - sum;
    errors = wide_or(errors, wide_bits((sum - (next - part)) + (term - part)));
    sum = next;
  }
  if (wide_any(errors)) return false;
  wide_to_floats(out + i, sum * w.unit);
  return true;
}

void sum_range(const float* const* terms, std::int64_t count, int t, float* out, std::int64_t b, std::int64_t e) {
  const int exponent = contract::limb_exponent(t - 1);
  const Weights weights{wide_double(contract::power_of_two(exponent)), wide_double(contract::power_of_two(-exponent))};
  std::int64_t i = b;
  for (; i + kWideLanes <= e; i += kWideLanes) {
    if (sum_block(terms, count, weights, i, out)) continue;
    for (int j = 0; j < kWideLanes; ++j) out[i + j] = sum_by_digits(terms, count, t, i + j);
  }
  for (; i < e; ++i) out[i] = sum_by_digits(terms, count, t, i);
}

void sum_terms(const float* const* terms, std::int64_t count, int t, float* out, std::int64_t n) {
  parallel_for(0, n, kSmallest, [&](std::int64_t b, std::int64_t e) {
    if (t != kNoLimb && count > 0) return sum_range(terms, count, t, out, b, e);
    for (std::int64_t i = b; i < e; ++i) out[i] = 0.0f;
  });
}

}  // namespace

void fill_exact_terms(HostTable& t) { t.sum_terms = sum_terms; }

}  // namespace isobit::kernels::ISOBIT_ISA
