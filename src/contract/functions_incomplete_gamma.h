// The regularised incomplete gamma functions P(a, x) and Q(a, x) in binary64, rounded once to binary32, and the
// derivative of a gamma number with respect to its shape (contract, section 10).
//
// As functions_wide.h: + - * / and square roots of binary64 in the order written here, no fma, no library; relative
// error of P, Q and the derivative below 1e-11 before they are rounded. Four ways:
//   a >= 1000                the uniform expansion of Temme (SIAM J. Math. Anal. 10, 1979; DLMF 8.12): erfc, and five
//                            rows of a series in eta
//   x > a, x > 1.5           Q by Legendre's continued fraction (DLMF 8.9.2), from its last part up
//   a <= 0.5, x <= 1.5       Q by the power series of gamma(a, x) (DLMF 8.7.1) with the part at a = 0 taken out
//   else                     P by the series x^n / ((a + 1) ... (a + n)) (DLMF 8.7.3's other form), terms all positive
// Host and device; no state.
#pragma once

#include "contract/functions_bessel.h"
#include "contract/functions_gamma.h"
#include "contract/functions_normal.h"

ISOBIT_CONTRACT_BEGIN

// m - ln(1 + m), m > -1.
[[nodiscard]] ISOBIT_HOST_DEVICE inline double log1p_rest(double m) {
  if (m < -0.6 || m > 1.5) return m - log_of(1.0 + m);
  const double t = m / (2.0 + m), q = t * t;
  double p = 0.0;
  for (int k = 49; k >= 3; k -= 2) p = p * q + 1.0 / static_cast<double>(k);
  return m * t - 2.0 * (t * q) * p;
}
// e^u - 1.
[[nodiscard]] ISOBIT_HOST_DEVICE inline double expm1_of(double u) {
  if (absolute(u) > 0.5) return exp_of(u) - 1.0;
  double p = 1.0;
  for (int k = 16; k >= 2; --k) p = 1.0 + p * (u / static_cast<double>(k));
  return u * p;
}
// ln Gamma(1 + a) for 0 <= a <= 1/2, to the relative error of binary64: -ln(1 + a) + a (1 - gamma) + sum of
// (-a)^k (zeta(k) - 1) / k.
[[nodiscard]] ISOBIT_HOST_DEVICE inline double log_gamma_above_one(double a) {
  // zeta(k) - 1, k from 2.
  constexpr double kZeta[] = {
      0x1.4a34cc4a60fa6p-1,  0x1.9dd002780310ap-3,  0x1.51322ac7d8483p-4,  0x1.2e831d94f99b7p-5,  0x1.1c26130249124p-6,
      0x1.1196d0a679c47p-7,  0x1.0b36af86396e9p-8,  0x1.073e7b02d6ae0p-9,  0x1.04b8ce96ee5f8p-10, 0x1.0318df2459954p-11,
      0x1.020a5b2cd3042p-12, 0x1.01593a1177bd6p-13, 0x1.00e4af2b4e156p-14, 0x1.0097bcbf11bedp-15, 0x1.0064cdeb22f0fp-16,
      0x1.0043073686681p-17, 0x1.002c9953744ccp-18, 0x1.001db08f9ba4ap-19, 0x1.0013c594466eap-20, 0x1.000d2bab28121p-21,
      0x1.0008c66cec77dp-22, 0x1.0005d8f13858cp-23, 0x1.0003e59ffde12p-24, 0x1.000298ea55633p-25};
  double p = 0.0;
  for (int k = 25; k >= 2; --k) p = kZeta[k - 2] / static_cast<double>(k) - a * p;
  return (a * 0x1.b0ee6072093cep-2 + (a * a) * p) - log1p_of(a);
}
// ln(x^a e^-x / Gamma(a)), a > 0, x > 0: from 10 on by x - a, so that nothing large cancels.
[[nodiscard]] ISOBIT_HOST_DEVICE inline double log_gamma_density(double a, double x) {
  constexpr double kHalfLogTwoPi = 0x1.d67f1c864beb5p-1;
  if (a >= 10.0) return ((0.5 * log_of(a) - kHalfLogTwoPi) - stirling_rest(a)) - a * log1p_rest((x - a) / a);
  if (a <= 0.5) return ((a * log_of(x) - x) - log_gamma_above_one(a)) + log_of(a);
  return (a * log_of(x) - x) - log_gamma_of(a);
}

