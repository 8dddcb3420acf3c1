// Exact, order-free sums of binary32 values (contract, section 7), one value at a time.
//
// Limb i has weight 2^(45 i - 21), i = -3..3: every finite binary32 value is an integer multiple of the lowest
// weight and below 2^15 of the highest. Digits from the top, d = RNE(r / weight), r -= d * weight; so a digit
// below the top one is at most 2^44 in size, and 2^17 of them fit an int64. A value's digits depend on the
// value alone. Host and device; no state.
#pragma once

#include <cmath>

#include "contract/platform.h"

ISOBIT_CONTRACT_BEGIN

inline constexpr int kLowestSumLimb = -3, kHighestSumLimb = 3, kSumLimbBits = 45;

// 2^e as binary64, -1022 <= e <= 1023.
[[nodiscard]] ISOBIT_HOST_DEVICE inline double power_of_two(int e) {
  const std::uint64_t bits = static_cast<std::uint64_t>(1023 + e) << 52;
  double value;
  std::memcpy(&value, &bits, sizeof value);
  return value;
}

[[nodiscard]] ISOBIT_HOST_DEVICE inline int limb_exponent(int limb) { return kSumLimbBits * limb - 21; }

// The largest limb in which x has a non-zero digit, kLowestSumLimb - 1 for a zero: |x| exceeds half the weight
// (a tie rounds to the even digit 0). Precondition: finite. Grows with |x|, so a tensor's top limb is that of
// its largest magnitude.
[[nodiscard]] ISOBIT_HOST_DEVICE inline int top_limb_of(float x) {
  const double magnitude = x < 0 ? -static_cast<double>(x) : static_cast<double>(x);
  for (int limb = kHighestSumLimb; limb >= kLowestSumLimb; --limb) {
    if (magnitude > power_of_two(limb_exponent(limb) - 1)) return limb;
  }
  return kLowestSumLimb - 1;
}

struct SumDigits {
  std::int64_t high, low;  // digits t and t - 1
};

// Digits t and t - 1 of x. Precondition: finite, top_limb_of(x) <= t, -3 <= t <= 3. Every step is exact in
// binary64: scaling by powers of two, rint of at most 2^44 (2^15 in limb 3), and a remainder of x's own bits.
[[nodiscard]] ISOBIT_HOST_DEVICE inline SumDigits sum_digits(float x, int t) {
  const double scaled = static_cast<double>(x) * power_of_two(-limb_exponent(t));
  const double high = ::rint(scaled);
  const double low = ::rint((scaled - high) * power_of_two(kSumLimbBits));
  return {static_cast<std::int64_t>(high), static_cast<std::int64_t>(low)};
}

// RN(high * weight(t) + low * weight(t - 1)), a zero is +0. |high|, |low| <= 2^62.
// The integer V = high * 2^45 + low is cut to 53 bits with its last bit made odd where anything is cut, so
// that the one rounding to binary32 decides as if it saw all of V.
[[nodiscard]] ISOBIT_HOST_DEVICE inline float round_sum(std::int64_t high, std::int64_t low, int t) {
  const __int128 value = static_cast<__int128>(high) * (std::int64_t{1} << kSumLimbBits) + low;
  const auto magnitude = static_cast<unsigned __int128>(value < 0 ? -value : value);
  int cut = 0;  // bits beyond 53, by halving
  for (int step = 64; step > 0; step /= 2) {
    if (magnitude >> (cut + step - 1) >> 53 != 0) cut += step;
  }
  const std::uint64_t odd = (magnitude >> cut) << cut != magnitude ? 1 : 0;
  const double kept = static_cast<double>(static_cast<std::uint64_t>(magnitude >> cut) | odd);
  const auto rounded = static_cast<float>(kept * power_of_two(limb_exponent(t - 1) + cut));
  return (value < 0 ? -rounded : rounded) + 0.0f;
}

// high * 2^45 + low as binary64, where that is exact. |high|, |low| <= 2^62.
[[nodiscard]] inline bool join_sum(std::int64_t high, std::int64_t low, double& joined) {
  const __int128 value = static_cast<__int128>(high) * (std::int64_t{1} << kSumLimbBits) + low;
  joined = static_cast<double>(value);
  return static_cast<__int128>(joined) == value;
}

// sum += term, where that is exact (Knuth's two-sum). Not finite: false.
[[nodiscard]] inline bool add_exactly(double term, double& sum) {
  const double next = sum + term, part = next - sum;
  const double error = (sum - (next - part)) + (term - part);
  sum = next;
  return error == 0;
}

// The digits of a joined sum, where it is an integer below 2^107.
[[nodiscard]] inline bool split_sum(double joined, SumDigits& digits) {
  if (!(::fabs(joined) < 0x1p107) || ::rint(joined) != joined) return false;
  const double high = ::rint(joined * power_of_two(-kSumLimbBits));
  digits = {static_cast<std::int64_t>(high), static_cast<std::int64_t>(joined - high * power_of_two(kSumLimbBits))};
  return true;
}

ISOBIT_CONTRACT_END
