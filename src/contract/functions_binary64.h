// The elementary functions on binary64 (contract, section 15): what the formulas of pointwise.h and activations.h call
// where their lane is a double.
//
// + - * / and square roots of binary64, one IEEE operation each in the order written here, and integers; fma in sinpi
// and cospi alone; no library. Error at most 2.1 ulp (tests/contract/functions_binary64_test.cpp, against MPFR; each
// function's own bound stands there). Series are Taylor's, cut where the next term is below 2^-57 of the result.
// Special values are C's (Annex F), NaN canonical. sin and cos from 2^20 on and powers are host_functions.h's and
// host_power.h's, correctly rounded. Host only; no state.
#pragma once

#include <bit>
#include <cstdint>

#include "contract/functions.h"
#include "contract/host_functions.h"
#include "contract/host_power.h"
#include "contract/scalar_ops.h"

ISOBIT_CONTRACT_BEGIN

namespace binary64 {

inline constexpr double kInfinity = __builtin_inf(), kNan = __builtin_nan("");
inline constexpr double kLogTwoHead = 0x1.62e42feep-1, kLogTwoRest = 0x1.a39ef35793c76p-33;  // the head has 32 bits

// 2^n for -1023 < n < 1024.
[[nodiscard]] inline double power_of_two(std::int32_t n) {
  return std::bit_cast<double>(static_cast<std::uint64_t>(n + 1023) << 52);
}
[[nodiscard]] inline double with_sign_of(double y, double x) {
  constexpr std::uint64_t kSign = 1ull << 63;
  return std::bit_cast<double>((std::bit_cast<std::uint64_t>(y) & ~kSign) | (std::bit_cast<std::uint64_t>(x) & kSign));
}
// The nearest integer, ties to even, for abs(x) < 2^51.
[[nodiscard]] inline double nearest(double x) {
  const double shifted = x + 0x1.8p52;
  return shifted - 0x1.8p52;
}

// e^x = 2^n (1 + r + rest), abs(x) < 750: x = n ln 2 + r, the rounding of r put back into rest.
struct Exponent {
  std::int32_t n;
  double r, rest;
};
[[nodiscard]] inline Exponent exponent_of(double x) {
  const double n = nearest(x * 0x1.71547652b82fep+0);
  const double head = x - n * kLogTwoHead, tail = n * kLogTwoRest;  // head is exact
  const double r = head - tail, lost = (head - r) - tail;
  double p = 0.0;
  for (int k = 14; k >= 3; --k) p = (1.0 + p) * (r / static_cast<double>(k));
  return {static_cast<std::int32_t>(n), r, (r * r) * (0.5 * (1.0 + p)) + (lost + lost * r)};
}

// ln(m + c) + e ln 2, m in [sqrt(1/2), sqrt(2)), c below half an ulp of m: with f = m - 1 and s = f / (2 + f),
// f - (f^2 / 2 - s (f^2 / 2 + R)), R = 2 (s^2 / 3 + s^4 / 5 + ...) to s^20.
[[nodiscard]] inline double logarithm(double m, double c, double e) {
  const double f = m - 1.0, s = f / (2.0 + f), z = s * s, half = 0.5 * f * f;
  double p = 0.0;
  for (int k = 21; k >= 3; k -= 2) p = (p + 2.0 / static_cast<double>(k)) * z;
  return e * kLogTwoHead - ((half - (s * (half + p) + (e * kLogTwoRest + c))) - f);
}
// x = 2^e m for a positive finite x.
struct Binade {
  double m, e;
};
[[nodiscard]] inline Binade binade_of(double x) {
  double e = 0.0;
  if (x < 0x1p-1022) x = x * 0x1p54, e = -54.0;
  const std::uint64_t bits = std::bit_cast<std::uint64_t>(x), fraction = bits & ((1ull << 52) - 1);
  const bool upper = fraction >= 0x6a09e667f3bcdull;  // sqrt(2)'s
  e = e + (static_cast<double>(static_cast<std::int32_t>(bits >> 52) - 1023) + (upper ? 1.0 : 0.0));
  return {std::bit_cast<double>(fraction | (upper ? 1022ull : 1023ull) << 52), e};
}

// sin and cos of r + rest, abs(r) <= pi / 4 and little more.
[[nodiscard]] inline double sine_near_zero(double r, double rest) {
  const double z = r * r;
  double p = 0.0;
  for (int k = 18; k >= 4; k -= 2) p = (1.0 + p) * -(z / static_cast<double>(k * (k + 1)));
  return r + (r * ((1.0 + p) * -(z / 6.0)) + rest * (1.0 - 0.5 * z));
}
[[nodiscard]] inline double cosine_near_zero(double r, double rest) {
  const double z = r * r, half = 0.5 * z, w = 1.0 - half;
  double p = 0.0;
  for (int k = 19; k >= 5; k -= 2) p = (1.0 + p) * -(z / static_cast<double>(k * (k + 1)));
  return w + (((1.0 - w) - half) + ((z * z) * ((1.0 + p) / 24.0) - r * rest));
}

// x - n pi/2 in two parts, abs(x) < 2^20: pi/2 in three parts of 33 bits, whose products by n are exact, and the rest.
struct Quarter {
  double r, rest;
  std::int64_t n;  // its last bits: n modulo 2^51
};
// An integer below 2^51 in a sum whose last bits it is: without a conversion, which not every instruction set has.
[[nodiscard]] inline std::int64_t last_bits(double n) { return std::bit_cast<std::int64_t>(n + 0x1.8p52); }
[[nodiscard]] inline Quarter quarter_of(double x) {
  const double n = nearest(x * 0x1.45f306dc9c883p-1);
  const double a = x - n * 0x1.921fb544p+0, b = n * 0x1.0b4611a6p-34;
  const double d = a - b, back = d - a, lost = (a - (d - back)) - (b + back);
  const double small = lost - n * 0x1.3198a2ep-69 - n * 0x1.b839a252049c1p-104;
  const double r = d + small;
  return {r, (d - r) + small, last_bits(n)};
}
// sin(x) for turns 0, cos(x) for turns 1. Both are computed, so that a loop has no branch.
[[nodiscard]] inline double sine_of_quarter(const Quarter& q, std::int64_t turns) {
  const std::int64_t n = q.n + turns;
  const double sine = sine_near_zero(q.r, q.rest), cosine = cosine_near_zero(q.r, q.rest);
  const double y = (n & 1) == 0 ? sine : cosine;
  return (n & 2) != 0 ? -y : y;
}
// x - n / 2 exactly, abs(x) < 2^51, times pi in two parts.
[[nodiscard]] inline Quarter half_turn_of(double x) {
  const double n = nearest(x + x), t = x - 0.5 * n, r = t * 0x1.921fb54442d18p+1;
  return {r, fma(t, 0x1.921fb54442d18p+1, -r) + t * 0x1.1a62633145c07p-53, last_bits(n)};
}

}  // namespace binary64

