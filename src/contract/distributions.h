// Numbers of the gamma, Poisson and binomial distributions, and the derivative of a beta number (contract, section 5).
//
// Element e's attempt t has Philox block (e low, e high, t, 2^30) of the key: what one element draws never depends on
// another. Two uniform numbers of a block, from words (0, 1) and (2, 3): u = ((w0 + 2^32 w1) >> 11) + 1/2, times 2^-53.
// All is computed in binary64 with the functions of functions_wide.h and its relatives and rounded once; no fma.
// Methods: Marsaglia and Tsang, "A simple method for generating gamma variables" (2000); Hormann, "The transformed
// rejection method for generating Poisson random variables" (1993) and "The generation of binomial random variates"
// (1993). An attempt is rejected with a probability below 0.6; after 4096 of them the last candidate's centre is taken,
// which no key will live to see. Host and device; no state.
#pragma once

#include "contract/functions_incomplete_gamma.h"
#include "contract/philox.h"

ISOBIT_CONTRACT_BEGIN

inline constexpr std::uint32_t kAttempts = 4096;
inline constexpr double kLeastNormal = 0x1p-126;

struct UniformPair {
  double first, second;  // in (0, 1]
};
[[nodiscard]] ISOBIT_HOST_DEVICE inline double unit_of_words(std::uint32_t low, std::uint32_t high) {
  const std::uint64_t word = static_cast<std::uint64_t>(high) << 32 | low;
  return (static_cast<double>(word >> 11) + 0.5) * 0x1p-53;
}
[[nodiscard]] ISOBIT_HOST_DEVICE inline PhiloxBlock attempt_block(std::uint64_t key, std::uint64_t e, std::uint32_t t) {
  return philox4x32_10(static_cast<std::uint32_t>(e), static_cast<std::uint32_t>(e >> 32), t, 0x40000000u,
                       static_cast<std::uint32_t>(key), static_cast<std::uint32_t>(key >> 32));
}
[[nodiscard]] ISOBIT_HOST_DEVICE inline UniformPair attempt_uniforms(std::uint64_t key, std::uint64_t e,
                                                                     std::uint32_t t) {
  const PhiloxBlock block = attempt_block(key, e, t);
  return {unit_of_words(block.word[0], block.word[1]), unit_of_words(block.word[2], block.word[3])};
}
[[nodiscard]] ISOBIT_HOST_DEVICE inline double floor_of(double x) {
  if (!(absolute(x) < 0x1p52)) return x;
  const double whole = static_cast<double>(static_cast<std::int64_t>(x));
  return whole > x ? whole - 1.0 : whole;
}

// A gamma number as scale * e^logarithm, so that small shapes do not underflow.
struct GammaNumber {
  double scale, logarithm;
};
// shape > 0, finite. Block t: z = -cos(2 pi u) sqrt(-2 ln u'), u' = (w0 + 1/2) 2^-32, u = w1 2^-32, and the uniform
// number of words (2, 3) decides. A shape a below 1 is that of a + 1 times u^(1 / a), u the first of block 2^32 - 1.
[[nodiscard]] ISOBIT_HOST_DEVICE inline GammaNumber gamma_number(std::uint64_t key, std::uint64_t e, double shape) {
  const double d = (shape < 1.0 ? shape + 1.0 : shape) - 1.0 / 3.0, c = 1.0 / (3.0 * ::sqrt(d));
  GammaNumber result = {d, 0.0};
  for (std::uint32_t t = 0; t < kAttempts; ++t) {
    const PhiloxBlock block = attempt_block(key, e, t);
    const double radius = ::sqrt(-2.0 * log_of((static_cast<double>(block.word[0]) + 0.5) * 0x1p-32));
    const double turn = static_cast<double>(block.word[1]) * 0x1p-31 - 1.0, size = absolute(turn);
    const double z = radius * (size <= 0.5 ? -cosine_of_turns(turn) : cosine_of_turns(1.0 - size)), y = c * z;
    if (!(y > -1.0)) continue;
    const double change = y * (3.0 + y * (3.0 + y)), v = 1.0 + change;  // (1 + y)^3
    if (!(v > 0.0)) continue;
    if (log_of(unit_of_words(block.word[2], block.word[3])) < 0.5 * (z * z) - d * log1p_rest(change)) {
      result.scale = d * v;
      break;
    }
  }
  if (shape < 1.0) result.logarithm = log_of(attempt_uniforms(key, e, 0xffffffffu).first) / shape;
  return result;
}
// At least the least normal number, as PyTorch's.
[[nodiscard]] ISOBIT_HOST_DEVICE inline float gamma_of(std::uint64_t key, std::uint64_t e, float shape) {
  if (!(shape >= 0.0f)) return kNan;
  if (shape == kInfinity) return kInfinity;
  if (shape == 0.0f) return static_cast<float>(kLeastNormal);
  const GammaNumber g = gamma_number(key, e, static_cast<double>(shape));
  const double x = g.scale * exp_of(g.logarithm);
  return rounded(x < kLeastNormal ? kLeastNormal : x);
}

