// Elementary functions in binary64, rounded once to binary32 (contract, section 10): what is rarely used in networks
// and need not be fast.
//
// Only + - * / and square roots of binary64, one IEEE operation each in the order written here, and integers: no fma,
// no library. Error below 0.50001 ulp (tests/contract/wide_functions_test.cpp, against MPFR); special values are C's
// (Annex F), NaN canonical. Where two ways meet without costing much, both are computed and one is taken: no branch, so
// that compilers can make vectors of it. Series are Taylor's, cut where the next term is below 2^-44 of the result.
// Host and device; no state.
#pragma once

#include <cmath>

#include "contract/functions_power.h"
#include "contract/functions_trigonometric.h"

ISOBIT_CONTRACT_BEGIN

inline constexpr double kPi = 0x1.921fb54442d18p+1;
inline constexpr double kNanWide = __builtin_nan("");
inline constexpr double kInfinityWide = __builtin_inf();

// Rounded once, NaN canonical.
[[nodiscard]] ISOBIT_HOST_DEVICE inline float rounded(double x) { return x != x ? kNan : static_cast<float>(x); }
[[nodiscard]] ISOBIT_HOST_DEVICE inline double absolute(double x) { return x < 0.0 ? -x : x; }

// ln x for a normal x > 0: x = 2^e m, m in [sqrt(1/2), sqrt(2)), 2 artanh((m - 1) / (m + 1)) to the 23rd power.
[[nodiscard]] ISOBIT_HOST_DEVICE inline double log_of(double x) {
  if (x == kInfinityWide) return x;
  std::uint64_t bits;
  std::memcpy(&bits, &x, sizeof bits);
  constexpr std::uint64_t kFraction = (1ull << 52) - 1;
  std::int32_t e = static_cast<std::int32_t>(bits >> 52) - 1023;
  std::uint64_t place = 1023;
  if ((bits & kFraction) >= 0x6a09e667f3bcdull) e += 1, place = 1022;  // sqrt(2)'s fraction
  bits = (bits & kFraction) | place << 52;
  double m;
  std::memcpy(&m, &bits, sizeof m);
  const double s = (m - 1.0) / (m + 1.0), q = s * s;
  double p = 0.0;
  for (int k = 23; k >= 3; k -= 2) p = (p + 1.0 / static_cast<double>(k)) * q;
  const double rest = 2.0 * (s + s * p);
  return static_cast<double>(e) * 0x1.62e42fefa39efp-1 + rest;
}
// ln(1 + x), x >= 0: the rounding of 1 + x is put back.
[[nodiscard]] ISOBIT_HOST_DEVICE inline double log1p_of(double x) {
  const double u = 1.0 + x;
  return log_of(u) + (x - (u - 1.0)) / u;
}

// e^t, t cut to [-700, 700]; t = n ln 2 + r.
[[nodiscard]] ISOBIT_HOST_DEVICE inline double exp_of(double t) {
  if (t > 700.0) t = 700.0;
  if (t < -700.0) t = -700.0;
  const double turns = t == t ? t * 0x1.71547652b82fep+0 : 0.0;  // of NaN p is NaN, and no integer is made of it
  const std::int32_t n = static_cast<std::int32_t>(turns < 0.0 ? turns - 0.5 : turns + 0.5);
  const double r = (t - static_cast<double>(n) * 0x1.62e42feep-1) - static_cast<double>(n) * 0x1.a39ef35793c76p-33;
  double p = 1.0;
  for (int k = 14; k >= 1; --k) p = 1.0 + p * (r / static_cast<double>(k));
  return p * power_of_two(n);
}

// x >= 0: towards 0 by pi/2 - atan(1/x) and pi/4 + atan((x - 1) / (x + 1)), then the series to z^39.
[[nodiscard]] ISOBIT_HOST_DEVICE inline double atan_of(double x) {
  const bool large = x > 1.0;
  const double y = large ? 1.0 / x : x;
  const bool middle = y > 0x1.a827999fcef32p-2;  // tan(pi / 8)
  const double z = middle ? (y - 1.0) / (y + 1.0) : y, q = z * z;
  double p = 0.0;
  for (int k = 39; k >= 3; k -= 2) p = 1.0 / static_cast<double>(k) - p * q;
  double a = z - z * (q * p);
  if (middle) a = 0.25 * kPi + a;
  return large ? 0.5 * kPi - a : a;
}

