#include "contract/host_scalars.h"

#include <gtest/gtest.h>
#include <mpfr.h>

#include <bit>
#include <cmath>
#include <random>

#include "contract/mpfr_range.h"

namespace isobit::contract {
namespace {

std::uint64_t bits(double value) { return std::bit_cast<std::uint64_t>(value); }

// MPFR rounds correctly; its exponent range is narrowed so that subnormals are rounded once as well.
double power_by_mpfr(double base, std::uint64_t n) {
  const MpfrRange binary64(kLeastBinary64, kMostBinary64);
  mpfr_t x;
  mpfr_init2(x, 53);
  mpfr_set_d(x, base, MPFR_RNDN);
  const int ternary = mpfr_pow_ui(x, x, n, MPFR_RNDN);
  mpfr_subnormalize(x, ternary, MPFR_RNDN);
  const double result = mpfr_get_d(x, MPFR_RNDN);
  mpfr_clear(x);
  return result;
}

double cosine_by_mpfr(double argument) {
  mpfr_t x;
  mpfr_init2(x, 53);
  mpfr_set_d(x, argument, MPFR_RNDN);
  mpfr_cos(x, x, MPFR_RNDN);
  const double result = mpfr_get_d(x, MPFR_RNDN);
  mpfr_clear(x);
  return result;
}

TEST(PowerRounded, EqualsMpfrForBetasAndSteps) {
  int differs_from_chain = 0;
  for (double beta : {0.9, 0.999, 0.95, 0.99, 0.5, 0.75, 0.1, 0.9999, 0.97, 1.0 - 0x1p-53, 1e-3, 0x1.0p-30}) {
    double chain = 1.0;
    for (std::uint64_t step = 1; step <= 400; ++step) {
      ASSERT_EQ(bits(power_rounded(beta, step)), bits(power_by_mpfr(beta, step))) << beta << "^" << step;
      chain *= beta;
      differs_from_chain += bits(chain) != bits(power_rounded(beta, step));
    }
    for (std::uint64_t step : {1000ull, 4321ull, 65536ull, 1234567ull, 1ull << 31}) {
      ASSERT_EQ(bits(power_rounded(beta, step)), bits(power_by_mpfr(beta, step))) << beta << "^" << step;
    }
  }
  EXPECT_GT(differs_from_chain, 1000);  // repeated multiplication would be noticed
}

TEST(PowerRounded, EqualsMpfrForRandomBases) {
  std::mt19937_64 engine(1);
  for (int i = 0; i < 4000; ++i) {
    const double base = std::bit_cast<double>((0x3fe0000000000000ull + (engine() >> 11)) & 0x7fffffffffffffffull);
    const std::uint64_t n = engine() % 5000;
    ASSERT_EQ(bits(power_rounded(base, n)), bits(power_by_mpfr(base, n))) << base << "^" << n;
  }
}

TEST(PowerRounded, ExactTiesGoToEven) {  // odd^n of 54 bits: the midpoint of two binary64 numbers
  const double cube = 0x1.0p18 - 1;      // (2^18 - 1)^3 has 54 bits
  EXPECT_EQ(bits(power_rounded(cube, 3)), bits(power_by_mpfr(cube, 3)));
  const double square = 0x1.8000001p26;  // 54 bits squared
  EXPECT_EQ(bits(power_rounded(square, 2)), bits(square * square));
  for (std::uint64_t n = 1; n < 60; ++n) EXPECT_EQ(bits(power_rounded(3.0, n)), bits(power_by_mpfr(3.0, n))) << n;
}

TEST(PowerRounded, Edges) {
  EXPECT_EQ(power_rounded(0.0, 0), 1.0);
  EXPECT_EQ(power_rounded(0.0, 3), 0.0);
  EXPECT_EQ(power_rounded(0.5, 1074), 0x1p-1074);
  EXPECT_EQ(power_rounded(0.5, 1075), 0.0);                         // the tie below the smallest goes to even
  EXPECT_EQ(power_rounded(0.75, 2590), power_by_mpfr(0.75, 2590));  // subnormal
  EXPECT_EQ(power_rounded(2.0, 1023), 0x1p1023);
  EXPECT_TRUE(std::isinf(power_rounded(2.0, 1024)));
  EXPECT_TRUE(std::isinf(power_rounded(1.5, 1ull << 40)));
  EXPECT_EQ(power_rounded(0.9, 1ull << 50), 0.0);
  EXPECT_TRUE(std::isnan(power_rounded(-0.5, 2)));
}

TEST(CosineRounded, EqualsMpfrForSchedules) {
  constexpr double kPi = 3.14159265358979323846;
  for (int total : {1, 3, 7, 100, 937, 4690}) {
    for (int step = 0; step <= total; ++step) {
      const double x = kPi * step / total;
      ASSERT_EQ(bits(cosine_rounded(x)), bits(cosine_by_mpfr(x))) << x;
    }
  }
}

TEST(CosineRounded, EqualsMpfrEverywhere) {
  std::mt19937_64 engine(2);
  std::uniform_real_distribution<double> small(0, 7), large(-0x1p20, 0x1p20), exponent(-40, 20);
  for (int i = 0; i < 3000; ++i) {
    for (double x : {small(engine), large(engine), std::exp2(exponent(engine))}) {
      ASSERT_EQ(bits(cosine_rounded(x)), bits(cosine_by_mpfr(x))) << x;
    }
  }
  for (int k = 0; k < 20000; ++k) {  // next to the zeros and the extrema
    const double x = k * 1.5707963267948966;
    ASSERT_EQ(bits(cosine_rounded(x)), bits(cosine_by_mpfr(x))) << x;
  }
  EXPECT_EQ(cosine_rounded(0.0), 1.0);
  EXPECT_TRUE(std::isnan(cosine_rounded(0x1.1p20)));
}

}  // namespace
}  // namespace isobit::contract
