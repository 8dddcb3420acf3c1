// Logarithms and exponentials in pairs: stated errors, and the same bits as the integers'.
#include "contract/quick_exponential.h"

#include <gtest/gtest.h>
#include <mpfr.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>

#include "contract/host_inverse.h"
#include "contract/host_power.h"
#include "contract/quick_compare.h"

namespace isobit::contract::host::quick {
namespace {

TEST_F(StatedErrors, OfTheLogarithm) {
  std::uniform_real_distribution<double> near(0.7, 1.42), size(-60, -4);
  double largest = 0;
  const auto take_one = [&](double x) {
    if (x == 1) return;
    take({x, 0});
    mpfr_log(exact_, exact_, MPFR_RNDN);
    largest = std::max(largest, relative_error(logarithm<SplitProducts>(x), exact_));
  };
  for (int i = 0; i < 30000; ++i) {
    const double away = std::exp2(size(engine_));
    for (const double x : {near(engine_), any_positive(engine_), 1 + away, 1 - away}) take_one(x);
  }
  for (int i = 181; i <= 362; ++i) {  // where the table's entry changes
    for (int k = -3; k <= 3; ++k) take_one(neighbour(i / 256.0, k));
  }
  for (int k = -3; k <= 3; ++k) take_one(neighbour(0x1.6a09e667f3bcdp0, k));  // sqrt(2)
  EXPECT_LT(largest, kLogarithmError / 4);
  EXPECT_GT(largest, 0x1p-90);
}

TEST_F(StatedErrors, OfTheExponential) {
  std::uniform_real_distribution<double> large(-709, 709), small(-1, 1), size(-60, 0);
  double largest = 0;
  const auto take_one = [&](const Pair& t) {
    const ScaledPair e = exponential<SplitProducts>(t);
    take(t);
    mpfr_exp(exact_, exact_, MPFR_RNDN);
    mpfr_mul_2si(exact_, exact_, -e.n, MPFR_RNDN);
    EXPECT_LT(e.value.high, 2.02);
    largest = std::max(largest, relative_error(e.value, exact_));
  };
  for (int i = 0; i < 30000; ++i) {
    for (const double t : {large(engine_), small(engine_), small(engine_) * std::exp2(size(engine_))}) {
      take_one({t, t * small(engine_) * 0x1p-51});
    }
  }
  for (int k = -65000; k <= 65000; k += k > -130 && k < 130 ? 1 : 17) {  // where the table's entry changes
    const double t = k * 0x1.62e42fefa39efp-8;
    for (const double low : {-0x1p-52, 0.0, 0x1p-52}) take_one({t, t * low});
  }
  EXPECT_LT(largest, kExponentialError / 4);
  EXPECT_GT(largest, 0x1p-90);
}

TEST_F(StatedErrors, OfHyperbolicFunctions) {
  std::uniform_real_distribution<double> large(0x1p-4, 709), small(0x1p-4, 2), size(-28, -4);
  double largest = 0, largest_small = 0;
  for (int i = 0; i < 20000; ++i) {
    for (const double x : {large(engine_), small(engine_)}) {
      for (const bool sine : {false, true}) {
        const ScaledPair both = hyperbolic<SplitProducts>(x, sine ? -1 : 1);
        take({x, 0});
        (sine ? mpfr_sinh : mpfr_cosh)(exact_, exact_, MPFR_RNDN);
        mpfr_mul_2si(exact_, exact_, 1 - both.n, MPFR_RNDN);
        largest = std::max(largest, relative_error(both.value, exact_) * both.value.high);
      }
    }
    const double x = std::exp2(size(engine_));
    take({x, 0});
    mpfr_sinh(exact_, exact_, MPFR_RNDN);
    largest_small = std::max(largest_small, relative_error(small_hyperbolic_sine<SplitProducts>(x), exact_));
  }
  EXPECT_LT(largest, kHyperbolicError / 4);
  EXPECT_LT(largest_small, kSmallSineError / 4);
  EXPECT_GT(largest_small, 0x1p-90);
  EXPECT_GT(kHyperbolicError, 3.1 * kExponentialError);
}

// Arguments of every size, and next to where the table's entry or the formula changes.
// Where kPositive, of positive numbers alone.
template <class Task, auto kFunction, bool kPositive = false>
void compare_exponentials(double unit, double end) {
  std::mt19937_64 engine(6);
  std::uniform_real_distribution<double> everyday(-10, 10), large(-end, end), size(kPositive ? -28 : -56, 4);
  Count count, others;
  const auto take = [&](Count& to, double x) {
    compare<Task>(to, by_integers<kFunction, double>, kPositive ? std::fabs(x) : x);
  };
  for (int i = 0; i < 25000; ++i) {
    take(count, everyday(engine));
    take(count, large(engine));
    take(others, std::exp2(size(engine)) * (i % 2 == 0 ? 1 : -1));
  }
  for (int k = -1000; k <= 1000; ++k) take(others, neighbour((k + 0.5) * unit, k % 4));
  for (int k = -20; k <= 20; ++k) {
    for (const double x : {end, 708.0, 1021.0, 0.0625, 0x1p-28, 0x1p-27, 1.0, 2.0, 27.7, 38 * 0.693}) {
      take(others, neighbour(x, k));
      take(others, -neighbour(x, k));
    }
    take(others, k);
  }
  EXPECT_LT(count.share(), 0.04);  // of numbers up to end some thirtieth lies beyond the range of normal results
  EXPECT_LT(others.share(), 0.06);
  double out = 0;
  for (const double x : {std::numeric_limits<double>::quiet_NaN(), std::numeric_limits<double>::infinity(), 0.0}) {
    EXPECT_FALSE(Task::template run<SplitProducts>(out, x));
  }
}

TEST(QuickExponential, EqualsIntegers) { compare_exponentials<Exponential, exp_rounded>(0x1.62e42fefa39efp-7, 720); }
TEST(QuickExponentialOfTwo, EqualsIntegers) { compare_exponentials<ExponentialOfTwo, exp2_rounded>(0x1p-6, 1040); }

TEST(QuickHyperbolicSine, EqualsIntegers) {
  compare_exponentials<HyperbolicSine, sinh_rounded, true>(0x1.62e42fefa39efp-7, 720);
}
TEST(QuickHyperbolicCosine, EqualsIntegers) {
  compare_exponentials<HyperbolicCosine, cosh_rounded, true>(0x1.62e42fefa39efp-7, 720);
}

template <class Task, auto kFunction>
void compare_logarithms() {
  std::mt19937_64 engine(7);
  std::uniform_real_distribution<double> everyday(0, 10), size(-53, -1);
  Count count, others;
  const auto take = [&](Count& to, double x) {
    if (x != 1) compare<Task>(to, by_integers<kFunction, double>, x);
  };
  for (int i = 0; i < 10000; ++i) {
    take(count, everyday(engine));
    take(count, any_positive(engine));
    take(others, 1 + std::exp2(size(engine)));
    take(others, 1 - std::exp2(size(engine)));
  }
  for (int i = 181; i <= 362; ++i) take(others, neighbour(i / 256.0, i % 5 - 2));
  for (int e = -1022; e < 1024; ++e) {
    take(others, std::ldexp(1.0, e));
    take(others, neighbour(std::ldexp(1.0, e), e < 0 ? 1 : -1));
  }
  for (int n = 0; n <= 300; ++n) {
    const double power = std::pow(10.0, n);
    for (int k = -2; k <= 2; ++k) take(others, neighbour(power, k));
  }
  EXPECT_LT(count.share(), 0.001);
  EXPECT_LT(others.share(), 0.02);  // ln(1 + z) = z - z^2 / 2 is close to midpoints for few bits of z
  double out = 0;
  for (const double x : {std::numeric_limits<double>::quiet_NaN(), std::numeric_limits<double>::infinity(), 0.0, -1.0,
                         0x1.ffffffffffffep-1023}) {
    EXPECT_FALSE(Task::template run<SplitProducts>(out, x));
  }
}

TEST(QuickLogarithm, EqualsIntegers) { compare_logarithms<NaturalLogarithm, log_rounded>(); }
TEST(QuickLogarithmOfTwo, EqualsIntegers) { compare_logarithms<LogarithmOf<Two>, log2_rounded>(); }
TEST(QuickLogarithmOfTen, EqualsIntegers) { compare_logarithms<LogarithmOf<Ten>, log10_rounded>(); }

}  // namespace
}  // namespace isobit::contract::host::quick