// x (1 + a x^2 + b x^4): the first terms of an odd series, for abs(x) < 2^-9.
[[nodiscard]] ISOBIT_HOST_DEVICE inline double odd_series(double x, double a, double b) {
  const double z = x * x;
  return x == 0.0 ? x : x + x * (z * (a + b * z));
}
[[nodiscard]] ISOBIT_HOST_DEVICE inline bool small(double x) { return absolute(x) < 0x1p-9; }

[[nodiscard]] ISOBIT_HOST_DEVICE inline double artanh_of(double x) {
  if (small(x)) return odd_series(x, 1.0 / 3.0, 1.0 / 5.0);
  return 0.5 * log_of((1.0 + x) / (1.0 - x));
}

[[nodiscard]] ISOBIT_HOST_DEVICE inline float log2(float x) {
  if (!(x > 0.0f)) return x == 0.0f ? -kInfinity : kNan;
  return x == kInfinity ? x : rounded(log2_of(x));
}
[[nodiscard]] ISOBIT_HOST_DEVICE inline float log10(float x) {
  if (!(x > 0.0f)) return x == 0.0f ? -kInfinity : kNan;
  return x == kInfinity ? x : rounded(log2_of(x) * 0x1.34413509f79ffp-2);
}
[[nodiscard]] ISOBIT_HOST_DEVICE inline float exp2(float x) { return x != x ? kNan : exp2_of(static_cast<double>(x)); }

[[nodiscard]] ISOBIT_HOST_DEVICE inline float sinh(float x) {
  const double t = static_cast<double>(x), z = t * t, e = exp_of(x != x ? 0.0 : t), far = 0.5 * (e - 1.0 / e);
  double p = 1.0;
  for (int k = 14; k >= 2; k -= 2) p = 1.0 + p * (z / static_cast<double>(k * (k + 1)));
  const double near = t * p;
  return x != x ? kNan : rounded(absolute(t) < 0.5 ? near : far);
}
[[nodiscard]] ISOBIT_HOST_DEVICE inline float cosh(float x) {
  const double e = exp_of(x != x ? 0.0 : static_cast<double>(x));
  return x != x ? kNan : rounded(0.5 * (e + 1.0 / e));
}

// Section 2's quarter turns; sine and cosine of the rest by their series.
[[nodiscard]] ISOBIT_HOST_DEVICE inline float tan(float x) {
  if (!(magnitude(x) < kInfinity)) return kNan;
  const double t = static_cast<double>(x);
  if (small(t)) return rounded(odd_series(t, 1.0 / 3.0, 2.0 / 15.0));
  const QuarterTurns<float> turns = reduce_quarter_turns(x);
  const double r = static_cast<double>(turns.h) + static_cast<double>(turns.l), z = r * r;
  double s = 1.0, c = 1.0;
  for (int k = 18; k >= 2; k -= 2) s = 1.0 - s * (z / static_cast<double>(k * (k + 1)));
  for (int k = 19; k >= 1; k -= 2) c = 1.0 - c * (z / static_cast<double>(k * (k + 1)));
  s = s * r;
  return rounded((turns.n & 1) == 0 ? s / c : -(c / s));
}

