// The shorter formulas of cpu/vector/quick_functions.h: the contract's bits, and how much of their errors' bounds is
// used.
//
// Every 4099th number of binary32; with ISOBIT_ALL_INPUTS=1 in the environment every one (some ten minutes a function
// on one core).
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstdlib>
#include <iterator>
#include <limits>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "kernels/sweep.h"
#include "kernels/wide_functions.h"
#define ISOBIT_ISA tested
#include "kernels/cpu/vector/quick_exp2.h"
#include "kernels/cpu/vector/quick_functions.h"
#include "kernels/cpu/vector/quick_special.h"

namespace isobit::kernels {
namespace {

using namespace isobit::kernels::testing;
using Floats = std::vector<float>;

constexpr std::uint64_t kInputs = 1ull << 32, kBlock = 1 << 20;

std::uint64_t stride() { return std::getenv("ISOBIT_ALL_INPUTS") != nullptr ? 1 : 4099; }

constexpr float kEnds[] = {0.0f,
                           -0.0f,
                           0.5f,
                           -0.5f,
                           1.0f,
                           -1.0f,
                           2.0f,
                           1e-45f,
                           -1e-45f,
                           1e-38f,
                           100.0f,
                           3.4e38f,
                           -3.4e38f,
                           std::numeric_limits<float>::infinity(),
                           -std::numeric_limits<float>::infinity(),
                           std::numeric_limits<float>::quiet_NaN()};

// visit(numbers) some at a time.
template <class Visit>
void every_number(Visit visit) {
  Floats x(std::begin(kEnds), std::end(kEnds));
  for (std::uint64_t bits = 0; bits < kInputs; bits += stride()) {
    x.push_back(std::bit_cast<float>(static_cast<std::uint32_t>(bits)));
    if (x.size() == kBlock || bits + stride() >= kInputs) visit(x), x.clear();
  }
}

// Whether a part of the error would have done: both ends alike, and not the contract's result, would be a narrow
// escape.
bool far_from_the_bound(tested::quick::Near near, float contracts, double part = 16) {
  const double value = 0.5 * (near.low + near.high), error = 0.5 * (near.high - near.low);
  const float low = static_cast<float>(value - error / part), high = static_cast<float>(value + error / part);
  return low != high || std::bit_cast<std::uint32_t>(low) == std::bit_cast<std::uint32_t>(contracts) ||
         (low == 0.0f && contracts == 0.0f);
}
bool undecided_by(tested::quick::Near near) { return static_cast<float>(near.low) != static_cast<float>(near.high); }

// The sum of two binary32 numbers, whose error is counted out in quick_exp2.h.
tested::quick::Near exp2_of_pairs(float x) {
  if (!(std::abs(x) <= tested::quick::kExp2Largest)) return {NAN, NAN};
  const auto t = tested::quick::exp2_sum(x);
  const double value = static_cast<double>(t.sum) + static_cast<double>(t.rest), power = std::ldexp(1.0, t.power >> 23);
  return {(value - tested::quick::kExp2Error) * power, (value + tested::quick::kExp2Error) * power};
}

tested::quick::Near either_erfinv(float x) {
  return std::abs(x) <= tested::quick::kErfinvNear ? tested::quick::erfinv_near(x) : tested::quick::erfinv(x);
}

// Every number or a sample, of one function each: --gtest_filter takes some of them.
struct Function {
  WideUnary op;
  tested::quick::Near (*near)(float);  // none: its rest is found elsewhere
  double part = 16;                    // of its error
  std::uint64_t decided = 5000;        // at least, for one undecided
};
const Function kFunctions[] = {
    {WideUnary::exp2, exp2_of_pairs, 1.5, 200},
    {WideUnary::sinh, tested::quick::sinh},
    {WideUnary::cosh, tested::quick::cosh},
    {WideUnary::tan, nullptr},
    {WideUnary::erfc, tested::quick::erfc},
    {WideUnary::asin, tested::quick::asin},
    {WideUnary::acos, tested::quick::acos},
    {WideUnary::atan, tested::quick::atan},
    {WideUnary::log2, tested::quick::log2},
    {WideUnary::log10, tested::quick::log10},
    {WideUnary::logit, tested::quick::logit},
    {WideUnary::atanh, tested::quick::atanh},
    {WideUnary::lgamma, tested::quick::lgamma},
    {WideUnary::digamma, tested::quick::digamma},
    {WideUnary::erfinv, either_erfinv},
    {WideUnary::ndtri, tested::quick::ndtri},
    {WideUnary::erfcx, tested::quick::erfcx},
    {WideUnary::log_ndtr, tested::quick::log_ndtr},
    {WideUnary::i0, tested::quick::i0},
    {WideUnary::i0e, tested::quick::i0e},
    {WideUnary::i1, tested::quick::i1, 16, 100},  // about half of x: between two results where x is subnormal
    {WideUnary::i1e, tested::quick::i1e, 16, 100},
};
// The list's column says which ones are.
std::size_t quicker_functions() {
  std::size_t count = 0;
  const auto quicker = [&] { ++count; };
  const auto vectorized = [] {};
  const auto scalar = [] {};
  const auto lanes = [] {};
#define ISOBIT_COUNT(name, formula, build, ...) build();
  ISOBIT_WIDE_UNARY(ISOBIT_COUNT)
#undef ISOBIT_COUNT
  return count;
}

class QuickFunction : public ::testing::TestWithParam<Function> {};

TEST_P(QuickFunction, HasTheContractsBitsAndErrorsFarBelowTheirBounds) {
  const auto& [op, near, part, decided] = GetParam();
  std::uint64_t escapes = 0, undecided = 0, numbers = 0;
  every_number([&, op = op, near = near, part = part](const Floats& x) {
    const auto compute = [&] {
      Floats y(x.size());
      wide_unary(op, x.data(), y.data(), static_cast<std::int64_t>(x.size()));
      return y;
    };
    const Floats expected = by_reference(compute);
    for_each_host_implementation(
        [&](const std::string& where) { EXPECT_TRUE(same_bits(compute(), expected)) << where << ", " << name(op); });
    for (std::size_t i = 0; near != nullptr && i < x.size(); ++i) {
      if (expected[i] != expected[i] || std::isinf(expected[i])) continue;
      escapes += !far_from_the_bound(near(x[i]), expected[i], part);
      const bool taken = near(x[i]).low == near(x[i]).low;  // else never meant for it
      undecided += taken && undecided_by(near(x[i]));
      ++numbers;
    }
  });
  EXPECT_EQ(escapes, 0u);
  EXPECT_LE(undecided, numbers / decided);
}

INSTANTIATE_TEST_SUITE_P(All, QuickFunction, ::testing::ValuesIn(kFunctions),
                         [](const auto& info) { return std::string(name(info.param.op)); });

TEST(QuickFunctions, AllOfTheListAreHere) { EXPECT_EQ(quicker_functions(), std::size(kFunctions)); }

// Pairs of which one way or the other something is near its end.
struct Pairs {
  std::mt19937 engine{3};
  std::normal_distribution<float> normal;
  std::pair<float, float> next(std::uint64_t i, bool logarithms) {
    float a = 8 * normal(engine), b = 8 * normal(engine);
    if (i % 4 == 1) b = std::bit_cast<float>(static_cast<std::uint32_t>(engine()));
    if (i % 4 == 2 && logarithms) {  // terms that cancel
      a = -std::abs(a) - 0.01f, b = std::log1p(-std::exp(a)) + 0.001f;
    } else if (i % 4 == 2) {
      a = std::bit_cast<float>(static_cast<std::uint32_t>(engine()));
    }
    if (i % 4 == 3 && !logarithms) a = b * (0.41421356f + 1e-6f * normal(engine));
    return {a, b};
  }
};

template <class Quick, class Contract>
void look_at_pairs(bool logarithms, Quick quick, Contract contracts) {
  Pairs some;
  const std::uint64_t pairs = stride() == 1 ? 1 << 28 : 1 << 18;
  std::uint64_t escapes = 0, undecided = 0;
  for (std::uint64_t i = 0; i < pairs; ++i) {
    const auto [a, b] = some.next(i, logarithms);
    if (a != a || b != b || std::isinf(a) || std::isinf(b)) continue;
    const auto near = quick(a, b);
    escapes += !far_from_the_bound(near, contracts(a, b));
    undecided += undecided_by(near);
  }
  EXPECT_EQ(escapes, 0u);
  EXPECT_LT(undecided, pairs / 100);
}

TEST(QuickFunctions, SumsOfExponentials) {
  look_at_pairs(true, tested::quick::logaddexp, contract::logaddexp);
  look_at_pairs(true, tested::quick::logaddexp2, contract::logaddexp2);
}

TEST(QuickFunctions, Angles) { look_at_pairs(false, tested::quick::atan2, contract::atan2); }

TEST(QuickFunctions, TheContractsBitsOfPairs) {
  constexpr WideBinary kQuickPairs[] = {WideBinary::atan2, WideBinary::logaddexp, WideBinary::logaddexp2};
  Floats a, b;
  for (const float x : kEnds) {
    for (const float y : kEnds) a.push_back(x), b.push_back(y);
  }
  Pairs some;
  for (std::uint64_t i = 0; i < (stride() == 1 ? 1 << 26 : 1 << 18); ++i) {
    const auto [x, y] = some.next(i, i % 8 < 4);
    a.push_back(x), b.push_back(y);
  }
  for (const WideBinary op : kQuickPairs) {
    const auto compute = [&] {
      Floats y(a.size());
      wide_binary(op, a.data(), b.data(), y.data(), static_cast<std::int64_t>(a.size()));
      return y;
    };
    const Floats expected = by_reference(compute);
    for_each_host_implementation(
        [&](const std::string& where) { EXPECT_TRUE(same_bits(compute(), expected)) << where << ", " << name(op); });
  }
}

}  // namespace
}  // namespace isobit::kernels
