// Logarithm, exponential and power in pairs of binary64 numbers: the first phase of host_power.h (quick_pairs.h says
// how). 40 to 60 ns where fma is an instruction. Host only; thread-safe: the tables are made at first use, by integers.
//
// Tables after Tang ("Table-driven implementation of the exponential function", 1989, and "of the logarithm", 1990),
// series Taylor's. Errors are counted below, for abs(z) < 2^-7.4 and abs(r) < 2^-7.5, and stated with room to spare.
#pragma once

#include <bit>
#include <cstdint>

#include "contract/host_series.h"
#include "contract/platform.h"
#include "contract/quick_pairs.h"

ISOBIT_CONTRACT_BEGIN

namespace host::quick {

struct PowerTables {
  static constexpr int kFirst = 90, kCount = 92;
  struct Entry {
    double reciprocal = 1;  // 128 / i for i = kFirst + index, rounded to 12 fraction bits
    Pair minus_log;         // -ln of it
  };
  Entry logarithm[kCount];
  Pair exponential[64];  // 2^(j / 64)
};
[[nodiscard]] __attribute__((noinline)) inline PowerTables make_power_tables() {
  PowerTables t;
  for (int i = 0; i < PowerTables::kCount; ++i) {
    const auto divisor = static_cast<std::uint64_t>(PowerTables::kFirst + i);
    const std::uint64_t rounded = ((2ull << 19) / divisor + 1) / 2;
    const Logarithm<5> ln = host::logarithm(whole<5>(rounded), -12);
    const Pair size = pair_of(ln.value);
    t.logarithm[i] = {static_cast<double>(rounded) * 0x1p-12, ln.negative ? size : Pair{-size.high, -size.low}};
  }
  for (std::uint64_t j = 0; j < 64; ++j) {
    t.exponential[j] = pair_of(exponential_series(divide(multiply(ln2<5>(), j), 64)));
  }
  return t;
}
[[nodiscard]] inline const PowerTables& power_tables() {
  static const PowerTables tables = make_power_tables();
  return tables;
}

inline constexpr Pair kThird{0x1.5555555555555p-2, 0x1.5555555555555p-56};

// ln x of a positive normal x, normalised to within 2^-51: relative error below kLogarithmError.
//
// x = 2^e m, m in [sqrt(1/2), sqrt(2)); z = c m - 1, c = 128 / i rounded, i = 128 m rounded: exact in a pair, and m
// itself next to 1, so that nothing cancels there. ln(1 + z) = z - z^2 (1/2 - z/3 + p), p = z^2/4 - z^3/5 + ... to
// z^9/11. p: the rounding of each operation and the terms left out are below 2^-68 + 2^-70; times z^2, in units of z,
// 2^-75. The result is at least half of z's size (all of it where c = 1 and e = 0): 2^-74. The rest is smaller by far:
// the pairs' products 2^-100, the last sums 2^-53 of their low parts, e ln 2 by 86 bits 2^-85.
inline constexpr double kLogarithmError = 0x1p-72;
template <class Products>
[[nodiscard]] inline Pair logarithm(double x) {
  const std::uint64_t bits = std::bit_cast<std::uint64_t>(x), fraction = bits & ((1ull << 52) - 1);
  const bool upper = fraction >= 0x6a09e667f3bcdull;  // sqrt(2)'s
  const double m = std::bit_cast<double>(fraction | (upper ? 1022ull : 1023ull) << 52);
  const double e = static_cast<double>(static_cast<std::int32_t>(bits >> 52) - (upper ? 1022 : 1023));
  const auto& entry = power_tables().logarithm[static_cast<std::int32_t>(m * 128 + 0.5) - PowerTables::kFirst];
  const Pair scaled = product<Products>(m, entry.reciprocal);
  const Pair z = ordered_sum(scaled.high - 1, scaled.low);

  const double v = z.high;
  const double tail = 1.0 / 8 - v * (1.0 / 9 - v * (1.0 / 10 - v * (1.0 / 11)));
  const double p = (v * v) * (1.0 / 4 - v * (1.0 / 5 - v * (1.0 / 6 - v * (1.0 / 7 - v * tail))));
  const Pair third = product<Products>(z, kThird);
  const Pair head = ordered_sum(0.5, -third.high);
  const Pair bracket = ordered_sum(head.high, head.low + (p - third.low));
  const Pair taken = product<Products>(product<Products>(z, z), bracket);
  const Pair part = ordered_sum(z.high, -taken.high);

  constexpr double kLogTwoHead = 0x1.62e42feep-1, kLogTwoRest = 0x1.a39ef35793c76p-33;  // the head has 32 bits
  const Pair whole = sum(e * kLogTwoHead, entry.minus_log.high);
  const Pair all = sum(whole.high, part.high);
  return ordered_sum(
      all.high, all.low + (((part.low + (z.low - taken.low)) + entry.minus_log.low) + (whole.low + e * kLogTwoRest)));
}

// e^t = value 2^n, value in [0.99, 2.02]; abs(t) < 709, t.low below 2^-50 of t. Relative error below kExponentialError.
//
// t = (64 n + j) ln 2 / 64 + r + low, ln 2 / 64 in parts of 36, 36 and 53 bits: the first two products are exact, and
// what is lost is below 2^-96 (2^-53 of t.low, which may be 2^-43). r is what is left of both parts of t, low below
// 2^-60. e^r = 1 + r + r^2/2 + p, p = r^3/6 + ... to r^8/8!: its roundings and the terms left out are below 2^-76,
// those of sums and products of the low parts, at most 2^-24, below 2^-76 together, the pairs' 2^-100.
inline constexpr double kExponentialError = 0x1p-72;
struct ScaledPair {
  Pair value;
  std::int32_t n = 0;
};
template <class Products>
[[nodiscard]] inline ScaledPair exponential(const Pair& t) {
  const double k = nearest(t.high * 0x1.71547652b82fep+6);
  const auto steps = static_cast<std::int32_t>(k);
  const Pair first = sum(t.high, -(k * 0x1.62e42fefap-7)), second = sum(first.high, -(k * 0x1.cf79abc9ep-46));
  const Pair left = sum(second.high, (second.low + first.low) + (t.low - k * 0x1.d9cc01f97b57ap-85));
  const double r = left.high, low = left.low;

  const Pair square = product<Products>(r, r);
  const double tail = 1.0 / 120 + r * (1.0 / 720 + r * (1.0 / 5040 + r * (1.0 / 40320)));
  const double p = (square.high * r) * (1.0 / 6 + r * (1.0 / 24 + r * tail));
  const Pair head = ordered_sum(r, 0.5 * square.high);
  const Pair grown{head.high, head.low + (p + (0.5 * square.low + (low + r * low)))};
  return {enlarged<Products>(power_tables().exponential[steps & 63], grown), steps >> 6};
}

// x^y for any x but those that are no positive normal number. Not decided: results that are subnormal or close to the
// largest number, exponents beyond 2^64 or below 2^-100, and midpoints.
struct Power {
  template <class Products>
  [[nodiscard]] static bool run(double& out, double x, double y) {
    const std::uint64_t base = std::bit_cast<std::uint64_t>(x) >> 52,
                        size = std::bit_cast<std::uint64_t>(y) >> 52 & 2047;
    if (base - 1 >= 2046 || size < 1023 - 100 || size > 1023 + 64) return false;
    const Pair ln = logarithm<Products>(x);
    Pair t = product<Products>(y, ln.high);
    if (t.high > 710 || t.high < -746) {  // ln of the largest number is 709.8, of half the smallest -745.2
      out = t.high > 0 ? kInfinite : 0.0;
      return true;
    }
    const double distance = t.high < 0 ? -t.high : t.high;
    if (!(distance < 708)) return false;
    t = ordered_sum(t.high, t.low + y * ln.low);
    const ScaledPair e = exponential<Products>(t);
    // t's relative error is the logarithm's and 2^-104; the value is below 2.02.
    if (!round_pair(e.value, 2.1 * (kExponentialError + distance * kLogarithmError), out)) return false;
    out *= std::bit_cast<double>(static_cast<std::uint64_t>(e.n + 1023) << 52);  // exact: the result is normal
    return true;
  }
};

}  // namespace host::quick

ISOBIT_CONTRACT_END