[[nodiscard]] ISOBIT_HOST_DEVICE inline float atan(float x) {
  const double t = static_cast<double>(x), size = atan_of(absolute(t)), far = t < 0.0 ? -size : size;
  const double near = odd_series(t, -1.0 / 3.0, 1.0 / 5.0);
  return rounded(small(t) ? near : far);
}
[[nodiscard]] ISOBIT_HOST_DEVICE inline float asin(float x) {
  const double t = static_cast<double>(x), a = absolute(t), size = atan_of(a / ::sqrt((1.0 - a) * (1.0 + a)));
  const double near = odd_series(t, 1.0 / 6.0, 3.0 / 40.0), far = t < 0.0 ? -size : size;
  return a <= 1.0 ? rounded(small(t) ? near : far) : kNan;
}
[[nodiscard]] ISOBIT_HOST_DEVICE inline float acos(float x) {
  const double t = static_cast<double>(x);
  return absolute(t) <= 1.0 ? rounded(2.0 * atan_of(::sqrt((1.0 - t) / (1.0 + t)))) : kNan;
}
[[nodiscard]] ISOBIT_HOST_DEVICE inline float asinh(float x) {
  const double t = static_cast<double>(x), a = absolute(t);
  if (x != x || a == kInfinityWide) return x != x ? kNan : x;
  if (small(t)) return rounded(odd_series(t, -1.0 / 6.0, 3.0 / 40.0));
  const double y = log_of(a + ::sqrt(a * a + 1.0));
  return rounded(t < 0.0 ? -y : y);
}
[[nodiscard]] ISOBIT_HOST_DEVICE inline float acosh(float x) {
  const double t = static_cast<double>(x);
  return t >= 1.0 ? rounded(log_of(t + ::sqrt((t - 1.0) * (t + 1.0)))) : kNan;
}
[[nodiscard]] ISOBIT_HOST_DEVICE inline float atanh(float x) {
  const double t = static_cast<double>(x);
  if (!(absolute(t) < 1.0)) return t == 1.0 ? kInfinity : t == -1.0 ? -kInfinity : kNan;
  return rounded(artanh_of(t));
}

// Below 2: 1 - erf, erf = 2 / sqrt(pi) x e^-x^2 (1 + 2x^2/3 (1 + 2x^2/5 (...))); beyond: the continued fraction
// e^-x^2 / sqrt(pi) / (x + (1/2) / (x + (2/2) / (x + ...))) of 100 parts.
[[nodiscard]] ISOBIT_HOST_DEVICE inline float erfc(float x) {
  if (x != x) return kNan;
  const double t = static_cast<double>(x), a = absolute(t);
  if (a > 27.0) return t < 0.0 ? 2.0f : 0.0f;
  constexpr double kInverseRootPi = 0x1.20dd750429b6dp-1;
  const double scale = exp_of(-(a * a)) * kInverseRootPi;
  if (a < 2.0) {
    double p = 1.0;
    for (int k = 81; k >= 3; k -= 2) p = 1.0 + p * (2.0 * (a * a) / static_cast<double>(k));
    const double y = 2.0 * a * scale * p;
    return rounded(t < 0.0 ? 1.0 + y : 1.0 - y);
  }
  double f = a;
  for (int k = 100; k >= 1; --k) f = a + 0.5 * static_cast<double>(k) / f;
  const double y = scale / f;
  return rounded(t < 0.0 ? 2.0 - y : y);
}

// ln(x / (1 - x)) = 2 artanh(2 x - 1).
[[nodiscard]] ISOBIT_HOST_DEVICE inline float logit(float x) {
  const double t = static_cast<double>(x);
  if (!(t > 0.0 && t < 1.0)) return t == 0.0 ? -kInfinity : t == 1.0 ? kInfinity : kNan;
  const double d = 2.0 * t - 1.0;
  return rounded(small(d) ? 2.0 * artanh_of(d) : log_of(t / (1.0 - t)));
}