// ln of rate^k e^-rate / k!.
[[nodiscard]] ISOBIT_HOST_DEVICE inline double log_poisson(double rate, double k) {
  if (k < 8.0) return (k * log_of(rate) - rate) - log_gamma_of(k + 1.0);
  constexpr double kHalfLogTwoPi = 0x1.d67f1c864beb5p-1;
  return ((-(k * log1p_rest((rate - k) / k)) - kHalfLogTwoPi) - 0.5 * log_of(k)) - stirling_rest(k);
}
// rate >= 0. Below 10 the first k whose sum of probabilities is above u of block 0; else transformed rejection (PTRS).
[[nodiscard]] ISOBIT_HOST_DEVICE inline double poisson_of(std::uint64_t key, std::uint64_t e, double rate) {
  if (!(rate >= 0.0)) return kNanWide;
  if (rate == kInfinityWide || rate == 0.0) return rate;
  if (rate < 10.0) {
    const double u = attempt_uniforms(key, e, 0).first;
    double term = exp_of(-rate), sum = term, k = 0.0;
    while (u > sum && k < 200.0) {
      k = k + 1.0;
      term = term * (rate / k);
      sum = sum + term;
    }
    return k;
  }
  const double b = 0.931 + 2.53 * ::sqrt(rate), a = -0.059 + 0.02483 * b;
  const double inverse = 1.1239 + 1.1328 / (b - 3.4), inner = 0.9277 - 3.6224 / (b - 2.0);
  for (std::uint32_t t = 0; t < kAttempts; ++t) {
    const UniformPair pair = attempt_uniforms(key, e, t);
    const double u = pair.first - 0.5, v = pair.second, side = 0.5 - absolute(u);
    const double k = floor_of((2.0 * a / side + b) * u + rate + 0.43);
    if (side >= 0.07 && v <= inner) return k;
    if (!(k >= 0.0) || (side < 0.013 && v > side)) continue;
    if (log_of(v * inverse / (a / (side * side) + b)) <= log_poisson(rate, k)) return k;
  }
  return floor_of(rate);
}

