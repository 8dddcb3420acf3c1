// Every function against MPFR, which rounds correctly: ordinary and hostile arguments, each power next to a midpoint.
#include "contract/host_functions.h"

#include <gtest/gtest.h>
#if defined(__x86_64__)
#include <immintrin.h>
#endif
#include <mpfr.h>

#include <bit>
#include <cfenv>
#include <cmath>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "contract/host_inverse.h"
#include "contract/host_power.h"
#include "contract/mpfr_range.h"

namespace isobit::contract {
namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

// NaN has one pattern.
std::uint64_t bits(double value) { return std::bit_cast<std::uint64_t>(std::isnan(value) ? kNan : value); }

// 53 bits, subnormals rounded once.
template <class Function>
double by_mpfr(Function&& function) {
  const MpfrRange binary64(kLeastBinary64, kMostBinary64);
  mpfr_t y;
  mpfr_init2(y, 53);
  mpfr_subnormalize(y, function(y), MPFR_RNDN);
  const double result = mpfr_get_d(y, MPFR_RNDN);
  mpfr_clear(y);
  return result;
}

using Exact = int (*)(mpfr_t, const mpfr_t, mpfr_rnd_t);
double exact_value(Exact function, double argument) {
  mpfr_t x;
  mpfr_init2(x, 53);
  mpfr_set_d(x, argument, MPFR_RNDN);
  const double result = by_mpfr([&](mpfr_t y) { return function(y, x, MPFR_RNDN); });
  mpfr_clear(x);
  return result;
}

double exact_power(double base, double exponent) {
  mpfr_t x, e;
  mpfr_inits2(53, x, e, static_cast<mpfr_ptr>(nullptr));
  mpfr_set_d(x, base, MPFR_RNDN);
  mpfr_set_d(e, exponent, MPFR_RNDN);
  const double result = by_mpfr([&](mpfr_t y) { return mpfr_pow(y, x, e, MPFR_RNDN); });
  mpfr_clears(x, e, static_cast<mpfr_ptr>(nullptr));
  return result;
}

struct Function {
  const char* name;
  double (*ours)(double);
  Exact exact;
};
const Function kFunctions[] = {
    {"exp", exp_rounded, mpfr_exp},       {"exp2", exp2_rounded, mpfr_exp2}, {"expm1", expm1_rounded, mpfr_expm1},
    {"log", log_rounded, mpfr_log},       {"log2", log2_rounded, mpfr_log2}, {"log10", log10_rounded, mpfr_log10},
    {"log1p", log1p_rounded, mpfr_log1p}, {"sin", sin_rounded, mpfr_sin},    {"cos", cos_rounded, mpfr_cos},
    {"tan", tan_rounded, mpfr_tan},       {"sinh", sinh_rounded, mpfr_sinh}, {"cosh", cosh_rounded, mpfr_cosh},
    {"tanh", tanh_rounded, mpfr_tanh},    {"erf", erf_rounded, mpfr_erf},    {"atan", atan_rounded, mpfr_atan},
    {"asin", asin_rounded, mpfr_asin},    {"acos", acos_rounded, mpfr_acos}, {"cbrt", cbrt_rounded, mpfr_cbrt},
};

std::vector<double> arguments(int count, std::uint64_t seed) {
  std::vector<double> all{0.0,
                          -0.0,
                          1.0,
                          -1.0,
                          kInf,
                          -kInf,
                          kNan,
                          0x1p-1074,
                          0x1.fffffffffffffp1023,
                          0x1p-1022,
                          709.782712893384,
                          709.7827128933841,
                          -745.1332191019412,
                          -745.1332191019411,
                          710.475860073944,
                          1024.0,
                          -1074.0,
                          -1074.5,
                          -1075.0,
                          6.0,
                          5.921587195794508,
                          19.06,
                          20.0,
                          37.42994775023705,
                          0x1p-27,
                          0x1p-28,
                          0x1p-26,
                          0x1p-54,
                          0x1p-53,
                          -0x1p-54,
                          1 + 0x1p-52,
                          1 - 0x1p-53,
                          -1 + 0x1p-53,
                          0x1.921fb54442d18p+0,
                          0x1.921fb54442d18p+1,
                          0x1.6ac5b262ca1ffp+849,
                          0x1.6ac5b262ca1ffp+850};
  for (int n = -30; n < 310; ++n) all.push_back(std::pow(10.0, n));
  std::mt19937_64 engine(seed);
  std::uniform_real_distribution<double> everyday(-10, 10), large(-750, 750), size(-60, 12), turn(-100, 100);
  for (int i = 0; i < count; ++i) {
    all.push_back(everyday(engine));
    all.push_back(large(engine));
    all.push_back(std::exp2(size(engine)) * (i % 2 == 0 ? 1 : -1));
    all.push_back(1 + std::exp2(size(engine) - 12));
    all.push_back(std::bit_cast<double>(engine()));                               // any pattern
    all.push_back(std::round(turn(engine) * turn(engine)) * 1.5707963267948966);  // next to zeros of sine and cosine
    all.push_back(std::round(large(engine)) + std::exp2(size(engine) - 20));      // next to integers
  }
  return all;
}

// The same function without its first phase, which is not tried in another rounding mode (quick_pairs.h).
double by_integers(auto* function, auto... x) {
  std::fesetround(FE_UPWARD);
  const double result = function(x...);
  std::fesetround(FE_TONEAREST);
  return result;
}

TEST(HostFunctions, EqualMpfr) {
  for (const Function& function : kFunctions) {
    for (double x : arguments(600, 3)) {
      const std::uint64_t exact = bits(exact_value(function.exact, x));
      ASSERT_EQ(bits(function.ours(x)), exact) << function.name << "(" << std::hexfloat << x << ")";
      ASSERT_EQ(bits(by_integers(function.ours, x)), exact) << function.name << "(" << std::hexfloat << x << ")";
    }
  }
}

TEST(HostFunctions, AngleOfTwoNumbersEqualsMpfr) {
  const auto exact = [](double y, double x) {
    mpfr_t a, b;
    mpfr_inits2(53, a, b, static_cast<mpfr_ptr>(nullptr));
    mpfr_set_d(a, y, MPFR_RNDN);
    mpfr_set_d(b, x, MPFR_RNDN);
    const double result = by_mpfr([&](mpfr_t r) { return mpfr_atan2(r, a, b, MPFR_RNDN); });
    mpfr_clears(a, b, static_cast<mpfr_ptr>(nullptr));
    return result;
  };
  const auto compare = [&](double y, double x) {
    const std::uint64_t expected = bits(exact(y, x));
    ASSERT_EQ(bits(atan2_rounded(y, x)), expected) << std::hexfloat << y << " " << x;
    ASSERT_EQ(bits(by_integers(atan2_rounded, y, x)), expected) << std::hexfloat << y << " " << x;
  };
  const double hostile[] = {0.0,     -0.0,     1.0,       -1.0,      3.0,        0.5,         kInf,
                            -kInf,   kNan,     0x1p-1074, 0x3p-1074, -0x1p-1022, 0x1.8p-1022, 0x1.fffffffffffffp1023,
                            0x1p-60, 0x1.8p64, 0x1p65,    0x1p66,    -0x1p-66,   1 + 0x1p-52, 0x1p53 - 1};
  for (const double y : hostile) {
    for (const double x : hostile) compare(y, x);
  }
  std::mt19937_64 engine(6);
  std::uniform_real_distribution<double> everyday(-10, 10), size(-80, 80);
  for (int i = 0; i < 1000; ++i) {
    compare(everyday(engine), everyday(engine));
    compare(everyday(engine) * std::exp2(size(engine)), everyday(engine));
    compare(std::bit_cast<double>(engine()), std::bit_cast<double>(engine()));
    compare(std::ldexp(std::round(everyday(engine)), -1070 + i % 8),
            std::ldexp(1.0 + (i % 5), i % 3));  // exact quotients
    compare(std::ldexp(1.0 + std::exp2(-i % 54), -90), std::ldexp(1.0, i % 40));
  }
}

TEST(HostFunctions, CubeRootsOfCubesAreExact) {
  for (std::uint64_t n = 1; n < 200000; n = n * 3 / 2 + 1) {
    const double cube = static_cast<double>(n * n * n);
    if (n < 131072) {
      EXPECT_EQ(cbrt_rounded(-cube), -static_cast<double>(n));
    }
    EXPECT_EQ(cbrt_rounded(std::ldexp(cube, -900)), cbrt_rounded(cube) * 0x1p-300);
  }
}

TEST(HostFunctions, EqualTheContractsEarlierOnes) {
  std::mt19937_64 engine(5);
  std::uniform_real_distribution<double> angle(-100, 100), base(0, 2);
  for (int i = 0; i < 2000; ++i) {
    const double x = angle(engine), b = base(engine);
    const std::uint64_t n = engine() % 3000;
    ASSERT_EQ(bits(cos_rounded(x)), bits(cosine_rounded(x))) << x;
    ASSERT_EQ(bits(pow_rounded(b, static_cast<double>(n))), bits(power_rounded(b, n))) << b << "^" << n;
  }
}

// 512 and 1024 bits are seldom asked for: all widths give one value.
TEST(HostFunctions, WidthsAgree) {
  std::mt19937_64 engine(6);
  std::uniform_real_distribution<double> base(0, 3), exponent(0.01, 40);
  for (int i = 0; i < 100; ++i) {
    const double x = base(engine);
    const host::Decoded y = host::decode(exponent(engine));
    for (bool reciprocal : {false, true}) {
      double narrow = 0, middle = 0, wide = 0;
      ASSERT_TRUE(host::try_general_power<5>(x, y, reciprocal, narrow));
      ASSERT_TRUE(host::try_general_power<9>(x, y, reciprocal, middle));
      ASSERT_TRUE(host::try_general_power<17>(x, y, reciprocal, wide));
      ASSERT_EQ(bits(narrow), bits(middle));
      ASSERT_EQ(bits(narrow), bits(wide));
    }
  }
  // 1 + 2^-300, where 256 bits see the 1 alone, and a number whose value they cannot tell from a midpoint.
  double out = 0;
  host::Fixed<5> near_midpoint = host::whole<5>(1);
  near_midpoint.word[3] = 0x800ull;  // 2^-53: half of the last place of 1
  EXPECT_FALSE(host::round_fixed(near_midpoint, 20, 0, out));
  EXPECT_TRUE(host::round_fixed(host::add(near_midpoint, host::fixed<5>(1, -200)), 20, 0, out));
  EXPECT_EQ(out, 1 + 0x1p-52);
}

TEST(HostConstants, EqualMpfr) {
  mpfr_t exact;
  mpfr_init2(exact, 3000);
  const auto check = [&](const std::uint64_t* words, int count, const char* name, int bits) {
    mpz_t integer;
    mpz_init(integer);
    mpfr_t mine;
    mpfr_init2(mine, 3000);
    mpz_import(integer, static_cast<std::size_t>(count), -1, 8, 0, 0, words);
    mpfr_set_z_2exp(mine, integer, mpfr_exp_t{-64} * (count - 1), MPFR_RNDN);
    mpfr_sub(mine, mine, exact, MPFR_RNDN);
    EXPECT_TRUE(mpfr_zero_p(mine) || mpfr_get_exp(mine) <= bits - 64 * (count - 1)) << name;
    mpfr_clear(mine);
    mpz_clear(integer);
  };
  mpfr_const_log2(exact, MPFR_RNDN);
  check(host::ln2<5>().word, 5, "ln 2", 4);
  check(host::ln2<17>().word, 17, "ln 2", 4);
  mpfr_const_pi(exact, MPFR_RNDN);
  mpfr_div_2ui(exact, exact, 1, MPFR_RNDN);
  check(host::pi_constants().half_pi.word, host::kPiWords, "pi / 2", 10);
  mpfr_ui_div(exact, 1, exact, MPFR_RNDN);
  check(host::pi_constants().two_over_pi.word, host::kPiWords, "2 / pi", 10);
  mpfr_const_pi(exact, MPFR_RNDN);
  mpfr_rec_sqrt(exact, exact, MPFR_RNDN);
  mpfr_mul_2ui(exact, exact, 1, MPFR_RNDN);
  check(host::two_over_root_pi<5>().word, 5, "2 / sqrt(pi)", 6);
  check(host::two_over_root_pi<17>().word, 17, "2 / sqrt(pi)", 6);
  mpfr_clear(exact);
}

void expect_power(double x, double y) {
  const std::uint64_t exact = bits(exact_power(x, y));
  EXPECT_EQ(bits(pow_rounded(x, y)), exact) << std::hexfloat << x << " ** " << y;
  EXPECT_EQ(bits(by_integers(pow_rounded, x, y)), exact) << std::hexfloat << x << " ** " << y;
}

TEST(HostPower, EqualsMpfr) {
  std::mt19937_64 engine(7);
  std::uniform_real_distribution<double> beta(0.5, 1.1), exponent(-50, 50), large(-1000, 1000), size(-60, 12);
  for (int i = 0; i < 1500; ++i) {
    expect_power(beta(engine), exponent(engine));
    expect_power(beta(engine), -static_cast<double>(engine() % 5000));
    expect_power(static_cast<double>(engine() % 100000), -0.8);          // Adafactor
    expect_power(0.96, static_cast<double>(engine() % 100000) * 0.004);  // NAdam
    expect_power(std::exp2(large(engine)), std::exp2(size(engine)));
    expect_power(1 + std::exp2(-50 + exponent(engine) / 10), large(engine) * 0x1p40);
    expect_power(std::bit_cast<double>(engine()), std::bit_cast<double>(engine()));  // any patterns
    expect_power(std::bit_cast<double>(engine() >> 1), static_cast<double>(engine() % 9) / 8 - 0.5);
    expect_power(-beta(engine), std::round(large(engine)));
  }
}

TEST(HostPower, ExactValuesMidpointsAndTheirNeighbours) {
  std::mt19937_64 engine(8);
  for (int i = 0; i < 400; ++i) {
    const double root = static_cast<double>(engine() % (1 << 12) + 1),
                 half = static_cast<double>((engine() >> 38) * 2 + 1);
    for (double exponent : {0.5, 0.25, 0.75, 1.5, 2.5, 0.125, 3.0, -0.5, -1.5, -2.0}) {
      for (double x : {root * root * root * root, std::ldexp(root * root, -40), half * half, root}) {
        expect_power(x, exponent);
        expect_power(std::nextafter(x, 0), exponent);
        expect_power(std::nextafter(x, kInf), exponent);
      }
    }
  }
  for (int e = -1074; e < 1024; e += 7) {  // powers of two: exact, irrational, beyond the range
    for (double exponent : {0.5, -0.5, 0.25, -1.0, -2.0, 3.0, 1.0 / 3, 1.5, 0x1p-10, -0x1p-10})
      expect_power(std::ldexp(1.0, e), exponent);
  }
}

TEST(HostPower, SpecialValuesAreThoseOfC) {
  const double values[] = {0.0,
                           -0.0,
                           0.5,
                           -0.5,
                           1.0,
                           -1.0,
                           2.0,
                           -2.0,
                           3.0,
                           -3.0,
                           2.5,
                           -2.5,
                           0x1p-1074,
                           -0x1p-1074,
                           0x1p60,
                           0x1p64,
                           -0x1p64,
                           1 + 0x1p-52,
                           1 - 0x1p-53,
                           0x1p-70,
                           0x1.fffffffffffffp1023,
                           -0x1.fffffffffffffp1023,
                           0x1p-1022,
                           kInf,
                           -kInf,
                           kNan};
  for (double x : values) {
    for (double y : values) expect_power(x, y);
  }
}

TEST(HostPower, RootsAreIeee) {
  std::mt19937_64 engine(9);
  for (int i = 0; i < 20000; ++i) {
    const double x = std::bit_cast<double>(engine() >> 1);
    if (std::isfinite(x)) {
      ASSERT_EQ(bits(pow_rounded(x, 0.5)), bits(std::sqrt(x))) << std::hexfloat << x;
    }
  }
}

// Neither the rounding mode nor flush-to-zero takes part.
TEST(HostFunctions, IgnoreTheFloatingPointEnvironment) {
  const auto all = arguments(20, 11);
  std::vector<std::uint64_t> before, after;
  const auto compute = [&](std::vector<std::uint64_t>& out) {
    for (double x : all) {
      for (const Function& function : kFunctions) out.push_back(bits(function.ours(x)));
      out.push_back(bits(pow_rounded(x, 0.3)));
      out.push_back(bits(pow_rounded(0.999, x)));
    }
  };
  compute(before);
  for (int mode : {FE_UPWARD, FE_DOWNWARD, FE_TOWARDZERO}) {
    after.clear();
    std::fesetround(mode);
    compute(after);
    std::fesetround(FE_TONEAREST);
    EXPECT_EQ(after, before) << mode;
  }
#if defined(__x86_64__)
  after.clear();
  const unsigned control = _mm_getcsr();
  _mm_setcsr(control | 0x8040);  // flush to zero, subnormals are zero
  compute(after);
  _mm_setcsr(control);
  EXPECT_EQ(after, before);
#endif
}

}  // namespace
}  // namespace isobit::contract
