// Quicker ways to the bits of some formulas of contract/functions_wide.h.
//
// Each gives two numbers of binary64 between which the contract's own result lies before its one rounding. Rounding is
// monotone: where both ends round to the same binary32 number, that is the contract's (Ziv, "Fast evaluation of
// elementary mathematical functions with correctly rounded last bit", ACM TOMS 17, 1991); elsewhere, a few times in
// 100,000, and for NaN and whatever else makes an end NaN, the caller takes the contract's formula. So nothing here is
// part of the contract, and fma and shorter series are free. Polynomials without a source are interpolated at
// Chebyshev's points by mpmath. Bounds are some 2^4 above the largest differences seen
// (tests/kernels/quick_functions_test.cpp; all inputs: scripts/prove-functions --quick).
//
// No branches: loops over blocks of these become vectors. Include only from cpu/vector/*.cpp and their tests.
#pragma once

#include "contract/functions_wide.h"

namespace isobit::kernels::ISOBIT_ISA::quick {

struct Near {
  double low, high;  // of a negative number the other way around
};
inline Near around(double value, double error) { return {value - error, value + error}; }
inline Near relative(double value, double part) { return {value * (1.0 - part), value * (1.0 + part)}; }

inline double plus(double a, double b, double c) { return __builtin_fma(a, b, c); }

// A polynomial of z, the coefficient of its highest power first: written out, since loops within the loop over a block
// stop g++ 12.
inline double horner(double, double p) { return p; }
template <class... Rest>
[[gnu::always_inline]] inline double horner(double z, double p, double next, Rest... rest) {
  return horner(z, plus(p, z, next), rest...);
}

// p 2^n, n in the low bits of `shifted`.
inline double scaled(double p, double shifted) {
  std::uint64_t bits;
  std::memcpy(&bits, &shifted, sizeof bits);
  bits = (bits + 1023) << 52;
  double scale;
  std::memcpy(&scale, &bits, sizeof scale);
  return p * scale;
}
inline double cut(double t, double end) {
  t = t > end ? end : t;
  return t < -end ? -end : t;
}

// e^t and 2^t to 2^-45 of it, t = n ln 2 + r or n + r; abs(t) <= 700, or cut to it as the contract's exp_of.
inline double exp_within(double t) {
  const double shifted = plus(t, 0x1.71547652b82fep+0, 0x1.8p52), n = shifted - 0x1.8p52;
  const double r = plus(n, -0x1.a39ef35793c76p-33, plus(n, -0x1.62e42feep-1, t));
  const double p = horner(r, 0x1.72e1382ee1ff3p-19, 0x1.a17e336dab91fp-16, 0x1.a019949f940cap-13, 0x1.6c162b7fd9ab1p-10,
                          0x1.11111123c9907p-7, 0x1.55555588d5163p-5, 0x1.5555555550d52p-3, 0x1.ffffffffe73cap-2,
                          0x1.0000000000006p+0, 0x1.000000000003dp+0);
  return scaled(p, shifted);
}
inline double exp_of(double t) { return exp_within(cut(t, 700.0)); }
inline double exp2_of(double t) {
  const double shifted = t + 0x1.8p52, r = t - (shifted - 0x1.8p52);
  const double p = horner(r, 0x1.b6571de2f2351p-24, 0x1.63ef969a64d3cp-20, 0x1.ffcb76789860fp-17, 0x1.43088e257f341p-13,
                          0x1.5d87fe908f88ap-10, 0x1.3b2ab72b175eep-7, 0x1.c6b08d7044119p-5, 0x1.ebfbdff8149f2p-3,
                          0x1.62e42fefa39f7p-1, 0x1.000000000003dp+0);
  return scaled(p, shifted);
}

// The contract cuts at +-200, far beyond binary32 as well.
inline Near exp2(float x) { return relative(exp2_of(cut(static_cast<double>(x), 200.0)), 0x1p-40); }

inline Near sinh(float x) {
  const double t = static_cast<double>(x), z = t * t, e = exp_of(t);
  const double p = horner(z, 0x1.6124613a86d09p-33, 0x1.ae64567f544e4p-26, 0x1.71de3a556c734p-19, 0x1.a01a01a01a01ap-13,
                          0x1.1111111111111p-7, 0x1.5555555555555p-3, 1.0);  // to t^13 / 13!
  const double near = t * p, far = 0.5 * (e - 1.0 / e);
  return relative(__builtin_fabs(t) < 0.5 ? near : far, 0x1p-40);
}

inline Near cosh(float x) {
  const double e = exp_of(static_cast<double>(x));
  return relative(0.5 * (e + 1.0 / e), 0x1p-41);
}

// From the contract's own rest r = h + l and the parity of its quarter turns.
inline Near tan_of(double r, bool odd) {
  const double z = r * r;
  const double series =
      horner(z, -0x1.ae7f3e733b81fp-41, 0x1.6124613a86d09p-33, -0x1.ae64567f544e4p-26, 0x1.71de3a556c734p-19,
             -0x1.a01a01a01a01ap-13, 0x1.1111111111111p-7, -0x1.5555555555555p-3);  // to r^15 / 15!
  const double c =
      horner(z, -0x1.93974a8c07c9dp-37, 0x1.1eed8eff8d898p-29, -0x1.27e4fb7789f5cp-22, 0x1.a01a01a01a01ap-16,
             -0x1.6c16c16c16c17p-10, 0x1.5555555555555p-5, -0.5, 1.0);  // to r^14 / 14!
  const double s = r * plus(series, z, 1.0);                            // keeps the sign of a zero
  return relative((odd ? -c : s) / (odd ? s : c), 0x1p-42);
}

// e^(-x^2) erfcx(a), a = abs(x); (1 + 2 a) erfcx(a) on [0, 10.5] is a polynomial of (a - 3) / (a + 3), interpolated at
// Chebyshev's points by mpmath to 2^-44 of it, after Shepherd and Laframboise (Mathematics of Computation 36, 1981);
// one division for a + 3 and 1 + 2 a. Above 10.5 the result is 0 or 2.
inline Near erfc(float x) {
  const double t = static_cast<double>(x);
  double a = __builtin_fabs(t);
  a = a > 10.5 ? 10.5 : a;
  const double one = plus(2.0, a, 1.0), three = a + 3.0, inverse = 1.0 / (one * three), u = (a - 3.0) * (inverse * one);
  const double p = horner(u, 0x1.9f7f385bd759ep-21, 0x1.9044647733fd5p-19, -0x1.747ee52dd9401p-20,
                          -0x1.4fbe25bcb58e4p-16, 0x1.655714d85eef8p-18, 0x1.066fafa5d5374p-13, -0x1.b98d14cf13678p-14,
                          -0x1.98de31cba332ap-11, 0x1.ef1d3cb9d2c03p-10, 0x1.4b88703ec1de0p-9, -0x1.8574c65efce32p-6,
                          0x1.17ca286167e46p-4, -0x1.e88b8031d1ab2p-4, 0x1.098366a6131d7p-3, -0x1.85a15c590fa9dp-5,
                          -0x1.15c084bb9f4bdp-3, 0x1.40c522d7e49bbp+0);
  const double y = exp_within(-(a * a)) * p * (inverse * three);
  const double value = t < 0.0 ? 2.0 - y : y;
  return relative(t == t ? value : t, 0x1p-39);
}

// The angle of a >= 0 over b >= 0: the smaller by the larger one, from tan(pi / 8) on less pi / 4, by one division.
// NaN where both are 0 or infinite.
inline double angle_of(double a, double b) {
  const bool steep = a > b;
  const double small = steep ? b : a, large = steep ? a : b;
  const bool middle = small > 0x1.a827999fcef32p-2 * large;
  const double u = (middle ? small - large : small) / (middle ? small + large : large), z = u * u;
  const double p = horner(z, -0x1.9ec1ac1391c13p-6, 0x1.9b9e37b2f1638p-5, -0x1.0a7bc4dc65f3bp-4, 0x1.3a4ec8d3a6dbap-4,
                          -0x1.744e9f942507ep-4, 0x1.c71bca91633a8p-4, -0x1.249246f634ea7p-3, 0x1.999999922b9c0p-3,
                          -0x1.5555555550687p-2, 0x1.ffffffffffff7p-1);
  const double flat = plus(u, p, middle ? 0.25 * contract::kPi : 0.0);
  return steep ? 0.5 * contract::kPi - flat : flat;
}

inline Near atan(float x) {
  const double t = static_cast<double>(x);
  return relative(__builtin_copysign(angle_of(__builtin_fabs(t), 1.0), t), 0x1p-42);
}
inline Near atan2(float y, float x) {
  const double a = static_cast<double>(y), b = static_cast<double>(x);
  const double r = angle_of(__builtin_fabs(a), __builtin_fabs(b));
  return relative(__builtin_copysign(__builtin_copysign(1.0, b) < 0.0 ? contract::kPi - r : r, a), 0x1p-42);
}
// The square root of z = 0 or a number whose root binary32 holds well within its range, to 2^-47: binary32's root and
// one step of Newton's. On processors with 512-bit registers a root of binary64 takes as long as forty other
// operations.
inline double root_of(double z) {
  const float near = __builtin_sqrtf(static_cast<float>(z)), half_inverse = 0.5f / (near + 0x1p-60f);
  const double s = static_cast<double>(near);
  return plus(plus(-s, s, z), static_cast<double>(half_inverse), s);
}
// asin(a) for 0 <= a <= 1/2, a times a polynomial of a^2; beyond, 2 asin(s) = pi/2 - asin(a) with s^2 = (1 - a) / 2.
// NaN beyond 1.
inline double arcsine_of(double a) {
  const double half = 0.5 - 0.5 * a, square = a * a, z = a > 0.5 ? half : square, s = root_of(half);
  const double p = horner(z, 0x1.020e5719c5813p-5, -0x1.df0360c9eff2ep-8, 0x1.25abfcc6d7da8p-6, 0x1.9b40462754959p-7,
                          0x1.1f8a3aaac973dp-6, 0x1.6e427ba0e0592p-6, 0x1.f1cb1bb1bd8fbp-6, 0x1.6db6cb38d4b4bp-5,
                          0x1.33333354bc760p-4, 0x1.555555553a610p-3, 0x1.000000000000ep+0);
  return (a > 0.5 ? s + s : a) * p;
}
inline Near asin(float x) {
  const double t = static_cast<double>(x), a = __builtin_fabs(t), near = arcsine_of(a);
  const double far = 0.5 * contract::kPi - near;
  return relative(__builtin_copysign(a > 0.5 ? far : near, t), 0x1p-42);
}
inline Near acos(float x) {
  const double t = static_cast<double>(x), a = __builtin_fabs(t), value = __builtin_copysign(arcsine_of(a), t);
  const double near = 0.5 * contract::kPi - value, left = contract::kPi + value, far = t < 0.0 ? left : value;
  return relative(a > 0.5 ? far : near, 0x1p-42);
}

// artanh(s) for abs(s) up to (sqrt(2) - 1) / (sqrt(2) + 1).
inline double small_artanh(double s) {
  return s * horner(s * s, 0x1.58d6a2d12a491p-4, 0x1.73230ffbca770p-4, 0x1.c722cd6f60ec5p-4, 0x1.249240b78fa06p-3,
                    0x1.999999a436686p-3, 0x1.5555555552d4ap-2, 0x1.0000000000001p+0);
}
// ln x = e ln 2 + 2 artanh(s), x = 2^e m, m in [sqrt(1/2), sqrt(2)), s = (m - 1) / (m + 1), of a normal x > 0; of
// others another number, and NaN in their place is the caller's matter.
struct Logarithm {
  double e, s;
  [[nodiscard]] double value() const { return plus(e, 0x1.62e42fefa39efp-1, 2.0 * small_artanh(s)); }
};
inline Logarithm logarithm_of(double x) {
  constexpr std::uint64_t kRootHalf = 0x3fe6a09e667f3bcdull, kOne = 0x3ffull << 52, kMagic = 0x433ull << 52;
  std::uint64_t bits;
  std::memcpy(&bits, &x, sizeof bits);
  bits += kOne - kRootHalf;
  const std::uint64_t exponent = (bits >> 52) | kMagic, fraction = (bits & ((1ull << 52) - 1)) + kRootHalf;
  double e, m;
  std::memcpy(&e, &exponent, sizeof e);
  std::memcpy(&m, &fraction, sizeof m);
  return {e - (0x1p52 + 1023.0), (m - 1.0) / (m + 1.0)};
}
inline double if_between(double low, double t, double high, double value) {
  return t > low && t < high ? value : contract::kNanWide;
}

inline Near log2(float x) {
  const double t = static_cast<double>(x), y = logarithm_of(t).value() * 0x1.71547652b82fep+0;
  return relative(if_between(0.0, t, contract::kInfinityWide, y), 0x1p-42);
}
inline Near log10(float x) {
  const double t = static_cast<double>(x), y = logarithm_of(t).value() * 0x1.bcb7b1526e50ep-2;
  return relative(if_between(0.0, t, contract::kInfinityWide, y), 0x1p-42);
}
// Near 1 the quotient's logarithm would lose what its rounding took: there s itself is known. The contract loses some.
inline double log_of_quotient(double above, double below, double s) {
  Logarithm l = logarithm_of(above / below);
  const bool near = l.e == 0.0;
  l.s = near ? s : l.s;
  return l.value();
}
inline Near logit(float x) {
  const double t = static_cast<double>(x);
  return relative(if_between(0.0, t, 1.0, log_of_quotient(t, 1.0 - t, 2.0 * t - 1.0)), 0x1p-40);
}
inline Near atanh(float x) {
  const double t = static_cast<double>(x);
  const double y = 0.5 * log_of_quotient(1.0 + t, 1.0 - t, t);
  return relative(__builtin_copysign(if_between(-1.0, t, 1.0, y), t), 0x1p-40);  // a zero's sign, too
}

// ln Gamma of x > 0 as the contract's: Stirling's series from 8 on, below by Gamma(x + 8) / (x (x + 1) ... (x + 7)).
// Next to its zeros 1 and 2, where terms cancel, the contract's other way decides.
inline Near lgamma(float x) {
  const double t = static_cast<double>(x);
  const bool low = t < 8.0;
  const double y = low ? t + 8.0 : t, inverse = 1.0 / y;
  const double a = t * (t + 7.0),
               product = a * (a + 6.0) * ((a + 10.0) * (a + 12.0));  // (t + k) (t + 7 - k) = a + k (7 - k)
  const double below = logarithm_of(low ? product : 1.0).value(), log = logarithm_of(y).value();
  const double rest = inverse * horner(inverse * inverse, -3617.0 / 122400.0, 1.0 / 156.0, -691.0 / 360360.0,
                                       1.0 / 1188.0, -1.0 / 1680.0, 1.0 / 1260.0, -1.0 / 360.0, 1.0 / 12.0);
  const double value = plus(y - 0.5, log, -y) + ((0x1.d67f1c864beb5p-1 + rest) - below);
  return around(if_between(0.0, t, contract::kInfinityWide, value), 0x1p-45 * plus(y, log, 16.0));
}

// Gamma'/Gamma of x > 0: the asymptotic series from 8 on, below by 1 / x + 1 / (x + 1) + ... + 1 / (x + 7), which is
// the product's derivative by the product. Next to its zero at 1.46 terms cancel.
inline Near digamma(float x) {
  const double t = static_cast<double>(x);
  const bool low = t < 8.0;
  const double y = low ? t + 8.0 : t, inverse = 1.0 / y, w = inverse * inverse;
  const double a = t * (t + 7.0), outer = a * (a + 6.0), inner = (a + 10.0) * (a + 12.0);
  const double slope = plus(plus(2.0, a, 6.0), inner, outer * plus(2.0, a, 22.0));
  const double below = low ? plus(2.0, t, 7.0) * slope / (outer * inner) : 0.0, log = logarithm_of(y).value();
  const double rest = w * horner(w, -3617.0 / 8160.0, 1.0 / 12.0, -691.0 / 32760.0, 1.0 / 132.0, -1.0 / 240.0,
                                 1.0 / 252.0, -1.0 / 120.0, 1.0 / 12.0);
  const double value = ((log - 0.5 * inverse) - rest) - below;
  return around(if_between(0.0, t, contract::kInfinityWide, value), 0x1p-46 * (log + below));
}

// ln(1 + e) as 2 artanh(e / (2 + e)), its argument at most 1/3.
inline double log_of_one_and(double e) {
  const double s = e / (2.0 + e), q = s * s;
  const double p = horner(q, 0x1.9afeeea008984p-4, 0x1.202b4d7a56a8fp-4, 0x1.76fd5c9158713p-4, 0x1.c6f8ad634a6a2p-4,
                          0x1.2492cc4fab44ap-3, 0x1.999997c399b66p-3, 0x1.5555555694e90p-2, 0x1.ffffffffffdc7p-1);
  return 2.0 * s * p;
}
// max + ln(1 + e^-(difference)), and the same to the base 2. Terms may cancel: the error is of their sizes.
inline Near logaddexp(float a, float b) {
  const double x = static_cast<double>(a), y = static_cast<double>(b);
  const double m = x < y ? y : x, d = __builtin_fabs(x - y);
  const double more = log_of_one_and(exp_within(d > 700.0 ? -700.0 : -d));
  const double sum = d > 700.0 ? m : m + more;
  return around(sum, 0x1p-39 * (__builtin_fabs(m) + more));
}
inline Near logaddexp2(float a, float b) {
  const double x = static_cast<double>(a), y = static_cast<double>(b);
  const double m = x < y ? y : x, d = __builtin_fabs(x - y);
  const double more = log_of_one_and(exp2_of(-(d > 1000.0 ? 1000.0 : d))) * 0x1.71547652b82fep+0;
  const double sum = d > 1000.0 ? m : m + more;
  return around(sum, 0x1p-39 * (__builtin_fabs(m) + more));
}

}  // namespace isobit::kernels::ISOBIT_ISA::quick
