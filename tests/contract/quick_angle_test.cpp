// Tangent and angles in pairs: stated errors, and the same bits as the integers'.
#include "contract/quick_angle.h"

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

void compare_tangent(Count& count, double x) { compare<Tangent>(count, tan_by_integers, x); }
void compare_angle(Count& count, double up, double across) {
  compare<Angle>(count, angle_by_integers, up, across, false);
  compare<Angle>(count, angle_by_integers, up, across, true);
}

TEST_F(StatedErrors, OfTheTangent) {
  std::uniform_real_distribution<double> large(0, 0x1p20), small(0, 2), size(-27, 0);
  double largest = 0, far = 0;  // far: from multiples of pi/2, where what counts is tangent() alone
  for (int i = 0; i < 20000; ++i) {
    const double multiple = static_cast<double>(engine_() % 667000) * 1.5707963267948966;
    for (const double x : {large(engine_), small(engine_), std::exp2(size(engine_)), multiple}) {
      const Turn turn = turn_of(x);
      if (turn.r.high == 0) continue;
      const bool below = turn.r.high < 0, odd = (turn.n & 1) != 0;
      const Pair t = tangent<SplitProducts>(below ? Pair{-turn.r.high, -turn.r.low} : turn.r, odd);
      take({x, 0});
      mpfr_tan(exact_, exact_, MPFR_RNDN);
      mpfr_abs(exact_, exact_, MPFR_RNDN);
      const double error = relative_error(t, exact_);
      (x == multiple ? largest : far) = std::max(x == multiple ? largest : far, error);
    }
  }
  EXPECT_LT(largest, Tangent::kError / 8);
  EXPECT_LT(far, 0x1p-78);
  EXPECT_GT(far, 0x1p-100);
}

TEST_F(StatedErrors, OfTheInverseTangent) {
  std::uniform_real_distribution<double> mantissa(1, 2), size(-61, 0), low(-0x1p-54, 0x1p-54);
  double largest = 0;
  mpfr_t divisor;
  mpfr_init2(divisor, 400);
  for (int i = 0; i < 40000; ++i) {
    const double v = mantissa(engine_), u = i % 2 == 0 ? v * std::exp2(size(engine_)) : v * (mantissa(engine_) - 1);
    if (u < 0x1p-62) continue;
    const Pair across{v, v * low(engine_)}, up{u, u * low(engine_)};
    take(across);
    mpfr_set(divisor, exact_, MPFR_RNDN);
    take(up);
    mpfr_atan2(exact_, exact_, divisor, MPFR_RNDN);
    largest = std::max(largest, relative_error(inverse_tangent<SplitProducts>(up, across), exact_));
  }
  mpfr_clear(divisor);
  EXPECT_LT(largest, 0x1p-79);
  EXPECT_GT(largest, 0x1p-100);
}

TEST(QuickTangent, EqualsIntegers) {
  std::mt19937_64 engine(4);
  std::uniform_real_distribution<double> everyday(0, 100), size(-27, 20);
  Count count, next_to_multiples;
  for (int i = 0; i < 60000; ++i) {
    compare_tangent(count, everyday(engine));
    compare_tangent(count, std::exp2(size(engine)));
    const double multiple = static_cast<double>(engine() % 667000) * 1.5707963267948966;
    compare_tangent(next_to_multiples, neighbour(multiple, static_cast<int>(engine() % 5) - 2));
  }
  for (int j = 1; j < 700; ++j) {  // the table's own arguments, and where it changes
    for (int k = -3; k <= 3; ++k) {
      compare_tangent(count, neighbour(j / 128.0, k));
      compare_tangent(next_to_multiples, neighbour(j * 0.7853981633974483, k));
    }
  }
  EXPECT_LT(count.share(), 0.002);
  EXPECT_LT(next_to_multiples.share(), 0.5);
  double out = 0;
  EXPECT_FALSE(Tangent::run<SplitProducts>(out, 0x1p20));
  EXPECT_FALSE(Tangent::run<SplitProducts>(out, 0.0));
}

TEST(QuickAngle, EqualsIntegers) {
  std::mt19937_64 engine(5);
  std::uniform_real_distribution<double> everyday(0, 10), size(-62, 62);
  Count count, others;
  for (int i = 0; i < 30000; ++i) {
    compare_angle(count, everyday(engine), everyday(engine));
    compare_angle(count, everyday(engine), 1);
    compare_angle(count, everyday(engine) * std::exp2(size(engine)), everyday(engine));
    const double x = any_positive(engine);
    compare_angle(others, x, x * std::exp2(size(engine)));
    compare_angle(others, static_cast<double>(engine() % 200 + 1), static_cast<double>(engine() % 200 + 1));
  }
  for (int j = 1; j <= 256; ++j) {  // quotients of the table, where it changes, and next to them
    for (int k = -3; k <= 3; ++k) {
      const double q = neighbour(j / 128.0, k);
      for (const double across : {1.0, 3.0, 0x1p-1022, 0x1.fffffffffffffp1000}) {
        if (q * across >= 0x1p-1022) compare_angle(others, q * across, across);
      }
    }
  }
  EXPECT_LT(count.share(), 0.01);  // pi/2 and pi less an angle next to a midpoint's distance
  double out = 0;
  EXPECT_FALSE(Angle::run<SplitProducts>(out, 0x1p-1074, 1, false));
  EXPECT_FALSE(Angle::run<SplitProducts>(out, 1, std::numeric_limits<double>::infinity(), false));
  EXPECT_FALSE(Angle::run<SplitProducts>(out, 0x1p-500, 1, false));
}

TEST(QuickInverseSine, EqualsIntegers) {
  std::mt19937_64 engine(8);
  std::uniform_real_distribution<double> everyday(0, 1), size(-60, 0);
  Count count;
  const auto take = [&](double x) {
    compare<InverseSine>(count, by_integers<asin_rounded, double>, x);
    compare<InverseCosine>(
        count, [](double y, bool behind) { return by_integers<acos_rounded>(behind ? -y : y); }, x, false);
    compare<InverseCosine>(
        count, [](double y, bool behind) { return by_integers<acos_rounded>(behind ? -y : y); }, x, true);
  };
  for (int i = 0; i < 6000; ++i) {
    take(everyday(engine));
    take(std::exp2(size(engine)));
    take(1 - std::exp2(size(engine)));
  }
  for (int j = 1; j <= 128; ++j) {  // where the table's entry changes
    for (int k = -1; k <= 1; ++k) {
      take(neighbour(std::sin(std::atan(j / 128.0)), k));
      take(neighbour(std::cos(std::atan(j / 128.0)), k));
    }
  }
  EXPECT_LT(count.share(), 0.04);
  double out = 0;
  for (const double x : {0.0, 1.0, 2.0, std::numeric_limits<double>::quiet_NaN()}) {
    EXPECT_FALSE(InverseSine::run<SplitProducts>(out, x));
    EXPECT_FALSE(InverseCosine::run<SplitProducts>(out, x, true));
  }
}

}  // namespace
}  // namespace isobit::contract::host::quick
