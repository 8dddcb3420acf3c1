// Derivatives of ln Gamma and Hurwitz's zeta function in binary64, rounded once to binary32 (contract, section 10).
//
// As functions_wide.h: + - * / and square roots of binary64 in the order written here, no fma, no library. Error below
// 0.50001 ulp; of digamma next to a zero 0.6 ulp, of zeta and polygamma 0.501 ulp. Host and device; no state.
#pragma once

#include "contract/functions_wide.h"

ISOBIT_CONTRACT_BEGIN

// x = whole + rest, abs(rest) <= 1/2, exact, for abs(x) < 2^31.
struct SplitNumber {
  double whole, rest;
};
[[nodiscard]] ISOBIT_HOST_DEVICE inline SplitNumber nearest_whole(double x) {
  const double whole = static_cast<double>(static_cast<std::int64_t>(x < 0.0 ? x - 0.5 : x + 0.5));
  return {whole, x - whole};
}
// sin(pi r) / (pi r) and cos(pi r) for abs(r) <= 1/2.
[[nodiscard]] ISOBIT_HOST_DEVICE inline double sine_part(double r) {
  const double z = (kPi * r) * (kPi * r);
  double s = 1.0;
  for (int k = 22; k >= 2; k -= 2) s = 1.0 - s * (z / static_cast<double>(k * (k + 1)));
  return s;
}
[[nodiscard]] ISOBIT_HOST_DEVICE inline double cosine_of_turns(double r) {
  const double rest = 0.5 - absolute(r);  // cos(pi r) = sin(pi (1/2 - r)): no digits are lost next to 1/2
  return kPi * rest * sine_part(rest);
}

// The derivative of digamma_tail.
[[nodiscard]] ISOBIT_HOST_DEVICE inline double trigamma_tail(double y) {
  const double v = 1.0 / y, w = v * v;
  double p = -3617.0 / 510.0;
  p = 7.0 / 6.0 + w * p;
  p = -691.0 / 2730.0 + w * p;
  p = 5.0 / 66.0 + w * p;
  p = -1.0 / 30.0 + w * p;
  p = 1.0 / 42.0 + w * p;
  p = -1.0 / 30.0 + w * p;
  p = 1.0 / 6.0 + w * p;
  return v + (0.5 * w + v * (w * p));
}
// x > 0: terms up to 8, then the series.
[[nodiscard]] ISOBIT_HOST_DEVICE inline double trigamma_of(double x) {
  double sum = 0.0;
  for (; x < 8.0; x = x + 1.0) sum = sum + 1.0 / (x * x);
  return trigamma_tail(x) + sum;
}
// Next to its zero: the integral of trigamma from there, by Gauss's five points.
[[nodiscard]] ISOBIT_HOST_DEVICE inline double positive_digamma(double x) {
  const double way = (x - 0x1.762d86356be3fp+0) - 0x1.b86a722197829p-54;
  if (absolute(way) < 0.125) {
    const double half = 0.5 * way, middle = 0x1.762d86356be3fp+0 + half;
    const double inner = half * 0x1.13b23fd99b705p-1, outer = half * 0x1.cff6ce0533a69p-1;
    const double pairs = 0x1.ea1da25ae415bp-2 * (trigamma_of(middle - inner) + trigamma_of(middle + inner)) +
                         0x1.e539ec36e038cp-3 * (trigamma_of(middle - outer) + trigamma_of(middle + outer));
    return half * (pairs + 128.0 / 225.0 * trigamma_of(middle));
  }
  double sum = 0.0;
  for (; x < 8.0; x = x + 1.0) sum = sum + 1.0 / x;
  return digamma_tail(x) - sum;
}
// x < 0 by digamma(1 - x) - pi / tan(pi x). PyTorch's poles: -inf at +0, +inf at -0, NaN at negative integers.
[[nodiscard]] ISOBIT_HOST_DEVICE inline double digamma_of(double x) {
  if (x != x || x == kInfinityWide) return x;
  if (x == 0.0) return 1.0 / x < 0.0 ? kInfinityWide : -kInfinityWide;
  if (x > 0.0) return positive_digamma(x);
  if (x <= -0x1p53) return kNanWide;
  const double rest = nearest_whole(x).rest;
  if (rest == 0.0) return kNanWide;
  return positive_digamma(1.0 - x) - cosine_of_turns(rest) / (rest * sine_part(rest));
}
[[nodiscard]] ISOBIT_HOST_DEVICE inline float digamma(float x) { return rounded(digamma_of(static_cast<double>(x))); }
// x < 0 by (pi / sin(pi x))^2 - trigamma(1 - x); +inf at 0 and negative integers.
[[nodiscard]] ISOBIT_HOST_DEVICE inline float trigamma(float x) {
  const double t = static_cast<double>(x);
  if (x != x) return kNan;
  if (t == kInfinityWide) return 0.0f;
  if (t > 0.0) return rounded(trigamma_of(t));
  if (t <= -0x1p23) return kInfinity;
  const double rest = nearest_whole(t).rest, s = rest * sine_part(rest);
  return rest == 0.0 ? kInfinity : rounded(1.0 / (s * s) - trigamma_of(1.0 - t));
}