// ln y! less its leading part (y + 1/2) ln(y + 1) - (y + 1) + ln(2 pi) / 2, for whole y >= 0.
[[nodiscard]] ISOBIT_HOST_DEVICE inline double factorial_rest(double k) {
  constexpr double kHalfLogTwoPi = 0x1.d67f1c864beb5p-1;
  const double y = k + 1.0;
  return y >= 8.0 ? stirling_rest(y) : log_gamma_of(y) - (((y - 0.5) * log_of(y) - y) + kHalfLogTwoPi);
}
// Whole n > 0, 0 < p <= 1/2. n p below 10: the first k whose sum of probabilities is above u of block 0; else BTRS.
[[nodiscard]] ISOBIT_HOST_DEVICE inline double binomial_number(std::uint64_t key, std::uint64_t e, double n, double p) {
  const double q = 1.0 - p, odds = p / q;
  if (n * p < 10.0) {
    const double u = attempt_uniforms(key, e, 0).first;
    double term = exp_of(n * log1p_of(-p)), sum = term, k = 0.0;
    while (u > sum && k < n && k < 400.0) {
      term = term * ((n - k) / (k + 1.0) * odds);
      k = k + 1.0;
      sum = sum + term;
    }
    return k;
  }
  const double deviation = ::sqrt(n * p * q), b = 1.15 + 2.53 * deviation, a = -0.0873 + 0.0248 * b + 0.01 * p;
  const double inner = 0.92 - 4.2 / b, alpha = (2.83 + 5.1 / b) * deviation, m = floor_of((n + 1.0) * p);
  const double middle =
      (m + 0.5) * log_of((m + 1.0) / (odds * (n - m + 1.0))) + factorial_rest(m) + factorial_rest(n - m);
  for (std::uint32_t t = 0; t < kAttempts; ++t) {
    const UniformPair pair = attempt_uniforms(key, e, t);
    const double u = pair.first - 0.5, v = pair.second, side = 0.5 - absolute(u);
    const double k = floor_of((2.0 * a / side + b) * u + n * p + 0.5);
    if (!(k >= 0.0 && k <= n)) continue;
    if (side >= 0.07 && v <= inner) return k;
    const double upper = middle + (n + 1.0) * log_of((n - m + 1.0) / (n - k + 1.0)) +
                         (k + 0.5) * log_of(odds * (n - k + 1.0) / (k + 1.0)) - factorial_rest(k) -
                         factorial_rest(n - k);
    if (log_of(v * alpha / (a / (side * side) + b)) <= upper) return k;
  }
  return m;
}
// A count is rounded down; p outside (0, 1) gives 0 or the count, as PyTorch's.
[[nodiscard]] ISOBIT_HOST_DEVICE inline float binomial_of(std::uint64_t key, std::uint64_t e, float count, float p) {
  if (count != count || p != p) return kNan;
  const double n = floor_of(static_cast<double>(count)), chance = static_cast<double>(p);
  if (!(n > 0.0) || p <= 0.0f) return 0.0f;
  if (p >= 1.0f || count == kInfinity) return count == kInfinity ? kInfinity : static_cast<float>(n);
  const double k = chance > 0.5 ? n - binomial_number(key, e, n, 1.0 - chance) : binomial_number(key, e, n, chance);
  return static_cast<float>(k);
}

// sum of (total)_n / (a + 1)_n x^n with its derivative by a where `by_a` (total - a fixed), else by total - a.
[[nodiscard]] ISOBIT_HOST_DEVICE inline GammaPart beta_series(double a, double total, double x, bool by_a) {
  GammaPart sum = {1.0, 0.0};
  double term = 1.0, slope = 0.0;
  for (int n = 0; n < 200000; ++n) {
    const double above = total + static_cast<double>(n), below = a + 1.0 + static_cast<double>(n);
    term = term * (above / below * x);
    slope = slope + (by_a ? 1.0 / above - 1.0 / below : 1.0 / above);
    sum.value = sum.value + term;
    sum.slope = sum.slope + term * slope;
    if (term * (1.0 + absolute(slope)) < 0x1p-60 * sum.value && above * x < below) break;
  }
  return sum;
}
// -(dI/da) / (dI/dx) / (1 - x), I the regularised incomplete beta function I_x(a, total - a): how a coordinate of a
// Dirichlet number moves with its own concentration. Up to the mean by the series of I_x(a, b), above it by that of
// 1 - I_(1-x)(b, a); from a total of 1e8 on by the normal distribution of the same mean and deviation.
[[nodiscard]] ISOBIT_HOST_DEVICE inline double beta_slope_of(double x, double a, double total) {
  const double b = total - a;
  if (!(a > 0.0) || !(b >= 0.0) || !(x >= 0.0) || !(x <= 1.0) || total == kInfinityWide) return kNanWide;
  if (x == 0.0 || b == 0.0) return 0.0;
  if (total > 1e8) {
    const double mean = a / total, rest = x - mean;  // deviation^2 = a b / total^3, d ln deviation / da
    return (b / (total * total) + rest * (0.5 / a - 1.5 / total)) / (1.0 - x);
  }
  const double y = 1.0 - x, logarithm = (y < 0.5 ? log1p_of(-y) : log_of(x)) + (digamma_of(total) - digamma_of(a));
  if (x * total <= a) {
    const GammaPart s = beta_series(a, total, x, true);
    return -(x / a) * (s.value * (logarithm - 1.0 / a) + s.slope);
  }
  const GammaPart s = beta_series(b, total, y, false);
  return x / b * (s.value * logarithm + s.slope);
}
[[nodiscard]] ISOBIT_HOST_DEVICE inline float beta_slope(float x, float a, float total) {
  return rounded(beta_slope_of(static_cast<double>(x), static_cast<double>(a), static_cast<double>(total)));
}

ISOBIT_CONTRACT_END
