// Elementary functions against MPFR on a sample of all inputs, special values to the letter, symmetry.
// The proof over all 2^32 inputs is scripts/prove-functions.
#include "contract/functions.h"

#include <gtest/gtest.h>
#include <mpfr.h>

#include <bit>
#include <cmath>
#include <limits>
#include <string>

namespace isobit::contract {
namespace {

constexpr double kBound = 1.5;  // ulp; docs/contract.md, section 2
constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr float kQuiet = std::numeric_limits<float>::quiet_NaN();

std::uint32_t bits(float value) { return std::bit_cast<std::uint32_t>(value); }

// y = f(x) to MPFR's precision (96 bits).
using Exact = void (*)(mpfr_t y, const mpfr_t x);
struct Function {
  const char* name;
  float (*formula)(float);
  Exact exact;
};

void exact_sigmoid(mpfr_t y, const mpfr_t x) {
  mpfr_neg(y, x, MPFR_RNDN);
  mpfr_exp(y, y, MPFR_RNDN);
  mpfr_add_ui(y, y, 1, MPFR_RNDN);
  mpfr_ui_div(y, 1, y, MPFR_RNDN);
}

#define FORMULA(name) [](float x) { return name(x); }
#define MPFR(name) [](mpfr_t y, const mpfr_t x) { name(y, x, MPFR_RNDN); }
const Function kFunctions[] = {
    {"exp", FORMULA(exp), MPFR(mpfr_exp)},       {"expm1", FORMULA(expm1), MPFR(mpfr_expm1)},
    {"log", FORMULA(log), MPFR(mpfr_log)},       {"log1p", FORMULA(log1p), MPFR(mpfr_log1p)},
    {"tanh", FORMULA(tanh), MPFR(mpfr_tanh)},    {"sigmoid", FORMULA(sigmoid), exact_sigmoid},
    {"erf", FORMULA(erf), MPFR(mpfr_erf)},       {"sin", FORMULA(sin), MPFR(mpfr_sin)},
    {"cos", FORMULA(cos), MPFR(mpfr_cos)},       {"sinpi", FORMULA(sinpi), MPFR(mpfr_sinpi)},
    {"cospi", FORMULA(cospi), MPFR(mpfr_cospi)}, {"rsqrt", FORMULA(rsqrt), MPFR(mpfr_rec_sqrt)},
};
#undef FORMULA
#undef MPFR

// |got - exact| in units of the binade of the exact value (2^-149 below 2^-126); an infinity stands for
// 2^128. Where the exact value is NaN, infinite or zero, 0 if got is too, else infinite.
class ErrorMeter {
 public:
  ErrorMeter() { mpfr_inits2(96, x_, y_, difference_, nullptr); }
  ~ErrorMeter() { mpfr_clears(x_, y_, difference_, nullptr); }
  ErrorMeter(const ErrorMeter&) = delete;
  ErrorMeter& operator=(const ErrorMeter&) = delete;

  double ulps(float got, float x, Exact exact) {
    mpfr_set_flt(x_, x, MPFR_RNDN);
    exact(y_, x_);
    constexpr double kWrong = std::numeric_limits<double>::infinity();
    if (mpfr_nan_p(y_)) return std::isnan(got) ? 0.0 : kWrong;
    if (mpfr_inf_p(y_)) return got == mpfr_get_flt(y_, MPFR_RNDN) ? 0.0 : kWrong;
    if (mpfr_zero_p(y_)) return got == 0.0f ? 0.0 : kWrong;
    if (std::isnan(got)) return kWrong;
    if (std::isinf(got))
      mpfr_set_si_2exp(difference_, got > 0 ? 1 : -1, 128, MPFR_RNDN);
    else
      mpfr_set_flt(difference_, got, MPFR_RNDN);
    const mpfr_exp_t place = std::max<mpfr_exp_t>(mpfr_get_exp(y_) - 24, -149);
    if (std::isinf(got) && mpfr_get_exp(y_) > 128) return 0.0;  // overflows; the sign is tested elsewhere
    mpfr_sub(difference_, difference_, y_, MPFR_RNDN);
    mpfr_mul_2si(difference_, difference_, -place, MPFR_RNDN);
    return std::fabs(mpfr_get_d(difference_, MPFR_RNDN));
  }