// ln of Gamma(y) / (sqrt(2 pi / y) (y / e)^y), y >= 8: Stirling's series.
[[nodiscard]] ISOBIT_HOST_DEVICE inline double stirling_rest(double y) {
  const double w = 1.0 / (y * y);
  double p = -3617.0 / 122400.0;
  p = 1.0 / 156.0 + w * p;
  p = -691.0 / 360360.0 + w * p;
  p = 1.0 / 1188.0 + w * p;
  p = -1.0 / 1680.0 + w * p;
  p = 1.0 / 1260.0 + w * p;
  p = -1.0 / 360.0 + w * p;
  p = 1.0 / 12.0 + w * p;
  return p / y;
}
[[nodiscard]] ISOBIT_HOST_DEVICE inline double stirling_log_gamma(double y) {
  constexpr double kHalfLogTwoPi = 0x1.d67f1c864beb5p-1;
  return ((y - 0.5) * log_of(y) - y) + (kHalfLogTwoPi + stirling_rest(y));
}
// ln Gamma(x), x > 0: below 8 by Gamma(x + 8) / (x (x + 1) ... (x + 7)).
[[nodiscard]] ISOBIT_HOST_DEVICE inline double log_gamma_of(double x) {
  if (x >= 8.0) return stirling_log_gamma(x);
  double p = x;
  for (int k = 1; k < 8; ++k) p = p * (x + static_cast<double>(k));
  return stirling_log_gamma(x + 8.0) - log_of(p);
}
// Gamma'/Gamma of y >= 8 by its asymptotic series.
[[nodiscard]] ISOBIT_HOST_DEVICE inline double digamma_tail(double y) {
  const double w = 1.0 / (y * y);
  double p = -3617.0 / 8160.0;
  p = 1.0 / 12.0 + w * p;
  p = -691.0 / 32760.0 + w * p;
  p = 1.0 / 132.0 + w * p;
  p = -1.0 / 240.0 + w * p;
  p = 1.0 / 252.0 + w * p;
  p = -1.0 / 120.0 + w * p;
  p = 1.0 / 12.0 + w * p;
  return (log_of(y) - 0.5 / y) - w * p;
}
// The same at -n + d, abs(d) < 1/2: terms 1 / (d + k) up to 8, then the series. n and d apart, as next to a pole the
// sum would lose d's digits.
[[nodiscard]] ISOBIT_HOST_DEVICE inline double digamma_of(std::int32_t n, double d) {
  double sum = 0.0;
  for (std::int32_t k = -n; k < 8; ++k) sum = sum + 1.0 / (d + static_cast<double>(k));
  return digamma_tail(d + 8.0) - sum;
}
// Next to a zero -n + (high + low) of ln|Gamma|, where the way above cancels: the integral of digamma from there, by
// Gauss's five points. Zeros at 100 digits by mpmath; beyond -8.1 no binary32 number lies that near to one.
[[nodiscard]] ISOBIT_HOST_DEVICE inline double log_gamma_beside_zero(double x) {
  struct Zero {
    std::int32_t n;
    double high, low;
  };
  constexpr Zero kZeros[] = {
      {-1, 0.0, 0.0},
      {-2, 0.0, 0.0},
      {2, -0x1.d3fe4b007c361p-2, 0x1.541360cea0e60p-56},
      {3, 0x1.025f7af2137fap-2, -0x1.7995a4b4641ebp-56},
      {3, -0x1.260dbc9e59af8p-3, 0x1.1d065994b0991p-58},
      {4, 0x1.6e3aae0f406bdp-5, 0x1.e5753daddb926p-61},
      {4, -0x1.4273c2ccac062p-5, 0x1.e307a790f3f77p-59},
      {5, 0x1.1510b222a0657p-7, 0x1.e5eab7f12cef6p-61},
      {5, -0x1.0d4afe16db219p-7, -0x1.498adcb2a729cp-61},
      {6, 0x1.6d0a6e0bf2a09p-10, -0x1.4ed62cbd31ee0p-64},
      {6, -0x1.6b25897c8ced8p-10, -0x1.f0b65b458e173p-66},
      {7, 0x1.a044a3c880185p-13, 0x1.d949a3dc02de1p-68},
      {7, -0x1.9fef6ff0f5be9p-13, 0x1.be919233c3eaap-67},
      {8, 0x1.a01fa98c3c356p-16, 0x1.7d4add4f3562dp-72},
      {8, -0x1.a01459fc9f60dp-16, 0x1.30c4f8c4dea26p-70},
  };
  Zero zero = kZeros[0];
  double way = kInfinityWide;
  for (const Zero& z : kZeros) {
    const double t = ((x + static_cast<double>(z.n)) - z.high) - z.low;
    if (absolute(t) < absolute(way)) way = t, zero = z;
  }
  const double half = 0.5 * way, middle = zero.high + half;
  const double inner = half * 0x1.13b23fd99b705p-1, outer = half * 0x1.cff6ce0533a69p-1;
  const double pairs =
      0x1.ea1da25ae415bp-2 * (digamma_of(zero.n, middle - inner) + digamma_of(zero.n, middle + inner)) +
      0x1.e539ec36e038cp-3 * (digamma_of(zero.n, middle - outer) + digamma_of(zero.n, middle + outer));
  return way == 0.0 ? 0.0 : half * (pairs + 128.0 / 225.0 * digamma_of(zero.n, middle));
}
// ln|Gamma(x)|, +inf at 0, -1, -2, ... and at both infinities; x < 0 by Gamma(x) Gamma(-x) = -pi / (x sin(pi x)).
[[nodiscard]] ISOBIT_HOST_DEVICE inline float lgamma(float x) {
  if (x != x) return kNan;
  const double t = static_cast<double>(x), a = absolute(t);
  if (a == 0.0 || a == kInfinityWide || (t < 0.0 && a >= 0x1p23)) return kInfinity;
  double y = log_gamma_of(a);
  if (t < 0.0) {
    const double rest = absolute(a - static_cast<double>(static_cast<std::int32_t>(a + 0.5))),
                 z = (kPi * rest) * (kPi * rest);
    if (rest == 0.0) return kInfinity;
    double s = 1.0;  // sin(pi rest) / (pi rest)
    for (int k = 22; k >= 2; k -= 2) s = 1.0 - s * (z / static_cast<double>(k * (k + 1)));
    y = -log_of(a * (rest * s)) - y;
  }
  return rounded(absolute(y) < 0x1p-5 ? log_gamma_beside_zero(t) : y);
}

