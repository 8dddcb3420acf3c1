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

struct Sum {
  WideDouble value;
  WideInt error;  // bits of what the rounding left out
};
ISOBIT_INLINE Sum two_sum(WideDouble a, WideDouble b) {
  const WideDouble sum = a + b, part = sum - a;
  return {sum, wide_bits((a - (sum - part)) + (b - part))};
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
    const Sum next = two_sum(sum, wide_round(wide_from_floats(terms[k] + i) * w.per_unit));
    errors = wide_or(errors, next.error);
    sum = next.value;
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

// ---- sums of digits as binary64 numbers

// Adding it to an integer of -2^51 to 2^51 - 1 gives the bits of 1.5 * 2^52 and that many.
constexpr double kShifter = 0x1.8p52;
constexpr std::uint64_t kShifterBits = 0x4338000000000000ull;

bool join_digits(const std::int64_t* hi, const std::int64_t* lo, double* out, std::int64_t n) {
  const WideInt none = wide_set(0), shifter_bits = wide_set(kShifterBits), half_range = wide_set(1ull << 51);
  const WideDouble shifter = wide_double(kShifter), next_limb = wide_double(0x1p45);
  WideInt inexact = none;
  std::int64_t i = 0;
  for (; i + kWideLanes <= n; i += kWideLanes) {
    const WideInt h = hi == nullptr ? none : wide_load(hi + i), l = lo == nullptr ? none : wide_load(lo + i);
    const Sum sum = two_sum((wide_as_double(wide_add(h, shifter_bits)) - shifter) * next_limb,
                            wide_as_double(wide_add(l, shifter_bits)) - shifter);
    const WideInt beyond =
        wide_or(wide_shift_right(wide_add(h, half_range), 52), wide_shift_right(wide_add(l, half_range), 52));
    inexact = wide_or(inexact, wide_or(beyond, sum.error));
    wide_store(out + i, wide_bits(sum.value));
  }
  bool exact = !wide_any(inexact);
  for (; i < n; ++i) exact &= contract::join_sum(hi == nullptr ? 0 : hi[i], lo == nullptr ? 0 : lo[i], out[i]);
  return exact;
}

bool add_joined(const double* term, double* sum, std::int64_t n) {
  WideInt inexact = wide_set(0);
  std::int64_t i = 0;
  for (; i + kWideLanes <= n; i += kWideLanes) {
    const Sum next = two_sum(wide_as_double(wide_load(sum + i)), wide_as_double(wide_load(term + i)));
    inexact = wide_or(inexact, next.error);
    wide_store(sum + i, wide_bits(next.value));
  }
  bool exact = !wide_any(inexact);
  for (; i < n; ++i) exact &= contract::add_exactly(term[i], sum[i]);
  return exact;
}

bool add_widened(const float* x, int t, double* sum, std::int64_t n) {
  if (t == kNoLimb) return true;
  const double per_unit = contract::power_of_two(-contract::limb_exponent(t - 1));
  WideInt inexact = wide_set(0);
  std::int64_t i = 0;
  for (; i + kWideLanes <= n; i += kWideLanes) {
    const WideDouble term = wide_round(wide_from_floats(x + i) * wide_double(per_unit));
    const Sum next = two_sum(wide_as_double(wide_load(sum + i)), term);
    inexact = wide_or(inexact, next.error);
    wide_store(sum + i, wide_bits(next.value));
  }
  bool exact = !wide_any(inexact);
  for (; i < n; ++i) exact &= contract::add_exactly(::rint(static_cast<double>(x[i]) * per_unit), sum[i]);
  return exact;
}

void round_joined(const double* sum, int t, float* out, std::int64_t n) {
  const double unit = contract::power_of_two(contract::limb_exponent(t - 1));
  std::int64_t i = 0;
  for (; i + kWideLanes <= n; i += kWideLanes)
    wide_to_floats(out + i, wide_as_double(wide_load(sum + i)) * wide_double(unit));
  for (; i < n; ++i) out[i] = static_cast<float>(sum[i] * unit) + 0.0f;
}

}  // namespace

void fill_exact_terms(HostTable& t) {
  t.sum_terms = sum_terms;
  t.join_digits = join_digits;
  t.add_joined = add_joined;
  t.add_widened = add_widened;
  t.round_joined = round_joined;
}

}  // namespace isobit::kernels::ISOBIT_ISA