// q^s times Hurwitz's zeta(s, q), s > 1, q > 0: nine terms, then Euler's and Maclaurin's sum with twelve Bernoulli
// numbers. Every power is of a number below 1, so none overflows; where e^-700 is reached nothing is left to add.
[[nodiscard]] ISOBIT_HOST_DEVICE inline double scaled_zeta(double s, double q) {
  double sum = 1.0;
  for (int k = 1; k < 9; ++k) sum = sum + exp_of(-(s * log1p_of(static_cast<double>(k) / q)));
  const double far = s * log1p_of(9.0 / q);
  if (far > 700.0) return sum;
  const double y = q + 9.0;
  // B_2j / (2j)!
  constexpr double kBernoulli[] = {0x1.5555555555555p-4,   -0x1.6c16c16c16c17p-10, 0x1.1566abc011567p-15,
                                   -0x1.bbd779334ef0bp-21, 0x1.66a8f2bf70ebep-26,  -0x1.22805d644267fp-31,
                                   0x1.d6db2c4e09162p-37,  -0x1.7da4e1f79955cp-42, 0x1.355871d652e9ep-47,
                                   -0x1.f57d968caacf1p-53, 0x1.967e1f09c376fp-58,  -0x1.497d9033a2b5cp-63};
  double tail = y / (s - 1.0) + 0.5, term = s / y, step = s;
  for (const double number : kBernoulli) {
    tail = tail + number * term;
    term = term * ((step + 1.0) / y) * ((step + 2.0) / y);
    step = step + 2.0;
  }
  return sum + exp_of(-far) * tail;
}
// q > 0.
[[nodiscard]] ISOBIT_HOST_DEVICE inline double positive_zeta(double s, double q) {
  return exp_of(-(s * log_of(q))) * scaled_zeta(s, q);
}
// zeta(s, q) for whole s > 1 and q < 0 that is none: with steps = -floor(q), above = q - floor(q), below = 1 - above,
// the terms from above on, and those of the other sign, which are a difference of two such sums. weight stands before
// all. Odd powers of equal distances cancel exactly.
[[nodiscard]] ISOBIT_HOST_DEVICE inline double reflected_zeta(double s, double q, double log_weight) {
  const double whole = -static_cast<double>(static_cast<std::int64_t>(q));
  const double below = -(q + whole), steps = whole + 1.0;  // exact; below is the distance to the next whole number
  const double above = 1.0 - below, least = above < below ? above : below;
  const double half = 0.5 * s;
  const bool odd = half != (half < 0x1p52 ? static_cast<double>(static_cast<std::int64_t>(half)) : half);
  const double beyond = steps + below;
  if (odd && above == below) return exp_of(log_weight - s * log_of(beyond)) * scaled_zeta(s, beyond);
  if (log_weight - s * log_of(least) > 600.0) return odd && below < above ? -kInfinityWide : kInfinityWide;
  const double weight = exp_of(log_weight);
  const double other = positive_zeta(s, below) - positive_zeta(s, beyond);
  return weight * (odd ? positive_zeta(s, above) - other : positive_zeta(s, above) + other);
}
// PyTorch's: s = 1 +inf, s < 1 NaN; q = 0, -1, ... +inf, other q < 0 NaN unless s is whole.
[[nodiscard]] ISOBIT_HOST_DEVICE inline float zeta(float a, float b) {
  const double s = static_cast<double>(a), q = static_cast<double>(b);
  if (a != a || b != b || s < 1.0) return kNan;
  if (s == 1.0) return kInfinity;
  if (q > 0.0) {
    if (q == kInfinityWide) return 0.0f;
    if (s == kInfinityWide) return q > 1.0 ? 0.0f : q == 1.0 ? 1.0f : kInfinity;
    return rounded(positive_zeta(s, q));
  }
  if (q <= -0x1p23) return q == -kInfinityWide ? kNan : kInfinity;
  if (q == static_cast<double>(static_cast<std::int64_t>(q))) return kInfinity;
  if (s == kInfinityWide || (s < 0x1p24 && s != static_cast<double>(static_cast<std::int64_t>(s)))) return kNan;
  return rounded(reflected_zeta(s, q, 0.0));
}
// Derivative n of digamma: n! zeta(n + 1, x), of the sign of (-1)^(n + 1).
[[nodiscard]] ISOBIT_HOST_DEVICE inline float polygamma(float order, float x) {
  if (order != order || x != x || order < 0.0f) return kNan;
  if (order == 0.0f) return digamma(x);
  if (order == 1.0f) return trigamma(x);
  const double n = static_cast<double>(order), s = n + 1.0, q = static_cast<double>(x), half = 0.5 * n;
  const bool even = half == (half < 0x1p52 ? static_cast<double>(static_cast<std::int64_t>(half)) : half);
  const double log_weight = log_gamma_of(s);
  double y = 0.0;
  if (q > 0.0) {
    y = q == kInfinityWide ? 0.0 : exp_of(log_weight - s * log_of(q)) * scaled_zeta(s, q);
  } else {
    if (q == -kInfinityWide) return kNan;
    const bool pole = q <= -0x1p23 || q == static_cast<double>(static_cast<std::int64_t>(q));
    y = pole ? kInfinityWide : reflected_zeta(s, q, log_weight);
  }
  return rounded(even ? -y : y);
}

ISOBIT_CONTRACT_END
