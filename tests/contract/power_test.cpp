// Powers against MPFR, on ordinary and hostile arguments, and C's special values to the letter.
#include "contract/functions_power.h"

#include <gtest/gtest.h>
#include <mpfr.h>

#include <bit>
#include <cmath>
#include <limits>

#include "contract/philox.h"

namespace isobit::contract {
namespace {

constexpr double kBound = 0.500001;  // ulp
constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr float kQuiet = std::numeric_limits<float>::quiet_NaN();

using Formula = float (*)(float, float);

// |got - x^y| in units of the exact result's binade; 0 where both overflow.
class PowerError {
 public:
  PowerError() { mpfr_inits2(120, x_, y_, exact_, difference_, nullptr); }
  ~PowerError() { mpfr_clears(x_, y_, exact_, difference_, nullptr); }
  PowerError(const PowerError&) = delete;
  PowerError& operator=(const PowerError&) = delete;

  double ulps(float got, float x, float y) {
    mpfr_set_flt(x_, x, MPFR_RNDN);
    mpfr_set_flt(y_, y, MPFR_RNDN);
    mpfr_pow(exact_, x_, y_, MPFR_RNDN);
    constexpr double kWrong = std::numeric_limits<double>::infinity();
    if (mpfr_nan_p(exact_)) return std::isnan(got) ? 0.0 : kWrong;
    if (std::isnan(got)) return kWrong;
    if (std::isinf(got) || mpfr_inf_p(exact_)) {  // overflow from the largest float and a half of its last place on
      return got == mpfr_get_flt(exact_, MPFR_RNDN) ? 0.0 : kWrong;
    }
    if (std::signbit(got) != (mpfr_signbit(exact_) != 0)) return kWrong;
    const mpfr_exp_t place = std::max<mpfr_exp_t>(mpfr_zero_p(exact_) ? -200 : mpfr_get_exp(exact_) - 24, -149);
    mpfr_set_flt(difference_, got, MPFR_RNDN);
    mpfr_sub(difference_, difference_, exact_, MPFR_RNDN);
    mpfr_mul_2si(difference_, difference_, -place, MPFR_RNDN);
    return std::fabs(mpfr_get_d(difference_, MPFR_RNDN));
  }

 private:
  mpfr_t x_, y_, exact_, difference_;
};

float uniform(std::uint32_t word, float low, float high) {
  return low + (high - low) * (static_cast<float>(word >> 8) * 0x1p-24f);
}

// Pairs whose powers lie all over binary32: draw x and the logarithm of the result.
struct Pair {
  float x, y;
};
Pair draw(std::uint64_t i) {
  const PhiloxBlock block = random_block(77, i);
  const std::uint32_t sign = block.word[3] % 8 == 0 ? 0x80000000u : 0u;
  switch (i % 4) {
    case 0: {  // any x but NaN; the result from far below to far above what binary32 holds
      const float x = float_of(block.word[0] % 0x7f800000u);
      const double y = uniform(block.word[1], -155.0f, 132.0f) / std::log2(static_cast<double>(x));
      return {x, std::isfinite(y) ? static_cast<float>(y) : 3.5f};
    }
    case 1: {  // x next to 1, enormous y
      const float x = float_of(0x3f800000u - 40 + block.word[0] % 80);
      return {x, uniform(block.word[1], -1.5e9f, 1.5e9f)};
    }
    case 2:  // what networks raise to powers; integers among the exponents
      return {float_of(as_int(uniform(block.word[0], 0.0f, 30.0f)) | sign),
              block.word[2] % 2 == 0 ? uniform(block.word[1], -8.0f, 8.0f)
                                     : std::round(uniform(block.word[1], -20.0f, 20.0f))};
    default:  // any two patterns
      return {float_of(block.word[0]), float_of(block.word[1])};
  }
}

struct Worst {
  double error = 0;
  Pair at{};
};
Worst worst_of(Formula formula, std::uint64_t count) {
  PowerError meter;
  Worst worst;
  for (std::uint64_t i = 0; i < count; ++i) {
    const Pair pair = draw(i);
    const double error = meter.ulps(formula(pair.x, pair.y), pair.x, pair.y);
    if (error > worst.error) worst = {error, pair};
  }
  return worst;
}

TEST(Power, IsRoundedNearlyCorrectly) {
  const Worst worst = worst_of([](float x, float y) { return power(x, y); }, 400000);
  EXPECT_LE(worst.error, kBound) << std::hexfloat << worst.at.x << " to the power " << worst.at.y;
  EXPECT_GT(worst.error, 0.49);
}

TEST(Power, ALesserFormulaWouldBeSeen) {
  const Formula binary32 = [](float x, float y) {
    return x > 0 && std::isfinite(x) && std::isfinite(y) ? std::exp2(y * std::log2(x)) : power(x, y);
  };
  EXPECT_GT(worst_of(binary32, 4000).error, 2.0);
}

// Everything that is neither a number nor a zero must agree with C to the sign, the rest within the bound.
TEST(Power, HasTheSpecialValuesOfC) {
  const float values[] = {0.0f,
                          1.0f,
                          2.0f,
                          3.0f,
                          0.5f,
                          1.5f,
                          0x1p-149f,
                          0x1.fffffcp-127f,
                          0x1p24f,
                          16777213.0f,
                          0x1p23f + 1,
                          0x1p25f,
                          0x1.fffffep127f,
                          kInf,
                          0x1.fffffep-1f,
                          0x1.000002p0f};
  PowerError meter;
  for (const float a : values) {
    for (const float b : values) {
      for (const float x : {a, -a}) {
        for (const float y : {b, -b}) {
          const float got = power(x, y);
          EXPECT_LE(meter.ulps(got, x, y), kBound) << std::hexfloat << x << " to the power " << y << " gave " << got;
        }
      }
    }
  }
  EXPECT_EQ(power(kQuiet, 0.0f), 1.0f);
  EXPECT_EQ(power(kQuiet, -0.0f), 1.0f);
  EXPECT_EQ(power(1.0f, kQuiet), 1.0f);
  EXPECT_EQ(bits_of(power(kQuiet, 1.0f)), 0x7fc00000u);
  EXPECT_EQ(bits_of(power(2.0f, kQuiet)), 0x7fc00000u);
  EXPECT_EQ(bits_of(power(-8.0f, 0x1.555556p-2f)), 0x7fc00000u);
  EXPECT_EQ(bits_of(power(-0.0f, 3.0f)), 0x80000000u);
  EXPECT_EQ(power(-0.0f, -3.0f), -kInf);
  EXPECT_EQ(power(-0.0f, -2.0f), kInf);
  EXPECT_EQ(power(-1.0f, kInf), 1.0f);
  EXPECT_EQ(power(-kInf, -3.0f), 0.0f);
  EXPECT_TRUE(std::signbit(power(-kInf, -3.0f)));
}

TEST(Power, IsExactWhereTheResultIsAFloat) {
  for (int n = -149; n <= 127; ++n) EXPECT_EQ(power(2.0f, static_cast<float>(n)), std::ldexp(1.0f, n)) << n;
  for (int i = 1; i < 4096; ++i) {
    const auto x = static_cast<float>(i);
    EXPECT_EQ(power(x, 1.0f), x);
    EXPECT_EQ(power(x, 2.0f), x * x);
    EXPECT_EQ(power(x * x, 0.5f), x);
  }
}

}  // namespace
}  // namespace isobit::contract