 private:
  mpfr_t x_, y_, difference_;
};

double worst_of(const Function& f, std::uint64_t first, std::uint64_t last, std::uint64_t stride, float* where) {
  ErrorMeter meter;
  double worst = 0.0;
  for (std::uint64_t pattern = first; pattern < last; pattern += stride) {
    const float x = std::bit_cast<float>(static_cast<std::uint32_t>(pattern));
    const double error = meter.ulps(f.formula(x), x, f.exact);
    if (error > worst) worst = error, *where = x;
  }
  return worst;
}

TEST(Functions, AreWithinTheBoundOnASampleOfAllInputs) {
  for (const Function& f : kFunctions) {
    float where = 0.0f;
    const double worst = worst_of(f, 0, 1ull << 32, 104729, &where);
    EXPECT_LE(worst, kBound) << f.name << "(" << std::hexfloat << where << ")";
    ::testing::Test::RecordProperty(std::string(f.name) + "_max_ulp", std::to_string(worst));
  }
}

TEST(Functions, AreWithinTheBoundWhereNetworksLive) {  // 2^-8 .. 2^7, both signs
  for (const Function& f : kFunctions) {
    for (const std::uint64_t sign : {0ull, 1ull << 31}) {
      float where = 0.0f;
      const double worst = worst_of(f, sign + bits(0x1p-8f), sign + bits(0x1p7f), 5003, &where);
      EXPECT_LE(worst, kBound) << f.name << "(" << std::hexfloat << where << ")";
    }
  }
}

// Floats next to multiples of pi/2, where a poor reduction loses all digits, small and huge.
TEST(Functions, SineAndCosineNextToTheirZeros) {
  ErrorMeter meter;
  const Function &sine = kFunctions[7], &cosine = kFunctions[8];
  for (int k = 1; k < 3000; ++k) {
    for (const double scale : {1.0, 27.0, 4099.0, 1e7, 1e15, 1e30}) {
      const float near = static_cast<float>(k * scale * 1.57079632679489661923);
      for (const float x : {near, std::nextafter(near, 0.0f), -std::nextafter(near, kInf)}) {
        ASSERT_LE(meter.ulps(sin(x), x, sine.exact), kBound) << std::hexfloat << x;
        ASSERT_LE(meter.ulps(cos(x), x, cosine.exact), kBound) << std::hexfloat << x;
      }
    }
  }
  // The float nearest to a multiple of pi/2 (1.6e-9 away: checked with mpmath) and the largest.
  for (const float x : {16367173.0f * 0x1p72f, std::numeric_limits<float>::max()}) {
    EXPECT_LE(meter.ulps(cos(x), x, cosine.exact), kBound);
    EXPECT_LE(meter.ulps(sin(x), x, sine.exact), kBound);
  }
}

struct Special {
  float (*formula)(float);
  float x, y;
};

TEST(Functions, SpecialValues) {
#define CASE(name, x, y)                  \
  {                                       \
    [](float v) { return name(v); }, x, y \
  }
  const Special cases[] = {
      CASE(exp, -kInf, 0.0f),
      CASE(exp, kInf, kInf),
      CASE(exp, 0.0f, 1.0f),
      CASE(exp, -0.0f, 1.0f),
      CASE(exp, 89.0f, kInf),
      CASE(exp, -104.0f, 0.0f),
      CASE(exp, -103.5f, 0x1p-149f),
      CASE(exp, 3e38f, kInf),
      CASE(exp, -3e38f, 0.0f),
      CASE(expm1, -kInf, -1.0f),
      CASE(expm1, kInf, kInf),
      CASE(expm1, 0.0f, 0.0f),
      CASE(expm1, -0.0f, -0.0f),
      CASE(expm1, 0x1p-149f, 0x1p-149f),
      CASE(expm1, -3e38f, -1.0f),
      CASE(log, 0.0f, -kInf),
      CASE(log, -0.0f, -kInf),
      CASE(log, kInf, kInf),
      CASE(log, -1.0f, kQuiet),
      CASE(log, -kInf, kQuiet),
      CASE(log, 1.0f, 0.0f),
      CASE(log, -0x1p-149f, kQuiet),
      CASE(log1p, -1.0f, -kInf),
      CASE(log1p, kInf, kInf),
      CASE(log1p, -2.0f, kQuiet),
      CASE(log1p, -kInf, kQuiet),
      CASE(log1p, 0.0f, 0.0f),
      CASE(log1p, -0.0f, -0.0f),
      CASE(log1p, -0x1p-149f, -0x1p-149f),
      CASE(tanh, kInf, 1.0f),
      CASE(tanh, -kInf, -1.0f),
      CASE(tanh, -0.0f, -0.0f),
      CASE(tanh, 0x1p-149f, 0x1p-149f),
      CASE(sigmoid, kInf, 1.0f),
      CASE(sigmoid, -kInf, 0.0f),
      CASE(sigmoid, 0.0f, 0.5f),
      CASE(sigmoid, -0.0f, 0.5f),
      CASE(sigmoid, -103.5f, 0x1p-149f),
      CASE(erf, kInf, 1.0f),
      CASE(erf, -kInf, -1.0f),
      CASE(erf, -0.0f, -0.0f),
      CASE(sin, kInf, kQuiet),
      CASE(sin, -0.0f, -0.0f),
      CASE(sin, 0x1p-149f, 0x1p-149f),
      CASE(cos, -kInf, kQuiet),
      CASE(cos, 0.0f, 1.0f),
      CASE(sinpi, kInf, kQuiet),
      CASE(sinpi, 1.0f, 0.0f),
      CASE(sinpi, -1.0f, -0.0f),
      CASE(sinpi, 2.0f, 0.0f),
      CASE(sinpi, -0.0f, -0.0f),
      CASE(sinpi, 3e38f, 0.0f),
      CASE(sinpi, 0.5f, 1.0f),
      CASE(sinpi, 1.5f, -1.0f),
      CASE(sinpi, 8388609.0f, 0.0f),
      CASE(cospi, kInf, kQuiet),
      CASE(cospi, 0.5f, 0.0f),
      CASE(cospi, -1.5f, 0.0f),
      CASE(cospi, 1.0f, -1.0f),
      CASE(cospi, 8388609.0f, -1.0f),
      CASE(cospi, 3e38f, 1.0f),
      CASE(rsqrt, 0.0f, kInf),
      CASE(rsqrt, -0.0f, -kInf),
      CASE(rsqrt, kInf, 0.0f),
      CASE(rsqrt, -1.0f, kQuiet),
  };
#undef CASE
  int index = 0;
  for (const Special& c : cases) {
    const float y = c.formula(c.x);
    EXPECT_TRUE(bits(y) == bits(c.y) || (std::isnan(y) && std::isnan(c.y)))
        << "case " << index << ": f(" << c.x << ") is " << y << ", not " << c.y;
    ++index;
  }
  for (const Function& f : kFunctions) {
    for (const std::uint32_t pattern : {0x7fc00000u, 0xffc00000u, 0x7f800001u, 0xffffffffu}) {
      EXPECT_TRUE(std::isnan(f.formula(std::bit_cast<float>(pattern)))) << f.name;
    }
  }
}

// exp with ln 2 in one part, and with one coefficient off by 2^-20: mistakes that the meter must see.
TEST(Functions, TheMeterSeesSmallMistakes) {
  const Function coarse{"coarse",
                        [](float x) {
                          const float n = std::nearbyint(x * 0x1.715476p0f);
                          const float r = x - n * 0x1.62e43p-1f;
                          return scale(1.0f + fma(r * r, exp_tail(r), r), static_cast<std::int32_t>(n), n);
                        },
                        kFunctions[0].exact};
  const Function off{"off",
                     [](float x) {
                       const ExpArgument<float> a = reduce_exp(x);
                       return scale(1.0f + fma(a.r * a.r, exp_tail(a.r) + 0x1p-20f, a.r), a.n, a.whole);
                     },
                     kFunctions[0].exact};
  float where = 0.0f;
  EXPECT_GT(worst_of(coarse, bits(1.0f), bits(80.0f), 5003, &where), kBound);
  EXPECT_GT(worst_of(off, bits(0x1p-4f), bits(80.0f), 5003, &where), kBound);
}

}  // namespace
}  // namespace isobit::contract
