// Quicker ways to the bits of some formulas of contract/functions_wide.h.
//
// Each gives a number `value` of binary64 and an `error` such that the contract's own result before its one rounding
// lies in [value - error, value + error]. Rounding is monotone: where both ends round to the same binary32 number, that
// is the contract's (Ziv, "Fast evaluation of elementary mathematical functions with correctly rounded last bit", ACM
// TOMS 17, 1991); elsewhere, a few times in 100,000, and for NaN and whatever else makes an end NaN, the caller takes
// the contract's formula. So nothing here is part of the contract, and fma and shorter series are free. Bounds are some
// 2^4 above the largest differences seen (tests/kernels/quick_functions_test.cpp; all inputs: scripts/prove-functions
// --quick).
//
// No branches: loops over blocks of these become vectors. Include only from cpu/vector/*.cpp and their tests.
#pragma once

#include "contract/functions_wide.h"

namespace isobit::kernels::ISOBIT_ISA::quick {

struct Near {
  double value, error;
};

inline double plus(double a, double b, double c) { return __builtin_fma(a, b, c); }

// A polynomial of z, the coefficient of its highest power first: written out, since loops within the loop over a block
// stop g++ 12.
inline double horner(double, double p) { return p; }
template <class... Rest>
[[gnu::always_inline]] inline double horner(double z, double p, double next, Rest... rest) {
  return horner(z, plus(p, z, next), rest...);
}

// e^t to 2^-47 of it, t cut to [-700, 700] as the contract's exp_of: t = n ln 2 + r, the series to r^11.
inline double exp_of(double t) {
  t = t > 700.0 ? 700.0 : t;
  t = t < -700.0 ? -700.0 : t;
  const double shifted = plus(t, 0x1.71547652b82fep+0, 0x1.8p52), n = shifted - 0x1.8p52;
  const double r = plus(n, -0x1.a39ef35793c76p-33, plus(n, -0x1.62e42feep-1, t));
  const double p = horner(r, 0x1.ae64567f544e4p-26, 0x1.27e4fb7789f5cp-22, 0x1.71de3a556c734p-19, 0x1.a01a01a01a01ap-16,
                          0x1.a01a01a01a01ap-13, 0x1.6c16c16c16c17p-10, 0x1.1111111111111p-7, 0x1.5555555555555p-5,
                          0x1.5555555555555p-3, 0.5, 1.0, 1.0);
  std::uint64_t bits;
  std::memcpy(&bits, &shifted, sizeof bits);
  bits = (bits + 1023) << 52;  // n stands in the low bits
  double scale;
  std::memcpy(&scale, &bits, sizeof scale);
  return p * scale;
}

inline Near relative(double value, double part) { return {value, contract::absolute(value) * part}; }

// The contract cuts at +-200, far beyond binary32 as well.
inline Near exp2(float x) {
  double t = static_cast<double>(x);
  t = t > 200.0 ? 200.0 : t;
  t = t < -200.0 ? -200.0 : t;
  return relative(exp_of(t * 0x1.62e42fefa39efp-1), 0x1p-40);
}

inline Near sinh(float x) {
  const double t = static_cast<double>(x), z = t * t, e = exp_of(t);
  const double p = horner(z, 0x1.6124613a86d09p-33, 0x1.ae64567f544e4p-26, 0x1.71de3a556c734p-19, 0x1.a01a01a01a01ap-13,
                          0x1.1111111111111p-7, 0x1.5555555555555p-3, 1.0);  // to t^13 / 13!
  const double near = t * p, far = 0.5 * (e - 1.0 / e);
  return relative(contract::absolute(t) < 0.5 ? near : far, 0x1p-42);
}

inline Near cosh(float x) {
  const double e = exp_of(static_cast<double>(x));
  return relative(0.5 * (e + 1.0 / e), 0x1p-42);
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
// Chebyshev's points by mpmath to 3e-16, after Shepherd and Laframboise (Mathematics of Computation 36, 1981).
// Above 10.5 the result is 0 or 2.
inline Near erfc(float x) {
  const double t = static_cast<double>(x);
  double a = contract::absolute(t);
  a = a > 10.5 ? 10.5 : a;
  const double u = (a - 3.0) / (a + 3.0);
  const double p =
      horner(u, -0x1.24f944002f61ap-25, -0x1.0fda8a5371ec2p-22, -0x1.29b83e52ede67p-21, 0x1.11c3d34ca781cp-21,
             0x1.d835ecde54751p-19, -0x1.ac17f30d4d008p-21, -0x1.51fef7e7d03dfp-16, 0x1.4cd586f33352dp-18,
             0x1.066299149e7dep-13, -0x1.b911c09106880p-14, -0x1.98dbaf88865a7p-11, 0x1.ef1bd5fa7d28cp-10,
             0x1.4b8850893b2b9p-9, -0x1.8574c3fcf7473p-6, 0x1.17ca287705f59p-4, -0x1.e88b803a7a4d9p-4,
             0x1.098366a5b7253p-3, -0x1.85a15c58a890dp-5, -0x1.15c084bb9e943p-3, 0x1.40c522d7e4987p+0);
  const double y = exp_of(-(a * a)) * p / plus(2.0, a, 1.0);
  const double value = t < 0.0 ? 2.0 - y : y;
  return relative(t == t ? value : t, 0x1p-39);
}

// max + ln(1 + e^-(difference)), the logarithm as 2 artanh(e / (2 + e)), its argument at most 1/3. Terms may cancel:
// the error is of their sizes.
inline Near logaddexp(float a, float b) {
  const double x = static_cast<double>(a), y = static_cast<double>(b);
  const double m = x < y ? y : x, d = contract::absolute(x - y), e = exp_of(-d), s = e / (2.0 + e), q = s * s;
  const double p = horner(q, 1.0 / 29.0, 1.0 / 27.0, 1.0 / 25.0, 1.0 / 23.0, 1.0 / 21.0, 1.0 / 19.0, 1.0 / 17.0,
                          1.0 / 15.0, 1.0 / 13.0, 1.0 / 11.0, 1.0 / 9.0, 1.0 / 7.0, 1.0 / 5.0, 1.0 / 3.0);
  const double more = 2.0 * plus(s * q, p, s), sum = d > 700.0 ? m : m + more;
  return {d == d ? sum : contract::kNanWide, 0x1p-43 * (contract::absolute(m) + more)};
}

}  // namespace isobit::kernels::ISOBIT_ISA::quick
