// Incomplete gamma functions against MPFR, zeta and polygamma by their recurrences, samplers by their distributions,
// gradients of samples by differences of the distribution.
#include "contract/distributions.h"

#include <gtest/gtest.h>
#include <mpfr.h>

#include <cmath>
#include <functional>
#include <limits>
#include <vector>

#include "contract/special_exact.h"

namespace isobit::contract {
namespace {

constexpr float kQuiet = std::numeric_limits<float>::quiet_NaN();

// Numbers in (0, 1) of a stream that the samplers do not use.
double unit(int i) {
  return (static_cast<double>(random_block(91, static_cast<std::uint64_t>(i)).word[0]) + 0.5) * 0x1p-32;
}

// Q(a, x), or P, to 200 bits.
double exact_part(double a, double x, bool below) {
  Numbers<3> t(400);
  auto& [shape, at, all] = t.n;
  mpfr_set_d(shape, a, kNear);
  mpfr_set_d(at, x, kNear);
  mpfr_gamma(all, shape, kNear);
  mpfr_gamma_inc(at, shape, at, kNear);
  mpfr_div(at, at, all, kNear);
  if (below) mpfr_ui_sub(at, 1, at, kNear);
  return mpfr_get_d(at, kNear);
}

TEST(IncompleteGamma, IsNearMpfrInEveryWay) {
  int tried = 0;
  for (int i = 0; i < 400; ++i) {
    const double a = std::exp(-12.0 + 20.0 * unit(3 * i));
    const double x = i % 2 == 0 ? a * std::exp((unit(3 * i + 1) - 0.5) * 8.0 / std::sqrt(std::max(a, 1.0)))
                                : std::exp(-6.0 + 11.0 * unit(3 * i + 2));
    const GammaParts parts = gamma_parts(a, x);
    for (const bool below : {false, true}) {
      const double exact = exact_part(a, x, below), got = below ? parts.below : parts.above;
      if (!(exact > 1e-45)) continue;
      ++tried;
      EXPECT_LT(std::fabs(got - exact), 1e-12 * exact) << (below ? "P" : "Q") << " of " << a << " and " << x;
    }
  }
  EXPECT_GT(tried, 500);
}

// Where two ways meet.
TEST(IncompleteGamma, IsSmoothAtItsBorders) {
  for (const auto& [a, x] : std::vector<std::pair<double, double>>{{1000.0, 990.0},
                                                                   {1000.0, 1020.0},
                                                                   {0.5, 1.5},
                                                                   {0.5, 0.3},
                                                                   {3.0, 3.0},
                                                                   {999.0, 999.0},
                                                                   {0.2, 1.5},
                                                                   {10.0, 12.0}}) {
    for (const double da : {-1e-9, 1e-9}) {
      for (const double dx : {-1e-9, 1e-9}) {
        const double shape = a * (1 + da), at = x * (1 + dx);
        EXPECT_NEAR(gamma_parts(shape, at).above / exact_part(shape, at, false), 1.0, 1e-12) << a << " " << x;
        EXPECT_NEAR(gamma_parts(shape, at).below / exact_part(shape, at, true), 1.0, 1e-12) << a << " " << x;
      }
    }
  }
}

TEST(IncompleteGamma, Ends) {
  const float inf = kInfinity;
  for (const auto& [a, x, below] : std::vector<std::tuple<float, float, float>>{{0.0f, 1.0f, 1.0f},
                                                                                {2.0f, 0.0f, 0.0f},
                                                                                {inf, 3.0f, 0.0f},
                                                                                {3.0f, inf, 1.0f},
                                                                                {0x1p-149f, 0x1p-149f, 1.0f},
                                                                                {1e30f, 1e20f, 0.0f},
                                                                                {1e20f, 1e30f, 1.0f}}) {
    EXPECT_EQ(igamma(a, x), below) << a << " " << x;
    if (a != 0x1p-149f) {
      EXPECT_EQ(igammac(a, x), 1.0f - below) << a << " " << x;
    }
  }
  for (const auto& [a, x] : std::vector<std::pair<float, float>>{
           {0.0f, 0.0f}, {inf, inf}, {-1.0f, 1.0f}, {1.0f, -1.0f}, {kQuiet, 1.0f}, {1.0f, kQuiet}, {-inf, 1.0f}}) {
    EXPECT_EQ(bits_of(igamma(a, x)), 0x7fc00000u) << a << " " << x;
    EXPECT_EQ(bits_of(igammac(a, x)), 0x7fc00000u) << a << " " << x;
  }
}

TEST(Zeta, OfOneIsRiemannsAndTheRecurrenceHolds) {
  Numbers<1> t(200);
  auto& [z] = t.n;
  for (int i = 0; i < 300; ++i) {
    const auto s = static_cast<float>(1.0 + std::exp(-8.0 + 11.0 * unit(i)));
    mpfr_set_flt(z, s, kNear);
    mpfr_zeta(z, z, kNear);
    EXPECT_NEAR(positive_zeta(s, 1.0) / mpfr_get_d(z, kNear), 1.0, 1e-13) << s;
    const double q = std::exp(-4.0 + 9.0 * unit(i + 1000));
    const double first = positive_zeta(s, q), rest = positive_zeta(s, q + 1.0);
    EXPECT_NEAR((first - rest) * std::pow(q, s), 1.0, 1e-12 * first * std::pow(q, s) + 1e-12) << s << " " << q;
  }
}
// Below 0 the sum is that of the numbers above with the terms in between.
TEST(Zeta, BelowZero) {
  for (const float s : {2.0f, 3.0f, 4.0f, 7.0f}) {
    for (const float q : {-0.25f, -0.5f, -1.625f, -7.375f, -100.5f, -100.0625f}) {
      double sum = 0;
      double x = q;
      for (; x < 0.0; x += 1.0) sum += 1.0 / std::pow(x, static_cast<double>(s));
      const double expected = sum + positive_zeta(s, x);
      EXPECT_NEAR(zeta(s, q), expected, 6e-8 * std::fabs(expected) + 1e-11) << s << " " << q;
    }
  }
  for (const float pole : {0.0f, -0.0f, -1.0f, -30.0f, -0x1p23f, -1e30f})
    EXPECT_EQ(zeta(3.0f, pole), kInfinity) << pole;
  EXPECT_TRUE(std::isnan(zeta(2.5f, -0.5f)));
  EXPECT_TRUE(std::isnan(zeta(0.5f, 1.0f)));
  EXPECT_EQ(zeta(1.0f, 2.0f), kInfinity);
  EXPECT_EQ(zeta(kInfinity, 2.0f), 0.0f);
  EXPECT_EQ(zeta(2.0f, kInfinity), 0.0f);
  EXPECT_TRUE(std::isnan(zeta(kQuiet, 1.0f)));
  EXPECT_EQ(zeta(5001.0f, -0.4f), -kInfinity);  // (-0.4)^-5001 is the largest of the terms
  EXPECT_EQ(zeta(5001.0f, -0.6f), kInfinity);
}

TEST(Polygamma, RecurrenceFactorialsAndOverflow) {
  for (const int n : {1, 2, 3, 5, 10, 30}) {
    for (const float x : {0.25f, 1.0f, 2.5f, 17.0f, -0.75f, -3.125f}) {
      const double change =
          (n % 2 == 0 ? 1.0 : -1.0) * std::tgamma(n + 1.0) / std::pow(static_cast<double>(x), n + 1.0);
      const double before = polygamma(static_cast<float>(n), x), after = polygamma(static_cast<float>(n), x + 1.0f);
      if (std::fabs(change) > 1e37 || std::isinf(before) || std::isinf(after)) continue;
      EXPECT_NEAR(after - before, change, 2e-7 * (std::fabs(before) + std::fabs(after))) << n << " " << x;
    }
  }
  EXPECT_EQ(polygamma(200.0f, 0.5f), -kInfinity);
  EXPECT_EQ(polygamma(201.0f, 0.5f), kInfinity);
  const double ratio = polygamma(45.0f, 20.0f) * std::pow(20.0, 46) / std::tgamma(46.0);  // 1 + (20 / 21)^46 + ...
  EXPECT_NEAR(ratio, positive_zeta(46.0, 20.0) * std::pow(20.0, 46), 1e-6) << "n! and the power do not overflow apart";
  EXPECT_TRUE(std::isnan(polygamma(2.0f, kQuiet)));
  EXPECT_TRUE(std::isnan(polygamma(-1.0f, 1.0f)));
  EXPECT_EQ(polygamma(2.0f, kInfinity), 0.0f);
  for (const float pole : {0.0f, -1.0f, -8388608.0f}) EXPECT_EQ(polygamma(3.0f, pole), kInfinity);
  EXPECT_EQ(digamma(0.0f), -kInfinity);
  EXPECT_EQ(digamma(-0.0f), kInfinity);
  EXPECT_TRUE(std::isnan(digamma(-3.0f)));
}

// ---- samplers

struct Moments {
  double mean = 0, variance = 0;
};
template <class Draw>
Moments moments_of(int count, Draw&& draw) {
  Moments m;
  std::vector<double> all;
  for (int e = 0; e < count; ++e) all.push_back(draw(static_cast<std::uint64_t>(e)));
  for (const double x : all) m.mean += x / count;
  for (const double x : all) m.variance += (x - m.mean) * (x - m.mean) / count;
  return m;
}
// Of counts against probability(k), cells of fewer than 10 expected left out; below the degrees + 5 deviations.
void expect_distribution(const std::vector<int>& counts, int total, const std::function<double(int)>& probability) {
  double chi = 0;
  int cells = 0;
  for (std::size_t k = 0; k < counts.size(); ++k) {
    const double expected = total * probability(static_cast<int>(k));
    if (expected < 10) continue;
    chi += (counts[k] - expected) * (counts[k] - expected) / expected;
    ++cells;
  }
  EXPECT_GT(cells, 1);
  EXPECT_LT(chi, cells + 5 * std::sqrt(2.0 * cells));
}

TEST(Samplers, GammaHasItsMoments) {
  constexpr int kCount = 40000;
  for (const float a : {0.02f, 0.5f, 1.0f, 3.7f, 900.0f, 1e7f}) {
    const Moments m = moments_of(kCount, [=](std::uint64_t e) { return gamma_of(17, e, a); });
    EXPECT_NEAR(m.mean, a, 5 * std::sqrt(a / kCount)) << a;
    EXPECT_NEAR(m.variance / a, 1.0, 5 * std::sqrt((2 + 6 / a) / kCount)) << a;
  }
}
// By the distribution itself: P(a, x) of its numbers is uniform.
TEST(Samplers, GammaIsItsDistribution) {
  for (const double a : {0.3, 1.0, 2.5, 40.0, 5000.0}) {
    std::vector<int> counts(20);
    for (int e = 0; e < 20000; ++e) {
      const double x = gamma_of(19, static_cast<std::uint64_t>(e), static_cast<float>(a));
      ++counts[static_cast<std::size_t>(std::min(19.0, 20 * gamma_parts(static_cast<float>(a), x).below))];
    }
    expect_distribution(counts, 20000, [](int) { return 0.05; });
  }
}
TEST(Samplers, PoissonAndBinomialAreTheirDistributions) {
  constexpr int kCount = 30000;
  for (const double rate : {0.2, 4.0, 9.999, 10.0, 35.0, 300.0}) {
    std::vector<int> counts(1000);
    for (int e = 0; e < kCount; ++e)
      ++counts[static_cast<std::size_t>(poisson_of(23, static_cast<std::uint64_t>(e), rate))];
    expect_distribution(counts, kCount,
                        [=](int k) { return std::exp(k * std::log(rate) - rate - std::lgamma(k + 1.0)); });
  }
  for (const auto& [n, p] : std::vector<std::pair<double, double>>{
           {1, 0.3}, {12, 0.5}, {40, 0.2}, {25, 0.4}, {50, 0.7}, {900, 0.05}, {700, 0.95}}) {
    std::vector<int> counts(1000);
    const auto chance = static_cast<float>(p);
    for (int e = 0; e < kCount; ++e) {
      ++counts[static_cast<std::size_t>(binomial_of(29, static_cast<std::uint64_t>(e), static_cast<float>(n), chance))];
    }
    expect_distribution(counts, kCount, [n = n, p = static_cast<double>(chance)](int k) {
      if (k > n) return 0.0;
      return std::exp(std::lgamma(n + 1) - std::lgamma(k + 1.0) - std::lgamma(n - k + 1) + k * std::log(p) +
                      (n - k) * std::log1p(-p));
    });
  }
}
TEST(Samplers, Ends) {
  EXPECT_EQ(gamma_of(1, 0, 0.0f), 0x1p-126f);
  EXPECT_EQ(gamma_of(1, 0, 1e-30f), 0x1p-126f);
  EXPECT_EQ(gamma_of(1, 0, kInfinity), kInfinity);
  EXPECT_TRUE(std::isnan(gamma_of(1, 0, -1.0f)));
  EXPECT_TRUE(std::isnan(gamma_of(1, 0, kQuiet)));
  EXPECT_EQ(poisson_of(1, 0, 0.0), 0.0);
  EXPECT_TRUE(std::isnan(poisson_of(1, 0, -1.0)));
  EXPECT_NEAR(poisson_of(1, 0, 1e30) / 1e30, 1.0, 1e-12);
  EXPECT_EQ(binomial_of(1, 0, 10.0f, 0.0f), 0.0f);
  EXPECT_EQ(binomial_of(1, 0, 10.0f, 1.0f), 10.0f);
  EXPECT_EQ(binomial_of(1, 0, -3.0f, 0.5f), 0.0f);
  EXPECT_TRUE(std::isnan(binomial_of(1, 0, 10.0f, kQuiet)));
  for (std::uint64_t e = 0; e < 2000; ++e) {
    const float k = binomial_of(5, e, 1e6f, 0.999999f);
    EXPECT_TRUE(k >= 0.0f && k <= 1e6f && k == std::floor(k));
  }
}
TEST(Samplers, ElementsDrawByThemselves) {
  const float shape = 0.4f;
  const float alone = gamma_of(7, 1ull << 40, shape);
  (void)gamma_of(7, 0, 1e-3f);
  EXPECT_EQ(bits_of(gamma_of(7, 1ull << 40, shape)), bits_of(alone));
  EXPECT_NE(bits_of(gamma_of(7, (1ull << 40) + 1, shape)), bits_of(alone));
  EXPECT_NE(bits_of(gamma_of(8, 1ull << 40, shape)), bits_of(alone));
}

// ---- gradients

// A central difference of P by a over the density; MPFR's 400 bits leave room for the small step.
double numeric_gamma_slope(double a, double x) {
  Numbers<5> t(400);
  auto& [at, above, below, density, shape] = t.n;
  const double step = std::ldexp(a, -50);
  mpfr_set_d(at, x, kNear);
  const auto part = [&](mpfr_t out, double s) {
    mpfr_set_d(shape, s, kNear);
    mpfr_gamma(density, shape, kNear);
    mpfr_gamma_inc(out, shape, at, kNear);
    mpfr_div(out, out, density, kNear);
  };
  part(above, a + step);
  part(below, a - step);
  mpfr_sub(above, above, below, kNear);
  mpfr_div_d(above, above, (a + step) - (a - step), kNear);
  mpfr_set_d(shape, a, kNear);
  mpfr_gamma(density, shape, kNear);
  mpfr_mul(above, above, density, kNear);
  mpfr_set_d(shape, a - 1.0, kNear);
  mpfr_pow(density, at, shape, kNear);
  mpfr_div(above, above, density, kNear);
  mpfr_exp(density, at, kNear);
  mpfr_mul(above, above, density, kNear);
  return mpfr_get_d(above, kNear);
}
TEST(GradientsOfSamples, GammaMovesWithItsShape) {
  for (int i = 0; i < 200; ++i) {
    const double a = static_cast<float>(std::exp(-4.0 + 12.0 * unit(2 * i)));
    const double x = a * std::exp((unit(2 * i + 1) - 0.5) * 6.0 / std::sqrt(std::max(a, 1.0)));
    EXPECT_NEAR(gamma_slope_of(a, x) / numeric_gamma_slope(a, x), 1.0, 1e-9) << a << " " << x;
  }
  EXPECT_EQ(gamma_slope(2.0f, 0.0f), 0.0f);
  EXPECT_TRUE(std::isnan(gamma_slope(-1.0f, 1.0f)));
  EXPECT_TRUE(std::isnan(gamma_slope(1.0f, kQuiet)));
  EXPECT_NEAR(gamma_slope_of(1e12, 1e12), 1.0, 1e-6);
}

// The integral of ln(t) minus its mean over the density, from x to the nearer end, by Simpson's rule in a variable that
// takes the end's power away.
double numeric_beta_slope(double x, double a, double b) {
  const double mean = digamma_of(a) - digamma_of(a + b);
  const bool down = x < a / (a + b);
  const double size = down ? x : 1 - x, power = std::max(1.0, 6.0 / (down ? a : b));
  constexpr int kParts = 20000;
  double sum = 0;
  for (int i = 1; i <= kParts; ++i) {
    const double s = static_cast<double>(i) / kParts, way = size * std::pow(s, power);
    const double log_t = down ? std::log(way) : std::log1p(-way), log_rest = down ? std::log1p(-way) : std::log(way);
    const double f = (log_t - mean) * std::exp((a - 1) * (log_t - std::log(x)) + (b - 1) * (log_rest - std::log1p(-x)));
    sum += (i == kParts ? 1 : i % 2 == 1 ? 4 : 2) * f * size * power * std::pow(s, power - 1);
  }
  return (down ? -sum : sum) / (3.0 * kParts) / (1 - x);
}
TEST(GradientsOfSamples, DirichletMovesWithItsConcentration) {
  for (const auto& [a, b] : std::vector<std::pair<double, double>>{{0.5, 0.7}, {2, 3}, {7, 1.5}, {1, 20}, {60, 40}}) {
    for (const double x : {0.02, 0.3, 0.55, 0.8, 0.97}) {
      const double expected = numeric_beta_slope(x, a, b);
      EXPECT_NEAR(beta_slope_of(x, a, a + b), expected, 1e-6 * std::fabs(expected)) << x << " " << a << " " << b;
    }
  }
  for (const double z : {-1.0, 0.0, 2.0}) {  // where the series ends and the normal distribution begins
    const double x = 0.3 + z * std::sqrt(0.21e-8);
    EXPECT_NEAR(
        beta_slope_of(x, 0.3e8 * 0.9999999, 1e8 * 0.9999999) / beta_slope_of(x, 0.3e8 * 1.0000001, 1e8 * 1.0000001),
        1.0, 3e-7);
  }
  EXPECT_EQ(beta_slope(0.0f, 1.0f, 2.0f), 0.0f);
  EXPECT_TRUE(std::isnan(beta_slope(kQuiet, 1.0f, 2.0f)));
  EXPECT_TRUE(std::isnan(beta_slope(0.5f, -1.0f, 2.0f)));
  EXPECT_TRUE(std::isnan(beta_slope(0.5f, 3.0f, 2.0f)));
}

}  // namespace
}  // namespace isobit::contract
