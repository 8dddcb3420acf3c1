// Exact sums, a register of binary64 at a time. Every step below is exact but the last rounding, so the bits
// are the contract's.
#include "contract/exact_sum.h"

#include "kernels/dispatch/kernel_table.h"
#include "kernels/cpu/vector/wide_lanes.h"
#include "kernels/threads.h"

namespace isobit::kernels::ISOBIT_ISA {
namespace {

constexpr std::int64_t kSmallest = 1 << 14;  // elements a thread should at least have

// Adding it rounds |v| < 2^51 to an integer, to nearest even, in the low bits of the mantissa.
constexpr double kShifter = 0x1.8p52;
constexpr std::uint64_t kShifterBits = 0x4338000000000000ull;

// Largest bit pattern without sign: order of magnitudes, and above 0x7f7fffff where not finite.
std::int32_t largest_pattern(const float* x, std::int64_t b, std::int64_t e) {
  const IntLanes magnitude(0x7fffffff);
  IntLanes first(0), second(0);
  std::int64_t i = b;
  for (; i + 2 * kLanes <= e; i += 2 * kLanes) {
    const IntLanes p = as_int(load(x + i)) & magnitude, q = as_int(load(x + i + kLanes)) & magnitude;
    first = select(p > first, p, first);
    second = select(q > second, q, second);
  }
  for (; i < e; i += kLanes) {
    const std::int64_t count = e - i < kLanes ? e - i : kLanes;
    const IntLanes p = as_int(load_first(x + i, count)) & magnitude;
    first = select(p > first, p, first);
  }
  first = select(second > first, second, first);
  std::int32_t lane[kLanes], largest = 0;
  store(lane, first);
  for (int j = 0; j < kLanes; ++j) largest = lane[j] > largest ? lane[j] : largest;
  return largest;
}

int top_limb(const float* x, std::int64_t n) {
  std::int32_t largest = 0;
  parallel_for(0, n, kSmallest, [&](std::int64_t b, std::int64_t e) {
    const std::int32_t part = largest_pattern(x, b, e);
    std::int32_t seen = __atomic_load_n(&largest, __ATOMIC_RELAXED);
    while (part > seen &&
           !__atomic_compare_exchange_n(&largest, &seen, part, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED)) {
    }
  });
  if (largest >= 0x7f800000) return kNotFinite;
  return contract::top_limb_of(contract::float_of(static_cast<std::uint32_t>(largest)));
}

void add_digits_range(const float* x, int t, std::int64_t* hi, std::int64_t* lo, std::int64_t b, std::int64_t e) {
  const WideDouble scale = wide_double(contract::power_of_two(-contract::limb_exponent(t)));
  const WideDouble next_limb = wide_double(0x1p45), shifter = wide_double(kShifter);
  const WideInt shifter_bits = wide_set(kShifterBits);
  std::int64_t i = b;
  for (; i + kWideLanes <= e; i += kWideLanes) {
    const WideDouble scaled = wide_from_floats(x + i) * scale;
    const WideDouble high = scaled + shifter;
    const WideDouble low = (scaled - (high - shifter)) * next_limb + shifter;
    wide_store(hi + i, wide_add(wide_load(hi + i), wide_subtract(wide_bits(high), shifter_bits)));
    wide_store(lo + i, wide_add(wide_load(lo + i), wide_subtract(wide_bits(low), shifter_bits)));
  }
  for (; i < e; ++i) {
    const contract::SumDigits digits = contract::sum_digits(x[i], t);
    hi[i] += digits.high;
    lo[i] += digits.low;
  }
}

void add_digits(const float* x, int t, std::int64_t* hi, std::int64_t* lo, std::int64_t n) {
  if (t == kNoLimb) return;
  parallel_for(0, n, kSmallest, [&](std::int64_t b, std::int64_t e) { add_digits_range(x, t, hi, lo, b, e); });
}

// Sums below 2^51 (any 64 grains) are binary64 numbers: s = high * 2^45 + low with its exact error e (Knuth's
// two-sum); where e is not zero the last bit of s is made odd towards e, and one rounding to binary32 follows.
// False where a sum is larger.
ISOBIT_INLINE bool round_block(const std::int64_t* hi, const std::int64_t* lo, WideDouble weight, float* out) {
  const WideInt h = wide_load(hi), l = wide_load(lo), half_range = wide_set(1ull << 51);
  const WideInt beyond =
      wide_or(wide_shift_right(wide_add(h, half_range), 52), wide_shift_right(wide_add(l, half_range), 52));
  if (wide_any(beyond)) return false;
  const WideInt shifter_bits = wide_set(kShifterBits);
  const WideDouble shifter = wide_double(kShifter);
  const WideDouble high = (wide_as_double(wide_add(h, shifter_bits)) - shifter) * wide_double(0x1p45);
  const WideDouble low = wide_as_double(wide_add(l, shifter_bits)) - shifter;
  const WideDouble sum = high + low;
  const WideDouble part = sum - high;
  const WideDouble error = (high - (sum - part)) + (low - part);
  // +1 in the last place where the error has the sign of the sum, -1 where it has the other, if that makes odd.
  const WideInt bits = wide_bits(sum), one = wide_set(1);
  const WideInt opposite = wide_shift_right(wide_xor(bits, wide_bits(error)), 63);
  const WideInt step = wide_subtract(one, wide_add(opposite, opposite));
  const WideInt even = wide_subtract(wide_and(bits, one), one);  // all ones where the last bit is 0
  const WideInt applied = wide_and_not(wide_where_zero(error), wide_and(even, step));
  wide_to_floats(out, wide_as_double(wide_add(bits, applied)) * weight);
  return true;
}

void round_digits_range(const std::int64_t* hi, const std::int64_t* lo, int t, float* out, std::int64_t b,
                        std::int64_t e) {
  const WideDouble weight = wide_double(contract::power_of_two(contract::limb_exponent(t - 1)));
  std::int64_t i = b;
  for (; i + kWideLanes <= e; i += kWideLanes) {
    if (round_block(hi + i, lo + i, weight, out + i)) continue;
    for (int j = 0; j < kWideLanes; ++j) out[i + j] = contract::round_sum(hi[i + j], lo[i + j], t);
  }
  for (; i < e; ++i) out[i] = contract::round_sum(hi[i], lo[i], t);
}

void round_digits(const std::int64_t* hi, const std::int64_t* lo, int t, float* out, std::int64_t n) {
  parallel_for(0, n, kSmallest, [&](std::int64_t b, std::int64_t e) {
    if (t != kNoLimb) return round_digits_range(hi, lo, t, out, b, e);
    for (std::int64_t i = b; i < e; ++i) out[i] = 0.0f;
  });
}

}  // namespace

void fill_exact_sum(KernelTable& t) {
  t.top_limb = top_limb;
  t.add_digits = add_digits;
  t.round_digits = round_digits;
}

}  // namespace isobit::kernels::ISOBIT_ISA
