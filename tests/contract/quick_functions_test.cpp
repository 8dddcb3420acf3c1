// The first phase of correctly rounded functions (quick_pairs.h): its stated errors against MPFR, its results against
// the integers that decide otherwise, both ways of exact products, and how seldom it does not decide.
#include "contract/quick_pairs.h"

#include <gtest/gtest.h>
#include <mpfr.h>

#include <algorithm>
#include <bit>
#include <cfenv>
#include <cmath>
#include <limits>
#include <random>
#include <tuple>

#include "contract/host_inverse.h"
#include "contract/host_power.h"
#include "contract/quick_angle.h"
#include "contract/quick_power.h"

namespace isobit::contract::host::quick {
namespace {

constexpr double kLargest = std::numeric_limits<double>::max();

// Counts of what a task decided, over one set of arguments.
struct Count {
  int all = 0, left = 0;
  [[nodiscard]] double share() const { return static_cast<double>(left) / all; }
};

// Both ways of products decide alike; where they decide, it is the integers' result.
template <class Task, class Integers, class... Arguments>
void compare(Count& count, const Integers& integers, Arguments... x) {
  double fused = 0, split = 0;
  const bool decided = Task::template run<FusedProducts>(fused, x...);
  ASSERT_EQ(decided, (Task::template run<SplitProducts>(split, x...)));
  ++count.all;
  count.left += decided ? 0 : 1;
  if (!decided) return;
  ASSERT_EQ(bits_of_double(fused), bits_of_double(split));
  const double exact = integers(x...);
  ASSERT_EQ(bits_of_double(fused), bits_of_double(exact))
      << std::hexfloat << fused << " " << exact << ::testing::PrintToString(std::make_tuple(x...));
}
void compare_power(Count& count, double x, double y) { compare<Power>(count, positive_power, x, y); }
void compare_tangent(Count& count, double x) { compare<Tangent>(count, tan_by_integers, x); }
void compare_angle(Count& count, double up, double across) {
  compare<Angle>(count, angle_by_integers, up, across, false);
  compare<Angle>(count, angle_by_integers, up, across, true);
}

double any_positive(std::mt19937_64& engine) {  // normal, every exponent alike
  return std::bit_cast<double>((engine() >> 12) | (engine() % 2046 + 1) << 52);
}

double neighbour(double x, int by) { return std::bit_cast<double>(std::bit_cast<std::int64_t>(x) + by); }

// ---- stated errors

double relative_error(const Pair& x, mpfr_t exact) {
  mpfr_t y;
  mpfr_init2(y, 400);
  mpfr_set_d(y, x.high, MPFR_RNDN);
  mpfr_add_d(y, y, x.low, MPFR_RNDN);
  mpfr_sub(y, y, exact, MPFR_RNDN);
  mpfr_div(y, y, exact, MPFR_RNDN);
  const double error = std::fabs(mpfr_get_d(y, MPFR_RNDN));
  mpfr_clear(y);
  return error;
}

class StatedErrors : public ::testing::Test {
 protected:
  StatedErrors() { mpfr_init2(exact_, 400); }
  ~StatedErrors() override { mpfr_clear(exact_); }
  void take(const Pair& x) {
    mpfr_set_d(exact_, x.high, MPFR_RNDN);
    mpfr_add_d(exact_, exact_, x.low, MPFR_RNDN);
  }
  std::mt19937_64 engine_{1};
  mpfr_t exact_;
};

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

TEST_F(StatedErrors, OfTheTangent) {
  std::uniform_real_distribution<double> large(0, 0x1p20), small(0, 2), size(-27, 0);
  double largest = 0;
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
      largest = std::max(largest, relative_error(t, exact_));
    }
  }
  EXPECT_LT(largest, Tangent::kError / 4);
  EXPECT_GT(largest, 0x1p-100);
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
  EXPECT_LT(largest, Angle::kError / 4);
  EXPECT_GT(largest, 0x1p-100);
}

// ---- results

TEST(QuickPower, EqualsIntegers) {
  std::mt19937_64 engine(2);
  std::uniform_real_distribution<double> base(0, 3), exponent(-20, 20), size(-110, 10), away(-53, -3);
  Count everyday, others;
  for (int i = 0; i < 40000; ++i) {
    compare_power(everyday, base(engine), exponent(engine));
    compare_power(everyday, std::exp2(size(engine) / 4), exponent(engine));
    compare_power(others, std::exp2(size(engine)), exponent(engine));
    compare_power(others, any_positive(engine), exponent(engine) * std::exp2(size(engine)));
    compare_power(others, any_positive(engine), exponent(engine) / 10);
    const double x = 1 + std::exp2(away(engine)) * (i % 2 == 0 ? 1 : -0.5);
    if (x != 1) compare_power(others, x, exponent(engine) / (x - 1));
    compare_power(others, base(engine), exponent(engine) * 60);
  }
  EXPECT_LT(everyday.share(), 0.002);
  EXPECT_GT(everyday.left, 0);  // the error is not stated as nothing
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

// ---- decisions

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