[[nodiscard]] inline double magnitude(double x) { return binary64::with_sign_of(x, 1.0); }

[[nodiscard]] inline double exp(double x) {
  if (x != x) return binary64::kNan;
  const binary64::Exponent e = binary64::exponent_of(x > 720.0 ? 720.0 : x < -750.0 ? -750.0 : x);
  const std::int32_t part = e.n / 2;
  return ((1.0 + (e.r + e.rest)) * binary64::power_of_two(part)) * binary64::power_of_two(e.n - part);
}

// (2^n - 1) + 2^n r, added exactly, then the rest.
[[nodiscard]] inline double expm1(double x) {
  if (x != x) return binary64::kNan;
  if (x == 0.0) return x;
  if (x > 40.0) return exp(x);
  const binary64::Exponent e = binary64::exponent_of(x < -40.0 ? -40.0 : x);
  const double scale = binary64::power_of_two(e.n), whole = scale - 1.0, part = scale * e.r;
  const double sum = whole + part, back = sum - whole, lost = (whole - (sum - back)) + (part - back);
  return sum + (lost + scale * e.rest);
}

[[nodiscard]] inline double log(double x) {
  if (!(x > 0.0)) return x == 0.0 ? -binary64::kInfinity : binary64::kNan;
  if (x == binary64::kInfinity) return x;
  const binary64::Binade b = binary64::binade_of(x);
  return binary64::logarithm(b.m, 0.0, b.e);
}
// 1 + x = u + c exactly. Without a branch: what the formula makes of other arguments is not taken.
[[nodiscard]] inline double log1p(double x) {
  const double u = 1.0 + x, back = u - 1.0, c = (1.0 - (u - back)) + (x - back);
  const binary64::Binade b = binary64::binade_of(u);
  const double y = binary64::logarithm(b.m, c / u, b.e);
  const double itself = ((x == binary64::kInfinity) | (magnitude(x) < 0x1p-54)) ? x : y;
  return x > -1.0 ? itself : x == -1.0 ? -binary64::kInfinity : binary64::kNan;
}

[[nodiscard]] inline double tanh(double x) {
  if (x != x) return binary64::kNan;
  const double a = magnitude(x);
  if (a < 0x1p-28) return x;
  double y = 1.0;
  if (a < 1.0) {
    const double t = expm1(-2.0 * a);
    y = -t / (t + 2.0);
  } else if (a < 22.0) {
    y = 1.0 - 2.0 / (expm1(2.0 * a) + 2.0);
  }
  return binary64::with_sign_of(y, x);
}
[[nodiscard]] inline double sigmoid(double x) {
  const double e = exp(-magnitude(x));
  return (x < 0.0 ? e : 1.0) / (1.0 + e);
}

