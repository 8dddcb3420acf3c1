// Exponentials, logarithms, hyperbolic sine and cosine in pairs of binary64 numbers: the first phase of
// host_functions.h's (quick_pairs.h says how), and what quick_power.h needs. 12 to 25 ns where fma is an instruction.
// Host only; thread-safe: the tables are made at first use, by integers.
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
  for (std::uint64_t i = 0; i < PowerTables::kCount; ++i) {
    const std::uint64_t rounded = ((2ull << 19) / (PowerTables::kFirst + i) + 1) / 2;
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
  const auto i = static_cast<std::int32_t>(nearest(m * 128));
  const auto& entry = power_tables().logarithm[i - PowerTables::kFirst];
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

// e^t of an error of t, |t| < 708, below error. Not decided: midpoints.
template <class Products>
[[nodiscard]] inline bool round_exponential(double& out, const Pair& t, double error) {
  const ScaledPair e = exponential<Products>(t);
  if (!round_pair(e.value, 2.1 * (kExponentialError + error), out)) return false;  // the value is below 2.02
  out *= std::bit_cast<double>(static_cast<std::uint64_t>(e.n + 1023) << 52);      // exact: the result is normal
  return true;
}

// e^x and 2^x for 2^-54 <= abs(x) < 708 or 1021. (An error of 2^-90 in t is a part of the room in 2.1.)
struct Exponential {
  template <class Products>
  [[nodiscard]] static bool run(double& out, double x) {
    const double size = magnitude(x);
    return size >= 0x1p-54 && size < 708 && round_exponential<Products>(out, {x, 0}, 0);
  }
};
struct ExponentialOfTwo {
  template <class Products>
  [[nodiscard]] static bool run(double& out, double x) {
    const double size = magnitude(x);
    if (!(size >= 0x1p-54 && size < 1021)) return false;
    constexpr Pair kLogTwo{0x1.62e42fefa39efp-1, 0x1.abc9e3b39803fp-56};
    return round_exponential<Products>(out, product<Products>({x, 0}, kLogTwo), 0);
  }
};

// Logarithms of positive normal numbers other than 1: natural, and times a constant.
[[nodiscard]] inline bool is_positive_and_normal(double x) {
  return (std::bit_cast<std::uint64_t>(x) >> 52) - 1 < 2046;
}
struct NaturalLogarithm {
  template <class Products>
  [[nodiscard]] static bool run(double& out, double x) {
    if (!is_positive_and_normal(x)) return false;
    const Pair ln = logarithm<Products>(x);
    return round_pair(ln, kLogarithmError * magnitude(ln.high), out);
  }
};
template <class Base>
struct LogarithmOf {
  template <class Products>
  [[nodiscard]] static bool run(double& out, double x) {
    if (!is_positive_and_normal(x)) return false;
    const Pair result = product<Products>(logarithm<Products>(x), Base::kFactor);
    return round_pair(result, 1.01 * kLogarithmError * magnitude(result.high), out);
  }
};
struct Two {
  static constexpr Pair kFactor{0x1.71547652b82fep+0, 0x1.777d0ffda0d24p-56};  // 1 / ln 2
};
struct Ten {
  static constexpr Pair kFactor{0x1.bcb7b1526e50ep-2, 0x1.95355baaafad3p-57};  // 1 / ln 10
};

// e^x + sign e^-x for 0 <= x < 709, as value 2^n: absolute error of the value below kHyperbolicError. That of both
// exponentials is 3.1 kExponentialError, that of the quotient 2^-100; e^-x is left out where e^-2x < 2^-78.
inline constexpr double kHyperbolicError = 0x1p-70;
template <class Products>
[[nodiscard]] inline ScaledPair hyperbolic(double x, double sign) {
  const ScaledPair e = exponential<Products>({x, 0});
  if (e.n >= 40) return e;
  const Pair inverse = quotient<Products>({1, 0}, e.value);
  const double scale = sign * std::bit_cast<double>(static_cast<std::uint64_t>(1023 - 2 * e.n) << 52);
  return {joined(e.value, {inverse.high * scale, inverse.low * scale}), e.n};
}
template <class Products>
[[nodiscard]] inline bool round_hyperbolic(double& out, double x, double sign) {
  const ScaledPair both = hyperbolic<Products>(x, sign);
  if (!round_pair(both.value, kHyperbolicError, out)) return false;
  out *= std::bit_cast<double>(static_cast<std::uint64_t>(both.n + 1022) << 52);
  return true;
}

// sinh x for 2^-28 <= x < 1/16: x (1 + z/6 + rest), z = x^2, rest = z^2/5! + ... to z^6/13!, below 2^-22.9: roundings
// and terms left out are below 2^-73 of the result.
inline constexpr double kSmallSineError = 0x1p-71;
template <class Products>
[[nodiscard]] inline Pair small_hyperbolic_sine(double x) {
  const Pair z = product<Products>(x, x);
  const double v = z.high, tail = 1.0 / 362880 + v * (1.0 / 39916800 + v * (1.0 / 6227020800));
  return with_series<Products>({x, 0}, z, 0.5, (v * v) * (1.0 / 120 + v * (1.0 / 5040 + v * tail)));
}

// sinh x and cosh x for 2^-28 <= x < 708; sinh as the difference where it is 1/16 at least, kHyperbolicError 2^-67 of
// it.
struct HyperbolicSine {
  template <class Products>
  [[nodiscard]] static bool run(double& out, double x) {
    if (!(x >= 0x1p-28 && x < 708)) return false;
    if (x >= 0x1p-4) return round_hyperbolic<Products>(out, x, -1);
    const Pair sine = small_hyperbolic_sine<Products>(x);
    return round_pair(sine, kSmallSineError * sine.high, out);
  }
};
struct HyperbolicCosine {
  template <class Products>
  [[nodiscard]] static bool run(double& out, double x) {
    return x >= 0x1p-28 && x < 708 && round_hyperbolic<Products>(out, x, 1);
  }
};

}  // namespace host::quick

ISOBIT_CONTRACT_END
