// Modified Bessel functions of the first kind in binary64, rounded once to binary32 (contract, section 10).
//
// As functions_wide.h: + - * / and square roots of binary64 in the order written here, no fma, no library; error below
// 0.50001 ulp. Below 20 the power series (Abramowitz and Stegun, 9.6.10), whose terms are all positive; from there on
// the asymptotic series of e^-x I(x) (9.7.1), cut where its terms are below 2^-46. Host and device; no state.
#pragma once

#include "contract/functions_wide.h"

ISOBIT_CONTRACT_BEGIN

// sum of z^k / (k! (k + order)!), z = x^2 / 4, for 0 <= x < 20.
[[nodiscard]] ISOBIT_HOST_DEVICE inline double bessel_series(double x, int order) {
  const double z = 0.25 * (x * x);
  double p = 1.0;
  for (int k = 60; k >= 1; --k) p = 1.0 + p * (z / static_cast<double>(k * (k + order)));
  return p;
}
// sqrt(2 pi x) e^-x I_order(x) for x >= 20: terms with factors -(mu - (2k - 1)^2) / (8 k x), mu = 4 order^2.
[[nodiscard]] ISOBIT_HOST_DEVICE inline double bessel_tail(double x, int order) {
  const double w = 1.0 / (8.0 * x);
  double p = 1.0;
  for (int k = 26; k >= 1; --k) {
    p = 1.0 + p * (w * (static_cast<double>((2 * k - 1) * (2 * k - 1) - 4 * order * order) / static_cast<double>(k)));
  }
  return p;
}
inline constexpr double kInverseRootTwoPi = 0x1.9884533d43651p-2;  // 1 / sqrt(2 pi)

// I_order(a) and e^-a I_order(a), a >= 0.
[[nodiscard]] ISOBIT_HOST_DEVICE inline double bessel_i(double a, int order) {
  if (a > 700.0) return kInfinityWide;
  if (a >= 20.0) return exp_of(a) * (kInverseRootTwoPi * bessel_tail(a, order) / ::sqrt(a));
  const double p = bessel_series(a, order);
  return order == 0 ? p : 0.5 * a * p;
}
[[nodiscard]] ISOBIT_HOST_DEVICE inline double scaled_bessel_i(double a, int order) {
  if (a >= 20.0) return kInverseRootTwoPi * bessel_tail(a, order) / ::sqrt(a);
  const double p = exp_of(-a) * bessel_series(a, order);
  return order == 0 ? p : 0.5 * a * p;
}

[[nodiscard]] ISOBIT_HOST_DEVICE inline float i0(float x) {
  return x != x ? kNan : rounded(bessel_i(absolute(static_cast<double>(x)), 0));
}
[[nodiscard]] ISOBIT_HOST_DEVICE inline float i0e(float x) {
  return x != x ? kNan : rounded(scaled_bessel_i(absolute(static_cast<double>(x)), 0));
}
// Odd.
[[nodiscard]] ISOBIT_HOST_DEVICE inline float i1(float x) {
  return x != x ? kNan : with_sign_of(rounded(bessel_i(absolute(static_cast<double>(x)), 1)), x);
}
[[nodiscard]] ISOBIT_HOST_DEVICE inline float i1e(float x) {
  return x != x ? kNan : with_sign_of(rounded(scaled_bessel_i(absolute(static_cast<double>(x)), 1)), x);
}

ISOBIT_CONTRACT_END