// Below 1 its series at 0; below 1.5 that at 1.25 (by mpmath, rounded); then 1 - erfc, by
// e^-x^2 / sqrt(pi) / (x + (1/2) / (x + (2/2) / (x + ...))) of 120 parts; 1 from 6 on.
namespace binary64 {
inline constexpr double kErfMiddle = 1.0, kErfFar = 1.5, kErfOne = 6.0;
[[nodiscard]] inline double erf_near(double x) {
  const double z = x * x;
  double p = 0.0;  // the sum of (-z)^k / (k! (2 k + 1)), k from 1 to 20
  for (int k = 20; k >= 1; --k) p = (1.0 / (2.0 * k + 1.0) + p) * -(z / static_cast<double>(k));
  return x + x * (0x1.06eba8214db69p-3 + 0x1.20dd750429b6dp+0 * p);
}
[[nodiscard]] inline double erf_middle(double a) {
  constexpr double kSeries[] = {0x1.e4652fadcb6b2p-3,  -0x1.2ebf3dcc9f22fp-2,  0x1.571d01c5c56bep-3,
                                -0x1.93a9a7bb7ed94p-8, -0x1.8281ce0b34fa4p-5,  0x1.5d0003af70568p-6,
                                0x1.db43c97264485p-9,  -0x1.75672cebadac5p-8,  0x1.cc22555d6cd4ep-11,
                                0x1.a0074f860d925p-11, -0x1.53b177f074426p-12, -0x1.ba66102895704p-15,
                                0x1.d4520093cdd9ep-15, -0x1.94a53c645ccdbp-19, -0x1.ae23c1a269f29p-18,
                                0x1.6b412b613178bp-20, 0x1.10b20781c7674p-21,  -0x1.c7658e8701944p-23};
  double p = 0.0;
  for (int k = 17; k >= 0; --k) p = (p + kSeries[k]) * (a - 1.25);
  return 0x1.d8865d98abe01p-1 + (-0x1.fcec4afb974d9p-55 + p);
}
inline constexpr int kErfParts = 120;  // f = a + (k / 2) / f for k = 120, 119, ... 1, from f = a
[[nodiscard]] inline double erf_of_fraction(double a, double f) {
  return 1.0 - exp(-(a * a)) * 0x1.20dd750429b6dp-1 / f;
}
}  // namespace binary64
[[nodiscard]] inline double erf(double x) {
  if (x != x) return binary64::kNan;
  const double a = magnitude(x);
  if (a < binary64::kErfMiddle) return binary64::erf_near(x);
  if (a >= binary64::kErfOne) return binary64::with_sign_of(1.0, x);
  if (a < binary64::kErfFar) return binary64::with_sign_of(binary64::erf_middle(a), x);
  double f = a;
  for (int k = binary64::kErfParts; k >= 1; --k) f = a + 0.5 * static_cast<double>(k) / f;
  return binary64::with_sign_of(binary64::erf_of_fraction(a, f), x);
}

// abs(x) < 2^20
[[nodiscard]] inline double sin_below(double x) {
  const double y = binary64::sine_of_quarter(binary64::quarter_of(x), 0);
  return x == 0.0 ? x : y;
}
[[nodiscard]] inline double cos_below(double x) { return binary64::sine_of_quarter(binary64::quarter_of(x), 1); }
[[nodiscard]] inline double sin(double x) { return magnitude(x) < 0x1p20 ? sin_below(x) : sin_rounded(x); }
[[nodiscard]] inline double cos(double x) { return magnitude(x) < 0x1p20 ? cos_below(x) : cos_rounded(x); }
// From 2^53 on x is even.
[[nodiscard]] inline double sinpi(double x) {
  double a = magnitude(x);
  if (!(a < binary64::kInfinity)) return binary64::kNan;
  if (a >= 0x1p53) return binary64::with_sign_of(0.0, x);
  while (a >= 0x1p50) a = a - 0x1p50;
  if (a == binary64::nearest(a)) return binary64::with_sign_of(0.0, x);
  const double y = binary64::sine_of_quarter(binary64::half_turn_of(a), 0);
  return x < 0.0 ? -y : y;
}
[[nodiscard]] inline double cospi(double x) {
  double a = magnitude(x);
  if (!(a < binary64::kInfinity)) return binary64::kNan;
  if (a >= 0x1p53) return 1.0;
  while (a >= 0x1p50) a = a - 0x1p50;
  const binary64::Quarter half = binary64::half_turn_of(a);
  return (half.n & 1) != 0 && half.r == 0.0 ? 0.0 : binary64::sine_of_quarter(half, 1);
}

[[nodiscard]] inline double power(double x, double p) { return pow_rounded(x, p); }

ISOBIT_CONTRACT_END
