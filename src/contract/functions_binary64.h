// The elementary functions on binary64 (contract, section 15): what the formulas of pointwise.h and activations.h call
// where their lane is a double.
//
// + - * / and square roots of binary64, one IEEE operation each in the order written here, and integers; fma in sinpi
// and cospi alone, and where three products stand for a quotient, which is the same number; no library. Error at most
// 2.1 ulp (tests/contract/functions_binary64_test.cpp, against MPFR; each function's own bound stands there). Series
// are Taylor's, cut where the next term is below 2^-57 of the result. Special values are C's (Annex F), NaN canonical.
// sin and cos from 2^20 on and powers are host_functions.h's and host_power.h's, correctly rounded. Host only; no
// state.
#pragma once

#include <bit>
#include <cstdint>
#include <type_traits>

#include "contract/functions.h"
#include "contract/host_functions.h"
#include "contract/host_power.h"
#include "contract/scalar_ops.h"

// A call in a loop over lanes would leave it scalar, and a register's worth of them in memory.
#define ISOBIT_IN_LOOPS __attribute__((always_inline))

ISOBIT_CONTRACT_BEGIN

namespace binary64 {

inline constexpr double kInfinity = __builtin_inf(), kNan = __builtin_nan("");
inline constexpr double kLogTwoHead = 0x1.62e42feep-1, kLogTwoRest = 0x1.a39ef35793c76p-33;  // the head has 32 bits

// Formulas are templates over a type of lanes: double, or one that brings these operations lane by lane, found by
// argument (kernels/cpu/vector/wide_group.h).
[[nodiscard]] inline double with_sign_of(double y, double x) {
  constexpr std::uint64_t kSign = 1ull << 63;
  return std::bit_cast<double>((std::bit_cast<std::uint64_t>(y) & ~kSign) | (std::bit_cast<std::uint64_t>(x) & kSign));
}
[[nodiscard]] inline double magnitude(double x) { return with_sign_of(x, 1.0); }
// An integer below 2^51 in a sum whose last bits it is: without a conversion, which not every instruction set has.
[[nodiscard]] inline std::int64_t last_bits(double n) { return std::bit_cast<std::int64_t>(n + 0x1.8p52); }
// Whether an integer, abs(n) <= 2^51, has that bit (0 or 1).
[[nodiscard]] inline bool has_bit(double n, int bit) { return (last_bits(n) >> bit & 1) != 0; }
// 2^n for -1023 < n < 1024; for others anything.
[[nodiscard]] inline double power_of_two(double n) {
  return std::bit_cast<double>(static_cast<std::uint64_t>(last_bits(n) + 1023) << 52);
}
// The nearest integer, ties to even, for abs(x) < 2^51.
template <class T>
[[nodiscard]] ISOBIT_IN_LOOPS inline T nearest(T x) {
  const T shifted = x + T(0x1.8p52);
  return shifted - T(0x1.8p52);
}

// x / k rounded, for finite x and whole k from 1 to 512; of a quotient below 2^-900 only about so much, and a zero's
// sign may be lost: series add 1 to it. With a fused multiply-add three operations instead of a division, which takes
// many times as long: q = x * (1/k) is off by less than 2^-52 of it, x - q k is exact, and the last sum, before it is
// rounded, is off by less than 2^-104; but no quotient of 53 bits by k is closer to the middle of two numbers than
// 2^-63, nor on it.
template <int k, class T>
[[nodiscard]] ISOBIT_IN_LOOPS inline T divided_by_products(T x) {
  constexpr double kInverse = 1.0 / k;
  const T q = x * T(kInverse);
  return fma(fma(q, T(-k), x), T(kInverse), q);
}
template <int k, class T>
[[nodiscard]] ISOBIT_IN_LOOPS inline T divided(T x) {
#if defined(__FMA__) || defined(__FP_FAST_FMA)
  return divided_by_products<k>(x);
#else
  return x / T(k);
#endif
}
// use(k) for k = first, first - step, ... last, written out, so that each k is a constant.
template <int first, int last, int step, class Use>
ISOBIT_IN_LOOPS inline void descending(Use use) {
  use(std::integral_constant<int, first>());
  if constexpr (first - step >= last) descending<first - step, last, step>(use);
}

// e^x = 2^n (1 + r + rest), abs(x) < 750: x = n ln 2 + r, the rounding of r put back into rest.
template <class T>
struct Exponent {
  T n, r, rest;
};
template <class T>
[[nodiscard]] ISOBIT_IN_LOOPS inline Exponent<T> exponent_of(T x) {
  const T n = nearest(x * T(0x1.71547652b82fep+0));
  const T head = x - n * T(kLogTwoHead), tail = n * T(kLogTwoRest);  // head is exact
  const T r = head - tail, lost = (head - r) - tail;
  T p = T(0.0);
  descending<14, 3, 1>([&](auto k) ISOBIT_IN_LOOPS { p = (T(1.0) + p) * divided<k>(r); });
  return {n, r, (r * r) * (T(0.5) * (T(1.0) + p)) + (lost + lost * r)};
}
template <class T>
[[nodiscard]] ISOBIT_IN_LOOPS inline T value_of(const Exponent<T>& e) {
  const T part = nearest(e.n * T(0.5));
  return ((T(1.0) + (e.r + e.rest)) * power_of_two(part)) * power_of_two(e.n - part);
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
template <class T>
[[nodiscard]] ISOBIT_IN_LOOPS inline T sine_near_zero(T r, T rest) {
  const T z = r * r;
  T p = T(0.0);
  descending<18, 4, 2>([&](auto k) ISOBIT_IN_LOOPS { p = (T(1.0) + p) * -divided<k*(k + 1)>(z); });
  return r + (r * ((T(1.0) + p) * -divided<6>(z)) + rest * (T(1.0) - T(0.5) * z));
}
template <class T>
[[nodiscard]] ISOBIT_IN_LOOPS inline T cosine_near_zero(T r, T rest) {
  const T z = r * r, half = T(0.5) * z, w = T(1.0) - half;
  T p = T(0.0);
  descending<19, 5, 2>([&](auto k) ISOBIT_IN_LOOPS { p = (T(1.0) + p) * -divided<k*(k + 1)>(z); });
  return w + (((T(1.0) - w) - half) + ((z * z) * divided<24>(T(1.0) + p) - r * rest));
}

// x - n pi/2 in two parts, abs(x) < 2^20: pi/2 in three parts of 33 bits, whose products by n are exact, and the rest.
template <class T>
struct Quarter {
  T r, rest, n;
};
template <class T>
[[nodiscard]] ISOBIT_IN_LOOPS inline Quarter<T> quarter_of(T x) {
  const T n = nearest(x * T(0x1.45f306dc9c883p-1));
  const T a = x - n * T(0x1.921fb544p+0), b = n * T(0x1.0b4611a6p-34);
  const T d = a - b, back = d - a, lost = (a - (d - back)) - (b + back);
  const T small = lost - n * T(0x1.3198a2ep-69) - n * T(0x1.b839a252049c1p-104);
  const T r = d + small;
  return {r, (d - r) + small, n};
}
// sin(x) for turns 0, cos(x) for turns 1: of n + turns quarters. Both are computed, so that a loop has no branch.
template <int turns, class T>
[[nodiscard]] ISOBIT_IN_LOOPS inline T sine_of_quarter(const Quarter<T>& q) {
  const T sine = sine_near_zero(q.r, q.rest), cosine = cosine_near_zero(q.r, q.rest);
  const auto odd = has_bit(q.n, 0);
  const T y = turns == 0 ? select(odd, cosine, sine) : select(odd, sine, cosine);
  const T turned = turns == 0 ? y : select(odd, -y, y);  // n + 1 has a carry
  return select(has_bit(q.n, 1), -turned, turned);
}
// x - n / 2 exactly, abs(x) < 2^51, times pi in two parts.
[[nodiscard]] inline Quarter<double> half_turn_of(double x) {
  const double n = nearest(x + x), t = x - 0.5 * n, r = t * 0x1.921fb54442d18p+1;
  return {r, fma(t, 0x1.921fb54442d18p+1, -r) + t * 0x1.1a62633145c07p-53, n};
}

template <class T>
[[nodiscard]] ISOBIT_IN_LOOPS inline T exp(T x) {
  const T within = select(x > T(720.0), T(720.0), select(x < T(-750.0), T(-750.0), x));
  return select(x != x, T(kNan), value_of(exponent_of(within)));
}
// (2^n - 1) + 2^n r, added exactly, then the rest; e^x from 40 on.
template <class T>
[[nodiscard]] ISOBIT_IN_LOOPS inline T expm1(T x) {
  const auto e = exponent_of(select(x > T(720.0), T(720.0), select(x < T(-40.0), T(-40.0), x)));
  const T scale = power_of_two(e.n), whole = scale - T(1.0), part = scale * e.r;
  const T sum = whole + part, back = sum - whole, lost = (whole - (sum - back)) + (part - back);
  const T y = select(x > T(40.0), value_of(e), sum + (lost + scale * e.rest));
  return select(x != x, T(kNan), select(x == T(0.0), x, y));
}
template <class T>
[[nodiscard]] ISOBIT_IN_LOOPS inline T tanh(T x) {
  const T a = magnitude(x);
  const auto near = a < T(1.0);
  const T t = expm1(select(near, T(-2.0) * a, T(2.0) * a)), part = select(near, -t, T(2.0)) / (t + T(2.0));
  const T y = select(near, part, select(a < T(22.0), T(1.0) - part, T(1.0)));
  return select(x != x, T(kNan), select(a < T(0x1p-28), x, with_sign_of(y, x)));
}
template <class T>
[[nodiscard]] ISOBIT_IN_LOOPS inline T sigmoid(T x) {
  const T e = exp(-magnitude(x));
  return select(x < T(0.0), e, T(1.0)) / (T(1.0) + e);
}
// abs(x) < 2^20
template <class T>
[[nodiscard]] ISOBIT_IN_LOOPS inline T sin_below(T x) {
  return select(x == T(0.0), x, sine_of_quarter<0>(quarter_of(x)));
}
template <class T>
[[nodiscard]] ISOBIT_IN_LOOPS inline T cos_below(T x) {
  return sine_of_quarter<1>(quarter_of(x));
}

// erf below 1: its series at 0; below 1.5 that at 1.25 (by mpmath, rounded); then 1 - erfc, by
// e^-x^2 / sqrt(pi) / (x + (1/2) / (x + (2/2) / (x + ...))) of 120 parts; 1 from 6 on.
inline constexpr double kErfMiddle = 1.0, kErfFar = 1.5, kErfOne = 6.0;
template <class T>
[[nodiscard]] ISOBIT_IN_LOOPS inline T erf_near(T x) {
  const T z = x * x;
  T p = T(0.0);  // the sum of (-z)^k / (k! (2 k + 1)), k from 1 to 20
  descending<20, 1, 1>([&](auto k) ISOBIT_IN_LOOPS {
    constexpr double kPart = 1.0 / (2 * k + 1);
    p = (T(kPart) + p) * -divided<k>(z);
  });
  return x + x * (T(0x1.06eba8214db69p-3) + T(0x1.20dd750429b6dp+0) * p);
}
template <class T>
[[nodiscard]] ISOBIT_IN_LOOPS inline T erf_middle(T a) {
  constexpr double kSeries[] = {0x1.e4652fadcb6b2p-3,  -0x1.2ebf3dcc9f22fp-2,  0x1.571d01c5c56bep-3,
                                -0x1.93a9a7bb7ed94p-8, -0x1.8281ce0b34fa4p-5,  0x1.5d0003af70568p-6,
                                0x1.db43c97264485p-9,  -0x1.75672cebadac5p-8,  0x1.cc22555d6cd4ep-11,
                                0x1.a0074f860d925p-11, -0x1.53b177f074426p-12, -0x1.ba66102895704p-15,
                                0x1.d4520093cdd9ep-15, -0x1.94a53c645ccdbp-19, -0x1.ae23c1a269f29p-18,
                                0x1.6b412b613178bp-20, 0x1.10b20781c7674p-21,  -0x1.c7658e8701944p-23};
  T p = T(0.0);
  descending<17, 0, 1>([&](auto k) ISOBIT_IN_LOOPS { p = (p + T(kSeries[k])) * (a - T(1.25)); });
  return T(0x1.d8865d98abe01p-1) + (T(-0x1.fcec4afb974d9p-55) + p);
}
inline constexpr int kErfParts = 120;  // f = a + (k / 2) / f for k = 120, 119, ... 1, from f = a
template <class T>
[[nodiscard]] ISOBIT_IN_LOOPS inline T erf_of_fraction(T a, T f) {
  return T(1.0) - exp(-(a * a)) * T(0x1.20dd750429b6dp-1) / f;
}

}  // namespace binary64

[[nodiscard]] inline double magnitude(double x) { return binary64::magnitude(x); }

[[nodiscard]] inline double exp(double x) { return binary64::exp(x); }
[[nodiscard]] inline double expm1(double x) { return binary64::expm1(x); }

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

[[nodiscard]] inline double tanh(double x) { return binary64::tanh(x); }
[[nodiscard]] inline double sigmoid(double x) { return binary64::sigmoid(x); }

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

[[nodiscard]] inline double sin_below(double x) { return binary64::sin_below(x); }
[[nodiscard]] inline double cos_below(double x) { return binary64::cos_below(x); }
[[nodiscard]] inline double sin(double x) { return magnitude(x) < 0x1p20 ? sin_below(x) : sin_rounded(x); }
[[nodiscard]] inline double cos(double x) { return magnitude(x) < 0x1p20 ? cos_below(x) : cos_rounded(x); }
// From 2^53 on x is even.
[[nodiscard]] inline double sinpi(double x) {
  double a = magnitude(x);
  if (!(a < binary64::kInfinity)) return binary64::kNan;
  if (a >= 0x1p53) return binary64::with_sign_of(0.0, x);
  while (a >= 0x1p50) a = a - 0x1p50;
  if (a == binary64::nearest(a)) return binary64::with_sign_of(0.0, x);
  const double y = binary64::sine_of_quarter<0>(binary64::half_turn_of(a));
  return x < 0.0 ? -y : y;
}
[[nodiscard]] inline double cospi(double x) {
  double a = magnitude(x);
  if (!(a < binary64::kInfinity)) return binary64::kNan;
  if (a >= 0x1p53) return 1.0;
  while (a >= 0x1p50) a = a - 0x1p50;
  const binary64::Quarter<double> half = binary64::half_turn_of(a);
  return binary64::has_bit(half.n, 0) && half.r == 0.0 ? 0.0 : binary64::sine_of_quarter<1>(half);
}

[[nodiscard]] inline double power(double x, double p) { return pow_rounded(x, p); }

ISOBIT_CONTRACT_END

#undef ISOBIT_IN_LOOPS
