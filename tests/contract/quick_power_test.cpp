// Powers in pairs: the same bits as the integers', next to exact values and at the ends of the range too.
#include "contract/quick_power.h"

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

void compare_power(Count& count, double x, double y) { compare<Power>(count, positive_power, x, y); }

constexpr double kLargest = std::numeric_limits<double>::max();

TEST(QuickPower, EqualsIntegers) {
  std::mt19937_64 engine(2);
  std::uniform_real_distribution<double> base(0, 3), exponent(-20, 20), size(-110, 10), away(-53, -3);
  Count everyday, others, far;
  for (int i = 0; i < 40000; ++i) {
    compare_power(everyday, base(engine), exponent(engine));
    compare_power(everyday, std::exp2(size(engine) / 4), exponent(engine));
    compare_power(others, std::exp2(size(engine)), exponent(engine));
    compare_power(others, any_positive(engine), exponent(engine) * std::exp2(size(engine)));
    compare_power(others, any_positive(engine), exponent(engine) / 10);
    const double x = 1 + std::exp2(away(engine)) * (i % 2 == 0 ? 1 : -0.5);
    if (x != 1) compare_power(others, x, exponent(engine) / (x - 1));
    const double y = exponent(engine) * 60, t = std::fabs(y * std::log(0.3));
    if (t > 500 && t < 700) compare_power(far, 0.3, y);
  }
  EXPECT_LT(everyday.share(), 0.002);
  EXPECT_GT(everyday.left, 0);     // the error is not stated as nothing,
  EXPECT_GT(far.share(), 0.0005);  // and grows with the logarithm of the result
  EXPECT_LT(far.share(), 0.01);
}

TEST(QuickPower, EqualsIntegersNextToExactValues) {
  Count count;
  const auto around = [&](double x, double y) {
    for (int k = -2; k <= 2; ++k) {
      const double near = neighbour(x, k);
      if (near != 1) compare_power(count, near, y);
      if (x != 1) compare_power(count, x, neighbour(y, k));
    }
  };
  for (int x = 1; x <= 300; ++x) {
    for (int y = 1; y <= 24; ++y) {
      around(x, y);
      around(x, -y);
      around(x, y * 0.5);
      around(static_cast<double>(x) * x, y * 0.5);
      around(static_cast<double>(x) * x * x * x, y * 0.25);
    }
  }
  std::mt19937_64 engine(3);
  for (int i = 0; i < 3000; ++i) {  // squares of 27 bits are exact or next to midpoints; so are roots of 54 bits
    const auto root = static_cast<double>(engine() >> 37 | 1);
    around(root, 2);
    around(root * root, 0.5);
    around(std::ldexp(root, -300), 3);
  }
}

TEST(QuickPower, EqualsIntegersAtTheEndsOfTheRange) {
  Count count;
  for (const double x : {0.5, 2.0, 0.3, 10.0, 1.0000001, 0x1p-1022, 0x1.fffffffffffffp-1, kLargest, 0x1p1023}) {
    for (const double end :
         {709.78271289338397, -708.3964185322641, -745.1332191019412, -745.13, 708.0, 710.0, -746.0}) {
      const double y = end / std::log(x);
      for (int k = -20; k <= 20; ++k) compare_power(count, x, neighbour(y, k));
    }
    for (int e = -1074; e < 1024; ++e) {
      compare_power(count, x, std::ldexp(1.0, e));
      compare_power(count, x, -std::ldexp(1.0, e));
    }
  }
  double out = 0;
  EXPECT_FALSE(Power::run<SplitProducts>(out, 0x1p-1074, 2.0));
  EXPECT_FALSE(Power::run<SplitProducts>(out, 3.0, std::numeric_limits<double>::infinity()));
}

TEST(QuickPairs, MidpointsAreNotDecided) {
  double out = 0;
  EXPECT_FALSE(round_pair({1, 0x1p-53}, 0x1p-70, out));
  EXPECT_FALSE(round_pair({1, 0x1.0001p-53}, 0x1p-66, out));
  EXPECT_TRUE(round_pair({1, 0x1.0001p-53}, 0x1p-70, out));
  EXPECT_EQ(out, 1 + 0x1p-52);
  EXPECT_TRUE(round_pair({3, 0}, 0x1p-70, out));
  EXPECT_EQ(out, 3);
  EXPECT_FALSE(Power::run<SplitProducts>(out, 0x1.8p26 + 1, 2.0));  // an odd integer of 54 bits
}

TEST(QuickPairs, OtherRoundingModesAreNotTried) {
  double out = 0;
  EXPECT_TRUE((attempt<Power>(out, 3.0, 0.3)));
  for (const int mode : {FE_UPWARD, FE_DOWNWARD, FE_TOWARDZERO}) {
    std::fesetround(mode);
    const bool decided = attempt<Power>(out, 3.0, 0.3);
    std::fesetround(FE_TONEAREST);
    EXPECT_FALSE(decided) << mode;
  }
}

}  // namespace
}  // namespace isobit::contract::host::quick
