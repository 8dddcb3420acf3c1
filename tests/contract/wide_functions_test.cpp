// The binary64 formulas of functions_wide.h against MPFR: the bound over ordinary and hostile arguments, C's special
// values.
#include "contract/functions_wide.h"

#include <gtest/gtest.h>
#include <mpfr.h>

#include <cmath>
#include <functional>
#include <limits>
#include <string>
#include <string_view>
#include <vector>

#include "contract/functions_normal.h"
#include "contract/philox.h"
#include "contract/special_exact.h"
#include "kernels/formulas/wide_formulas.h"

namespace isobit::contract {
namespace {

using kernels::WideUnary;

constexpr double kBound = 0.50001;  // ulp
constexpr float kQuiet = std::numeric_limits<float>::quiet_NaN();

// |got - exact| in units of the exact result's binade; infinite where one is NaN, or of another sign, and the other
// not.
double ulps(float got, mpfr_t exact) {
  constexpr double kWrong = std::numeric_limits<double>::infinity();
  if (mpfr_nan_p(exact)) return std::isnan(got) ? 0.0 : kWrong;
  if (std::isnan(got)) return kWrong;
  if (std::isinf(got) || mpfr_inf_p(exact)) return got == mpfr_get_flt(exact, MPFR_RNDN) ? 0.0 : kWrong;
  if (got != 0.0f && std::signbit(got) != (mpfr_signbit(exact) != 0)) return kWrong;
  const mpfr_exp_t place = std::max<mpfr_exp_t>(mpfr_zero_p(exact) ? -200 : mpfr_get_exp(exact) - 24, -149);
  mpfr_t difference;
  mpfr_init2(difference, 200);
  mpfr_set_flt(difference, got, MPFR_RNDN);
  mpfr_sub(difference, difference, exact, MPFR_RNDN);
  mpfr_mul_2si(difference, difference, -place, MPFR_RNDN);
  const double error = std::fabs(mpfr_get_d(difference, MPFR_RNDN));
  mpfr_clear(difference);
  return error;
}

using Formula = std::function<float(float)>;
using Exact = int (*)(mpfr_t, const mpfr_t, mpfr_rnd_t);
struct Function {
  std::string_view name;
  Formula formula;
  Exact exact;
};
int exact_logit(mpfr_t y, const mpfr_t x, mpfr_rnd_t round) {
  mpfr_t rest;
  mpfr_init2(rest, 400);
  mpfr_ui_sub(rest, 1, x, round);
  mpfr_div(rest, x, rest, round);
  const int kind = mpfr_log(y, rest, round);
  mpfr_clear(rest);
  return kind;
}
int exact_lgamma(mpfr_t y, const mpfr_t x, mpfr_rnd_t round) {
  int sign = 0;
  return mpfr_lgamma(y, &sign, x, round);
}
// MPFR's function of the same name. nullptr: made of binary32 functions (functions_test.cpp), without this bound.
Exact exact_of(WideUnary op) {
  switch (op) {
    case WideUnary::log2: return mpfr_log2;
    case WideUnary::log10: return mpfr_log10;
    case WideUnary::exp2: return mpfr_exp2;
    case WideUnary::sinh: return mpfr_sinh;
    case WideUnary::cosh: return mpfr_cosh;
    case WideUnary::tan: return mpfr_tan;
    case WideUnary::asin: return mpfr_asin;
    case WideUnary::acos: return mpfr_acos;
    case WideUnary::atan: return mpfr_atan;
    case WideUnary::asinh: return mpfr_asinh;
    case WideUnary::acosh: return mpfr_acosh;
    case WideUnary::atanh: return mpfr_atanh;
    case WideUnary::erfc: return mpfr_erfc;
    case WideUnary::erfinv: return exact_erfinv;
    case WideUnary::lgamma: return exact_lgamma;
    case WideUnary::digamma: return mpfr_digamma;
    case WideUnary::ndtri: return exact_ndtri;
    case WideUnary::log_ndtr: return exact_log_ndtr;
    case WideUnary::erfcx: return exact_erfcx;
    case WideUnary::i0: return exact_i0;
    case WideUnary::i0e: return exact_i0e;
    case WideUnary::i1: return exact_i1;
    case WideUnary::i1e: return exact_i1e;
    case WideUnary::trigamma: return exact_trigamma;
    case WideUnary::logit: return exact_logit;
    case WideUnary::sinc:
    case WideUnary::entropy: return nullptr;
  }
  return nullptr;
}

// Exact values that cost much time.
bool takes_long(WideUnary op) {
  const Exact exact = exact_of(op);
  return exact == mpfr_digamma || exact == exact_trigamma || exact == exact_i0 || exact == exact_i0e ||
         exact == exact_i1 || exact == exact_i1e || exact == exact_ndtri;
}

// Any pattern, numbers of everyday size, numbers next to where formulas change.
std::vector<float> arguments(int count) {
  std::vector<float> all{0.0f,  1.0f,  0.5f,  2.0f,  0x1p-9f,  0x1p-149f, 0x1p-126f, 0x1.fffffep127f,
                         27.0f, 10.0f, 90.0f, 89.0f, kInfinity};
  for (const float around : {1.0f, 0.5f, 2.0f, 0x1p-9f, 0.41421357f, 0x1p16f, 1.5707964f, 9.19f, 10.05f, 88.7f}) {
    for (int k = -20; k <= 20; ++k) all.push_back(float_of(bits_of(around) + static_cast<std::uint32_t>(k)));
  }
  for (int i = 0; i < count; ++i) {
    const PhiloxBlock block = random_block(78, static_cast<std::uint64_t>(i));
    all.push_back(float_of(block.word[0] & 0x7fffffffu));
    all.push_back(static_cast<float>(block.word[1] >> 8) * 0x1p-24f);
    all.push_back(static_cast<float>(block.word[2] >> 8) * 0x1p-20f);
  }
  const std::size_t half = all.size();
  for (std::size_t i = 0; i < half; ++i) all.push_back(-all[i]);
  return all;
}

double worst_of(const Function& f, int count, std::string& where) {
  double worst = 0;
  mpfr_t x, y;
  mpfr_init2(x, 24);
  mpfr_init2(y, 150);
  for (const float at : arguments(count)) {
    if (at != at) continue;
    mpfr_set_flt(x, at, MPFR_RNDN);
    f.exact(y, x, MPFR_RNDN);
    const double error = ulps(f.formula(at), y);
    if (error > worst) worst = error, where = std::string(f.name) + " of " + std::to_string(at);
  }
  mpfr_clear(x);
  mpfr_clear(y);
  return worst;
}

TEST(WideFunctions, AreRoundedNearlyCorrectly) {
  for (const WideUnary op : kernels::kAllWideUnary) {
    const Function f{name(op), [op](float x) { return kernels::ISOBIT_ISA::wide::apply(op, x); }, exact_of(op)};
    EXPECT_EQ(bits_of(f.formula(kQuiet)), 0x7fc00000u) << f.name;
    if (f.exact == nullptr) continue;
    std::string where;
    const int count = takes_long(op) ? 60 : 6000;
    EXPECT_LE(worst_of(f, count, where), kBound) << where;
    EXPECT_GT(worst_of(f, std::min(count, 2000), where), 0.47) << f.name;
  }
}

TEST(WideFunctions, ABinary32FormulaWouldBeSeen) {
  std::string where;
  EXPECT_GT(worst_of({"asinh", [](float x) { return std::log(x + std::sqrt(x * x + 1.0f)); }, mpfr_asinh}, 2000, where),
            2.0);
}

// Where ln|Gamma| crosses 0 its digits cancel; poles lie between the crossings.
TEST(WideFunctions, LgammaNextToItsZerosAndPoles) {
  const Function f{"lgamma", [](float x) { return lgamma(x); }, exact_of(WideUnary::lgamma)};
  mpfr_t x, y;
  mpfr_init2(x, 24);
  mpfr_init2(y, 150);
  for (const float centre :
       {1.0f,  2.0f,        -1.0f,       -2.0f, -2.4570247f, -2.7476826f, -3.0f,  -3.1435809f, -3.9552943f,
        -4.0f, -4.0393618f, -4.9915446f, -5.0f, -5.0082182f, -5.9986075f, -6.0f,  -6.0013853f, -6.9998015f,
        -7.0f, -7.0001983f, -7.9999752f, -8.0f, -8.0000248f, -9.0f,       -10.0f, -11.0f,      -33.0f}) {
    for (int k = -500; k <= 500; ++k) {
      const float at = float_of(bits_of(centre) + static_cast<std::uint32_t>(k));
      mpfr_set_flt(x, at, MPFR_RNDN);
      f.exact(y, x, MPFR_RNDN);
      EXPECT_LE(ulps(f.formula(at), y), kBound) << at;
    }
  }
  mpfr_clears(x, y, nullptr);
  for (const float pole : {0.0f, -0.0f, -1.0f, -2.0f, -8388607.0f, -8388608.0f, -1e30f, -kInfinity, kInfinity}) {
    EXPECT_EQ(lgamma(pole), kInfinity) << pole;
  }
  EXPECT_EQ(bits_of(lgamma(1.0f)), 0u);
  EXPECT_EQ(bits_of(lgamma(2.0f)), 0u);
}

// The two ways of erfinv meet at 0.85; next to 1 little of the argument is left.
TEST(WideFunctions, ErfinvWhereItsWaysMeetAndAtItsEnds) {
  mpfr_t x, y;
  mpfr_init2(x, 24);
  mpfr_init2(y, 300);
  for (const float centre : {0.85f, 1.0f, 0x1p-126f}) {
    for (int k = -200; k <= 200; ++k) {
      const float at = float_of(bits_of(centre) + static_cast<std::uint32_t>(k));
      if (at >= 1.0f) continue;
      mpfr_set_flt(x, at, MPFR_RNDN);
      exact_erfinv(y, x, MPFR_RNDN);
      EXPECT_LE(ulps(erfinv(at), y), kBound) << at;
      EXPECT_EQ(bits_of(erfinv(-at)), bits_of(-erfinv(at))) << at;
    }
  }
  mpfr_clears(x, y, nullptr);
  EXPECT_EQ(erfinv(1.0f), kInfinity);
  EXPECT_EQ(erfinv(-1.0f), -kInfinity);
  for (const float beyond : {0x1.000002p0f, -0x1.000002p0f, 3.0f, kInfinity, -kInfinity}) {
    EXPECT_EQ(bits_of(erfinv(beyond)), 0x7fc00000u) << beyond;
  }
}

TEST(WideFunctions, KeepTheSignOfZero) {
  for (float (*const f)(float) : {sinh, tan, asin, atan, asinh, atanh, erfinv}) {
    EXPECT_EQ(bits_of(f(-0.0f)), 0x80000000u);
    EXPECT_EQ(bits_of(f(0.0f)), 0u);
  }
}

TEST(WideFunctions, OfTwoArguments) {
  struct Pair {
    const char* name;
    float (*formula)(float, float);
    int (*exact)(mpfr_t, const mpfr_t, const mpfr_t, mpfr_rnd_t);
  };
  mpfr_t x, y, z;
  mpfr_inits2(24, x, y, nullptr);
  mpfr_init2(z, 150);
  const std::vector<float> some = arguments(120);
  for (const Pair& f : {Pair{"atan2", atan2, mpfr_atan2}, Pair{"hypot", hypot, mpfr_hypot}}) {
    for (const float a : some) {
      for (std::size_t k = 0; k < some.size(); k += 7) {
        mpfr_set_flt(x, a, MPFR_RNDN);
        mpfr_set_flt(y, some[k], MPFR_RNDN);
        f.exact(z, x, y, MPFR_RNDN);
        EXPECT_LE(ulps(f.formula(a, some[k]), z), kBound) << f.name << " of " << a << " and " << some[k];
      }
    }
  }
  mpfr_clears(x, y, z, nullptr);
  EXPECT_EQ(bits_of(atan2(-0.0f, 1.0f)), 0x80000000u);
  EXPECT_EQ(atan2(0.0f, -0.0f), 0x1.921fb6p+1f);
  EXPECT_EQ(hypot(kQuiet, -kInfinity), kInfinity);
}

// ln(e^a + e^b), at 300 digits.
TEST(WideFunctions, SumsOfExponentials) {
  mpfr_t x, y;
  mpfr_inits2(1200, x, y, nullptr);
  for (int i = 0; i < 20000; ++i) {
    const PhiloxBlock block = random_block(79, static_cast<std::uint64_t>(i));
    const float a = (static_cast<float>(block.word[0] >> 8) * 0x1p-24f - 0.5f) * (i % 3 == 0 ? 1.0f : 60.0f);
    const float b = i % 5 == 0 ? -a : (static_cast<float>(block.word[1] >> 8) * 0x1p-24f - 0.5f) * 60.0f;
    mpfr_set_flt(x, a, MPFR_RNDN);
    mpfr_exp(x, x, MPFR_RNDN);
    mpfr_set_flt(y, b, MPFR_RNDN);
    mpfr_exp(y, y, MPFR_RNDN);
    mpfr_add(x, x, y, MPFR_RNDN);
    mpfr_log(x, x, MPFR_RNDN);
    EXPECT_LE(ulps(logaddexp(a, b), x), 0.6) << a << " and " << b;  // where the two parts cancel digits are lost
  }
  mpfr_clears(x, y, nullptr);
  EXPECT_EQ(logaddexp(-kInfinity, -kInfinity), -kInfinity);
  EXPECT_EQ(logaddexp(kInfinity, 3.0f), kInfinity);
  EXPECT_EQ(logaddexp2(2.0f, 2.0f), 3.0f);
}

}  // namespace
}  // namespace isobit::contract