// A value with its derivative with respect to a.
struct GammaPart {
  double value, slope;
};
// Q / (x^a e^-x / Gamma(a)) by the continued fraction 1 / (x + 1 - a - 1 (1 - a) / (x + 3 - a - 2 (2 - a) / ...)).
[[nodiscard]] ISOBIT_HOST_DEVICE inline GammaPart gamma_fraction(double a, double x) {
  const int parts = x < a + 50.0 ? 250 : 100;
  double f = 0.0, df = 0.0;  // f: what is taken from the last denominator
  for (int k = parts; k >= 1; --k) {
    const double n = static_cast<double>(k), numerator = n * (n - a), below = ((x + 2.0 * n) + 1.0 - a) - f;
    f = numerator / below;
    df = (-n - f * (-1.0 - df)) / below;
  }
  const double below = (x + 1.0 - a) - f, value = 1.0 / below;
  return {value, (1.0 + df) * (value * value)};
}
// sum of x^n / ((a + 1) ... (a + n)): P / (x^a e^-x / Gamma(a + 1)).
[[nodiscard]] ISOBIT_HOST_DEVICE inline double gamma_series(double a, double x) {
  double sum = 1.0, term = 1.0;
  for (int n = 1; n < 2000 && term > 0x1p-60 * sum; ++n) {
    term = term * (x / (a + static_cast<double>(n)));
    sum = sum + term;
  }
  return sum;
}

// Temme's series S(a, eta) = sum of c_k(eta) a^-k, with its derivatives by a and by eta. Coefficients by the recursion
// of DLMF 8.12.12, at 100 digits by mpmath.
struct TemmeSum {
  double value, by_a, by_eta;
};
[[nodiscard]] ISOBIT_HOST_DEVICE inline TemmeSum temme_sum(double a, double eta) {
  constexpr int kTerms[] = {18, 15, 12, 9, 6};
  constexpr double kRows[5][18] = {
      {-0x1.5555555555555p-2, 0x1.5555555555555p-4, -0x1.e573ac901e574p-7, 0x1.2f684bda12f68p-10, 0x1.71de3a556c734p-12,
       -0x1.76e06fec7273bp-13, 0x1.48c5892f7cd83p-15, -0x1.255370652afc1p-19, -0x1.f1b22f594c6b5p-20,
       0x1.bd6d21e4b4109p-21, -0x1.7b5f9a2d0465cp-23, 0x1.ccf5ceb7f0d9fp-28, 0x1.6097d55c37c1cp-27,
       -0x1.2d2197c7a2faap-28, 0x1.f6e66d24d5c8ap-31, -0x1.c0d9b6edf2b0bp-36, -0x1.0070a87340428p-34,
       0x1.ac9475c463659p-36},
      {-0x1.e573ac901e574p-10, -0x1.c71c71c71c71cp-9, 0x1.5ac056b015ac0p-9, -0x1.0394f6f09e723p-10,
       0x1.af83440e53dbcp-13, -0x1.af83440e53dbcp-22, -0x1.2fa4ae89e5af0p-16, 0x1.00a9cabd6b83ep-17,
       -0x1.b0bdfcc629cbap-20, 0x1.3f59230a8357cp-28, 0x1.280f2cde3f847p-23, -0x1.ee23d0cba8aeep-25,
       0x1.9aa7a30de114cp-27, -0x1.349fbca3a377bp-36, -0x1.1564ecff73d58p-30},
      {0x1.0ee643b990ee6p-8, -0x1.5f7268edab4c8p-9, 0x1.948b0fcd6e9e0p-11, 0x1.0db20a88f4696p-19,
       -0x1.c253efaa1a932p-14, 0x1.bbf43daf4fe53p-15, -0x1.ac2d05890f2c3p-17, 0x1.26154ae39151dp-25,
       0x1.7058929663937p-20, -0x1.522cb05171911p-21, 0x1.32ac81c15d3d7p-23, -0x1.c24bd0e740a6cp-33},
      {0x1.547d93b34e2b6p-11, 0x1.e13ce465fa859p-13, -0x1.ebfb188b7ca00p-12, 0x1.18b9b5bf2d984p-12,
       -0x1.3d2a3a29b5d9dp-14, -0x1.0152a1871f27ap-22, 0x1.73df462204ef4p-17, -0x1.7cd6f27b3f020p-18,
       0x1.7e0201539310ep-20},
      {-0x1.c3e0b02da7bf9p-11, 0x1.9b0ff6874f2c4p-11, -0x1.3999a85a4237ap-12, -0x1.88f2ae1def9d0p-20,
       0x1.16908b48ce058p-14, -0x1.4ce3fd902bcadp-15}};
  const double v = 1.0 / a;
  TemmeSum s = {0.0, 0.0, 0.0};
  for (int k = 4; k >= 0; --k) {
    double c = 0.0, dc = 0.0;
    for (int n = kTerms[k] - 1; n >= 0; --n) {
      dc = dc * eta + c;
      c = c * eta + kRows[k][n];
    }
    s.by_a = s.by_a * v - v * v * s.value;
    s.by_eta = s.by_eta * v + dc;
    s.value = s.value * v + c;
  }
  return s;
}
// eta, of x - a's sign, with eta^2 / 2 = m - ln(1 + m), m = (x - a) / a.
[[nodiscard]] ISOBIT_HOST_DEVICE inline double temme_eta(double m) {
  const double eta = ::sqrt(2.0 * log1p_rest(m));
  return m < 0.0 ? -eta : eta;
}
// e^(-a eta^2 / 2) / sqrt(2 pi a).
[[nodiscard]] ISOBIT_HOST_DEVICE inline double temme_weight(double a, double rest) {
  return exp_of(-(a * rest)) * kInverseRootTwoPi / ::sqrt(a);
}