[[nodiscard]] ISOBIT_HOST_DEVICE inline float atan2(float y, float x) {
  if (x != x || y != y) return kNan;
  const double a = absolute(static_cast<double>(y)), b = absolute(static_cast<double>(x));
  double r = 0.0;
  if (a == b) {
    r = a == 0.0 ? 0.0 : 0.25 * kPi;
  } else {
    r = a < b ? atan_of(a / b) : 0.5 * kPi - atan_of(b / a);
  }
  if (as_int(x) < 0) r = kPi - r;
  return with_sign_of(rounded(r), y);
}
[[nodiscard]] ISOBIT_HOST_DEVICE inline float hypot(float x, float y) {
  if (magnitude(x) == kInfinity || magnitude(y) == kInfinity) return kInfinity;
  const double a = static_cast<double>(x), b = static_cast<double>(y);
  return rounded(::sqrt(a * a + b * b));
}
// max + ln(1 + e^-(difference)); of equal infinities that.
[[nodiscard]] ISOBIT_HOST_DEVICE inline double log_add_exp_of(double a, double b) {
  if (a != a || b != b) return kNanWide;
  if (a == b && absolute(a) == kInfinityWide) return a;
  const double m = a < b ? b : a, d = absolute(a - b);
  return d > 700.0 ? m : m + log1p_of(exp_of(-d));
}
[[nodiscard]] ISOBIT_HOST_DEVICE inline float logaddexp(float a, float b) {
  return rounded(log_add_exp_of(static_cast<double>(a), static_cast<double>(b)));
}
[[nodiscard]] ISOBIT_HOST_DEVICE inline float logaddexp2(float a, float b) {
  constexpr double kLogTwo = 0x1.62e42fefa39efp-1;
  const double x = static_cast<double>(a), y = static_cast<double>(b);
  if (x != x || y != y) return kNan;
  if (x == y && absolute(x) == kInfinityWide) return a;
  const double m = x < y ? y : x, d = absolute(x - y);
  return rounded(d > 1000.0 ? m : m + log1p_of(exp_of(-d * kLogTwo)) / kLogTwo);
}

ISOBIT_CONTRACT_END
