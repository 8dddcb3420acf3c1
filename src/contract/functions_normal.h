// The normal distribution's functions in binary64, rounded once to binary32 (contract, section 10): inverses of erf and
// of the distribution, erfcx, the distribution's logarithm.
//
// As functions_wide.h: + - * / and square roots of binary64 in the order written here, no fma, no library; error below
// 0.50001 ulp. The inverse is Wichura's algorithm AS 241, PPND16 ("The percentage points of the normal distribution",
// Applied Statistics 37, 1988), of relative error 1e-16 for p > 1e-316. Host and device; no state.
#pragma once

#include "contract/functions_wide.h"

ISOBIT_CONTRACT_BEGIN

inline constexpr double kRootHalf = 0x1.6a09e667f3bcdp-1;       // sqrt(1/2)
inline constexpr double kInverseRootPi = 0x1.20dd750429b6dp-1;  // 1 / sqrt(pi)

// The normal number z with distance q = p - 1/2 from the median, q in [-0.425, 0.425].
[[nodiscard]] ISOBIT_HOST_DEVICE inline double normal_quantile_middle(double q) {
  const double r = 0.180625 - q * q;
  double a = 2509.0809287301226727;
  a = a * r + 33430.575583588128105;
  a = a * r + 67265.770927008700853;
  a = a * r + 45921.953931549871457;
  a = a * r + 13731.693765509461125;
  a = a * r + 1971.5909503065514427;
  a = a * r + 133.14166789178437745;
  a = a * r + 3.3871328727963666080;
  double b = 5226.4952788528545610;
  b = b * r + 28729.085735721942674;
  b = b * r + 39307.895800092710610;
  b = b * r + 21213.794301586595867;
  b = b * r + 5394.1960214247511077;
  b = b * r + 687.18700749205790830;
  b = b * r + 42.313330701600911252;
  b = b * r + 1.0;
  return q * a / b;
}
// -z of a tail of probability p, r = sqrt(-ln p) in [1.6, 5].
[[nodiscard]] ISOBIT_HOST_DEVICE inline double normal_quantile_tail(double r) {
  const double s = r - 1.6;
  double a = 7.74545014278341407640e-4;
  a = a * s + 2.27238449892691845833e-2;
  a = a * s + 2.41780725177450611770e-1;
  a = a * s + 1.27045825245236838258;
  a = a * s + 3.64784832476320460504;
  a = a * s + 5.76949722146069140550;
  a = a * s + 4.63033784615654529590;
  a = a * s + 1.42343711074968357734;
  double b = 1.05075007164441684324e-9;
  b = b * s + 5.47593808499534494600e-4;
  b = b * s + 1.51986665636164571966e-2;
  b = b * s + 1.48103976427480074590e-1;
  b = b * s + 6.89767334985100004550e-1;
  b = b * s + 1.67638483018380384940;
  b = b * s + 2.05319162663775882187;
  b = b * s + 1.0;
  return a / b;
}
// The same for r in (5, 27].
[[nodiscard]] ISOBIT_HOST_DEVICE inline double normal_quantile_far_tail(double r) {
  const double s = r - 5.0;
  double a = 2.01033439929228813265e-7;
  a = a * s + 2.71155556874348757815e-5;
  a = a * s + 1.24266094738807843860e-3;
  a = a * s + 2.65321895265761230930e-2;
  a = a * s + 2.96560571828504891230e-1;
  a = a * s + 1.78482653991729133580;
  a = a * s + 5.46378491116411436990;
  a = a * s + 6.65790464350110377720;
  double b = 2.04426310338993978564e-15;
  b = b * s + 1.42151175831644588870e-7;
  b = b * s + 1.84631831751005468180e-5;
  b = b * s + 7.86869131145613259100e-4;
  b = b * s + 1.48753612908506148525e-2;
  b = b * s + 1.36929880922735805310e-1;
  b = b * s + 5.99832206555887937690e-1;
  b = b * s + 1.0;
  return a / b;
}

// Both ways are computed and one taken: no branch. (1 - abs(x)) / 2 is exact and at least 2^-25, so r is below 5.
[[nodiscard]] ISOBIT_HOST_DEVICE inline float erfinv(float x) {
  const double t = static_cast<double>(x), a = absolute(t);
  const bool inside = a < 1.0;
  const double tail = normal_quantile_tail(::sqrt(-log_of(inside ? (1.0 - a) * 0.5 : 0.5)));
  const double middle = normal_quantile_middle(0.5 * t);
  const double z = a <= 0.85 ? middle : t < 0.0 ? -tail : tail;
  const float edge = a == 1.0 ? (t < 0.0 ? -kInfinity : kInfinity) : kNan;
  return inside ? static_cast<float>(z * kRootHalf) : edge;
}
[[nodiscard]] ISOBIT_HOST_DEVICE inline float ndtri(float x) {
  const double p = static_cast<double>(x), q = p - 0.5;
  if (!(p > 0.0 && p < 1.0)) return p == 0.0 ? -kInfinity : p == 1.0 ? kInfinity : kNan;
  if (absolute(q) <= 0.425) return rounded(normal_quantile_middle(q));
  const double r = ::sqrt(-log_of(q < 0.0 ? p : 1.0 - p));
  const double z = r <= 5.0 ? normal_quantile_tail(r) : normal_quantile_far_tail(r);
  return rounded(q < 0.0 ? -z : z);
}

// e^(a^2) erfc(a) for a >= 0, as erfc is computed, without its factor e^(-a^2).
[[nodiscard]] ISOBIT_HOST_DEVICE inline double scaled_erfc_of(double a) {
  if (a < 2.0) {
    const double z = a * a;
    double p = 1.0;
    for (int k = 81; k >= 3; k -= 2) p = 1.0 + p * (2.0 * z / static_cast<double>(k));
    return exp_of(z) - 2.0 * a * kInverseRootPi * p;
  }
  double f = a;
  for (int k = 100; k >= 1; --k) f = a + 0.5 * static_cast<double>(k) / f;
  return kInverseRootPi / f;
}
[[nodiscard]] ISOBIT_HOST_DEVICE inline float erfcx(float x) {
  if (x != x) return kNan;
  const double t = static_cast<double>(x), a = absolute(t);
  if (t >= 0.0) return t == kInfinityWide ? 0.0f : rounded(scaled_erfc_of(a));
  if (a > 26.0) return kInfinity;
  return rounded(2.0 * exp_of(a * a) - scaled_erfc_of(a));
}
// erfc of any finite x.
[[nodiscard]] ISOBIT_HOST_DEVICE inline double erfc_of(double x) {
  const double a = absolute(x);
  if (a > 27.0) return x < 0.0 ? 2.0 : 0.0;
  const double y = exp_of(-(a * a)) * scaled_erfc_of(a);
  return x < 0.0 ? 2.0 - y : y;
}

// ln of the part of a normal distribution below x. Below -1 the exponent x^2 / 2 is kept out of the logarithm; above,
// ln(1 - y) with the rounding of 1 - y put back.
[[nodiscard]] ISOBIT_HOST_DEVICE inline float log_ndtr(float x) {
  if (x != x) return kNan;
  const double t = static_cast<double>(x);
  if (absolute(t) == kInfinityWide) return t < 0.0 ? x : 0.0f;
  if (t < -1.0) return rounded(log_of(0.5 * scaled_erfc_of(-t * kRootHalf)) - 0.5 * (t * t));
  return rounded(log1p_of(-0.5 * erfc_of(t * kRootHalf)));
}

ISOBIT_CONTRACT_END
