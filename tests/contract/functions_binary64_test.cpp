// The elementary functions on binary64 against MPFR: each function's bound over ordinary and hostile arguments, special
// values, signs of zero.
#include "contract/functions_binary64.h"

#include <gtest/gtest.h>
#include <mpfr.h>

#include <bit>
#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "contract/philox.h"

namespace isobit::contract {
namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();
constexpr double kQuiet = std::numeric_limits<double>::quiet_NaN();

// |got - exact| in units of the exact result's binade; infinite where one is NaN or infinite and the other is not.
double ulps(double got, mpfr_t exact) {
  if (mpfr_nan_p(exact)) return std::isnan(got) ? 0.0 : kInf;
  if (std::isnan(got)) return kInf;
  if (std::isinf(got) || mpfr_inf_p(exact)) return got == mpfr_get_d(exact, MPFR_RNDN) ? 0.0 : kInf;
  if (got != 0.0 && std::signbit(got) != (mpfr_signbit(exact) != 0)) return kInf;
  const mpfr_exp_t place = std::max<mpfr_exp_t>(mpfr_zero_p(exact) ? -1200 : mpfr_get_exp(exact) - 53, -1074);
  mpfr_t difference;
  mpfr_init2(difference, 300);
  mpfr_set_d(difference, got, MPFR_RNDN);
  mpfr_sub(difference, difference, exact, MPFR_RNDN);
  mpfr_mul_2si(difference, difference, -place, MPFR_RNDN);
  const double error = std::fabs(mpfr_get_d(difference, MPFR_RNDN));
  mpfr_clear(difference);
  return error;
}

int exact_sigmoid(mpfr_t y, const mpfr_t x, mpfr_rnd_t round) {
  mpfr_neg(y, x, round);
  mpfr_exp(y, y, round);
  mpfr_add_ui(y, y, 1, round);
  return mpfr_ui_div(y, 1, y, round);
}
int exact_sinpi(mpfr_t y, const mpfr_t x, mpfr_rnd_t round) { return mpfr_sinu(y, x, 2, round); }
int exact_cospi(mpfr_t y, const mpfr_t x, mpfr_rnd_t round) { return mpfr_cosu(y, x, 2, round); }

struct Function {
  const char* name;
  double (*formula)(double);
  int (*exact)(mpfr_t, const mpfr_t, mpfr_rnd_t);
  double bound;  // ulp
};
const Function kFunctions[] = {
    {"exp", exp, mpfr_exp, 1.0},
    {"expm1", expm1, mpfr_expm1, 1.0},
    {"log", log, mpfr_log, 1.0},
    {"log1p", log1p, mpfr_log1p, 1.0},
    {"tanh", tanh, mpfr_tanh, 2.0},
    {"erf", erf, mpfr_erf, 1.3},
    {"sin", sin, mpfr_sin, 1.0},
    {"cos", cos, mpfr_cos, 1.0},
    {"sinpi", sinpi, exact_sinpi, 1.0},
    {"cospi", cospi, exact_cospi, 1.0},
    {"sigmoid", sigmoid, exact_sigmoid, 2.1},
};

// Any pattern, numbers of everyday size, numbers next to where formulas change, both signs.
std::vector<double> arguments(int count) {
  std::vector<double> all{0.0, 0x1p-1074, 0x1p-1022, 0x1p-28, 0x1p-54, 0x1.fffffffffffffp1023,
                          1e6, 0x1p51,    0x1p53,    kInf};
  for (const double around : {0x1p-54, 0x1p-28, 0.3465735902799727, 0.5, 0.41421356237309505, 1.0, 1.25, 1.5, 2.0, 6.0,
                              22.0, 40.0, 709.782712893384, 745.1332191019411, 1.5707963267948966, 3.141592653589793,
                              0x1p20, 1048575.999, 0.7071067811865476}) {
    for (std::int64_t k = -20; k <= 20; ++k) {
      all.push_back(std::bit_cast<double>(std::bit_cast<std::int64_t>(around) + k));
    }
  }
  // Next to multiples of pi / 2: what is left of x is smallest there.
  for (int n = 1; n < 600000; n += 1997) all.push_back(n * 1.5707963267948966);
  for (int i = 0; i < count; ++i) {
    const PhiloxBlock b = random_block(79, static_cast<std::uint64_t>(i));
    const std::uint64_t word = (static_cast<std::uint64_t>(b.word[1]) << 32 | b.word[0]) & ~(1ull << 63);
    all.push_back(std::bit_cast<double>(word));
    for (const double scale : {1.0, 2.0, 30.0, 800.0, 1e6}) {
      all.push_back(scale * static_cast<double>(word >> 10) * 0x1p-53);
    }
  }
  const std::size_t half = all.size();
  for (std::size_t i = 0; i < half; ++i) all.push_back(-all[i]);
  return all;
}

double worst_of(const Function& f, const std::vector<double>& all, std::string& where) {
  double worst = 0;
  mpfr_t x, y;
  mpfr_init2(x, 53);
  mpfr_init2(y, 200);
  for (const double at : all) {
    if (at != at) continue;
    mpfr_set_d(x, at, MPFR_RNDN);
    f.exact(y, x, MPFR_RNDN);
    const double error = ulps(f.formula(at), y);
    if (error > worst) worst = error, where = std::string(f.name) + " of " + std::to_string(at);
  }
  mpfr_clears(x, y, nullptr);
  return worst;
}

TEST(FunctionsBinary64, StayWithinTheirBounds) {
  const std::vector<double> all = arguments(1500);
  for (const Function& f : kFunctions) {
    std::string where;
    const double worst = worst_of(f, all, where);
    EXPECT_LE(worst, f.bound) << where;
    EXPECT_GT(worst, 0.49) << f.name;
    RecordProperty(f.name, std::to_string(worst));
    EXPECT_EQ(std::bit_cast<std::uint64_t>(f.formula(kQuiet)), 0x7ff8000000000000u) << f.name;
  }
}

// The bound is narrow enough to see a formula of binary32's accuracy.
TEST(FunctionsBinary64, ABinary32FormulaWouldBeSeen) {
  std::string where;
  const Function rough{"exp", [](double x) { return static_cast<double>(std::exp(static_cast<float>(x))); }, mpfr_exp,
                       1};
  EXPECT_GT(worst_of(rough, arguments(20), where), 1e6);
}

TEST(FunctionsBinary64, SpecialValuesAndSignsOfZero) {
  using Formula = double (*)(double);
  for (const Formula f : std::initializer_list<Formula>{expm1, log1p, tanh, erf, sin, sinpi}) {
    EXPECT_EQ(std::bit_cast<std::uint64_t>(f(-0.0)), 1ull << 63);
    EXPECT_EQ(std::bit_cast<std::uint64_t>(f(0.0)), 0u);
  }
  EXPECT_EQ(exp(-kInf), 0.0);
  EXPECT_EQ(exp(1000.0), kInf);
  EXPECT_EQ(exp(-745.2), 0.0);
  EXPECT_EQ(exp(-745.1), 0x1p-1074);
  EXPECT_EQ(expm1(-kInf), -1.0);
  EXPECT_EQ(log(-0.0), -kInf);
  EXPECT_EQ(log1p(-1.0), -kInf);
  EXPECT_TRUE(std::isnan(log(-1.0)));
  EXPECT_TRUE(std::isnan(log1p(-1.5)));
  for (const Formula f : std::initializer_list<Formula>{sin, cos, sinpi, cospi}) EXPECT_TRUE(std::isnan(f(kInf)));
  // Integers, halves and numbers that are even.
  for (const double n : {1.0, 2.0, 3.0, 1e6, 0x1p50 + 1, 0x1p52 + 1, 0x1p53, 0x1p900}) {
    EXPECT_EQ(std::bit_cast<std::uint64_t>(sinpi(n)), 0u) << n;
    EXPECT_EQ(std::bit_cast<std::uint64_t>(sinpi(-n)), 1ull << 63) << n;
    EXPECT_EQ(cospi(n), std::fmod(n, 2.0) == 0.0 ? 1.0 : -1.0) << n;
  }
  for (const double half : {0.5, 1.5, 2.5, 0x1p51 + 0.5}) {
    EXPECT_EQ(std::bit_cast<std::uint64_t>(cospi(half)), 0u) << half;
    EXPECT_EQ(sinpi(half), std::fmod(half, 2.0) == 0.5 ? 1.0 : -1.0) << half;
  }
}

// Where x is whole times k, next to it, and as close to the middle of two quotients as a number comes.
template <int k>
void expect_quotients() {
  std::uint64_t bits = static_cast<std::uint64_t>(k) * 0x9e3779b97f4a7c15u;
  for (int i = 0; i < 60'000; ++i) {
    bits = bits * 6364136223846793005u + 1442695040888963407u;
    const double m = std::bit_cast<double>((bits >> 12) | 1023ull << 52);
    const double middle = std::fma(m, k, std::nextafter(m, 3.0) * k) * 0.5;
    for (const double x : {m, m * k, middle, std::nextafter(middle, 0.0), std::nextafter(middle, 1e9), m * 0x1p-890}) {
      for (const double signed_x : {x, -x})
        ASSERT_EQ(binary64::divided_by_products<k>(signed_x), signed_x / k) << signed_x << " by " << k;
    }
  }
  EXPECT_EQ(binary64::divided_by_products<k>(0.0), 0.0);
}
TEST(FunctionsBinary64, QuotientsByWholeNumbersAreRounded) {
  binary64::descending<24, 1, 1>([](auto k) { expect_quotients<k>(); });
  binary64::descending<19, 4, 1>([](auto k) { expect_quotients<k*(k + 1)>(); });
  expect_quotients<511>();
}

}  // namespace
}  // namespace isobit::contract