struct GammaParts {
  double below, above;  // P and Q
};
// a > 0, x > 0, both finite.
[[nodiscard]] ISOBIT_HOST_DEVICE inline GammaParts gamma_parts(double a, double x) {
  if (a >= 1000.0) {
    const double m = (x - a) / a, rest = log1p_rest(m);
    if (a * rest > 150.0) return m < 0.0 ? GammaParts{0.0, 1.0} : GammaParts{1.0, 0.0};
    const double eta = temme_eta(m), way = temme_weight(a, rest) * temme_sum(a, eta).value, z = eta * ::sqrt(0.5 * a);
    return {0.5 * erfc_of(-z) - way, 0.5 * erfc_of(z) + way};
  }
  if (x > a && x > 1.5) {
    const double above = exp_of(log_gamma_density(a, x)) * gamma_fraction(a, x).value;
    return {1.0 - above, above};
  }
  if (a <= 0.5 && x <= 1.5) {
    double sum = 0.0, term = 1.0;  // of (-x)^n / ((a + n) n!)
    for (int n = 1; n <= 24; ++n) {
      term = -term * (x / static_cast<double>(n));
      sum = sum + term / (a + static_cast<double>(n));
    }
    const double u = a * log_of(x) - log_gamma_above_one(a);
    return {exp_of(u) * (1.0 + a * sum), -expm1_of(u) - exp_of(u) * (a * sum)};
  }
  const double below = exp_of(log_gamma_density(a, x) - log_of(a)) * gamma_series(a, x);
  return {below, 1.0 - below};
}

// PyTorch's ends: NaN for negative arguments, for (0, 0) and (inf, inf).
[[nodiscard]] ISOBIT_HOST_DEVICE inline float incomplete_gamma(float a, float x, bool below) {
  if (!(a >= 0.0f) || !(x >= 0.0f)) return kNan;
  const float all = below ? 1.0f : 0.0f, none = below ? 0.0f : 1.0f;
  if (a == 0.0f) return x > 0.0f ? all : kNan;
  if (x == 0.0f) return none;
  if (a == kInfinity) return x == kInfinity ? kNan : none;
  if (x == kInfinity) return all;
  const GammaParts parts = gamma_parts(static_cast<double>(a), static_cast<double>(x));
  return rounded(below ? parts.below : parts.above);
}
[[nodiscard]] ISOBIT_HOST_DEVICE inline float igamma(float a, float x) { return incomplete_gamma(a, x, true); }
[[nodiscard]] ISOBIT_HOST_DEVICE inline float igammac(float a, float x) { return incomplete_gamma(a, x, false); }

// dx/da of a number x of the gamma distribution of shape a at a fixed probability: -(dP/da) / (dP/dx). 0 at x = 0.
[[nodiscard]] ISOBIT_HOST_DEVICE inline double gamma_slope_of(double a, double x) {
  if (!(a > 0.0) || !(x >= 0.0) || a == kInfinityWide || x == kInfinityWide) return kNanWide;
  if (x == 0.0) return 0.0;
  const double m = (x - a) / a;
  if (a >= 1000.0 && absolute(m) < 0.5) {  // Temme's expansion, term by term; e^(-a eta^2 / 2) cancels
    const double eta = temme_eta(m), log_ratio = m - log1p_rest(m);
    const double by_a = absolute(eta) < 1e-8 ? -1.0 / a : -m / (a * eta);  // of eta at fixed x
    const TemmeSum s = temme_sum(a, eta);
    const double first = -a * (by_a + eta / (2.0 * a));
    const double second = (log_ratio - 0.5 / a) * s.value + (s.by_a + s.by_eta * by_a);
    return (first + second) * (x / a) * exp_of(stirling_rest(a));
  }
  const double log_x = log_of(x);
  if (x > a && x > 1.5) {
    const GammaPart fraction = gamma_fraction(a, x);
    return x * (fraction.value * (log_x - digamma_of(a)) + fraction.slope);
  }
  double sum = 0.0, term = 1.0 / a, place = a + 1.0, psi = digamma_of(place);
  for (int n = 0; n < 2000; ++n) {
    const double next = term * (log_x - psi);
    sum = sum + next;
    term = term * (x / place);
    psi = psi + 1.0 / place;
    place = place + 1.0;
    if (term * (absolute(log_x) + absolute(psi)) < 0x1p-56 * absolute(sum)) break;
  }
  return -(x * sum);
}
[[nodiscard]] ISOBIT_HOST_DEVICE inline float gamma_slope(float a, float x) {
  return rounded(gamma_slope_of(static_cast<double>(a), static_cast<double>(x)));
}

ISOBIT_CONTRACT_END
