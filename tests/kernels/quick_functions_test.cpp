// The shorter formulas of cpu/vector/quick_functions.h: the contract's bits, and how much of their errors' bounds is
// used.
//
// Every 4099th number of binary32; with ISOBIT_ALL_INPUTS=1 in the environment every one (a quarter of an hour on one
// core).
#include <gtest/gtest.h>

#include <bit>
#include <cstdlib>
#include <random>
#include <vector>

#include "kernels/sweep.h"
#include "kernels/wide_functions.h"
#define ISOBIT_ISA tested
#include "kernels/cpu/vector/quick_functions.h"

namespace isobit::kernels {
namespace {

using namespace isobit::kernels::testing;
using Floats = std::vector<float>;

constexpr WideUnary kQuick[] = {WideUnary::exp2, WideUnary::sinh, WideUnary::cosh, WideUnary::tan, WideUnary::erfc};
constexpr std::uint64_t kInputs = 1ull << 32, kBlock = 1 << 20;

std::uint64_t stride() { return std::getenv("ISOBIT_ALL_INPUTS") != nullptr ? 1 : 4099; }

// visit(numbers) some at a time.
template <class Visit>
void every_number(Visit visit) {
  Floats x;
  for (std::uint64_t bits = 0; bits < kInputs; bits += stride()) {
    x.push_back(std::bit_cast<float>(static_cast<std::uint32_t>(bits)));
    if (x.size() == kBlock || bits + stride() >= kInputs) visit(x), x.clear();
  }
}

TEST(QuickFunctions, TheContractsBits) {
  every_number([](const Floats& x) {
    const auto n = static_cast<std::int64_t>(x.size());
    for (const WideUnary op : kQuick) {
      const auto compute = [&] {
        Floats y(x.size());
        wide_unary(op, x.data(), y.data(), n);
        return y;
      };
      const Floats expected = by_reference(compute);
      for_each_host_implementation(
          [&](const std::string& where) { EXPECT_TRUE(same_bits(compute(), expected)) << where << ", " << name(op); });
    }
  });
}

// Whether a sixteenth of the error would have done: both ends alike, and not the contract's result, would be a narrow
// escape.
bool far_from_the_bound(tested::quick::Near near, float contracts) {
  const float low = static_cast<float>(near.value - near.error / 16),
              high = static_cast<float>(near.value + near.error / 16);
  return low != high || std::bit_cast<std::uint32_t>(low) == std::bit_cast<std::uint32_t>(contracts) ||
         (low == 0.0f && contracts == 0.0f);
}

TEST(QuickFunctions, ErrorsAreFarBelowTheirBounds) {
  std::uint64_t escapes = 0, undecided = 0, numbers = 0;
  const auto look = [&](tested::quick::Near near, float contracts) {
    escapes += !far_from_the_bound(near, contracts);
    undecided += static_cast<float>(near.value - near.error) != static_cast<float>(near.value + near.error);
    ++numbers;
  };
  every_number([&](const Floats& x) {
    for (const float a : x) {
      if (a != a) continue;
      look(tested::quick::exp2(a), contract::exp2(a));
      look(tested::quick::sinh(a), contract::sinh(a));
      look(tested::quick::cosh(a), contract::cosh(a));
      look(tested::quick::erfc(a), contract::erfc(a));
    }
  });
  EXPECT_EQ(escapes, 0u);
  EXPECT_LT(undecided, numbers / 10000);
}

TEST(QuickFunctions, SumsOfExponentials) {
  std::mt19937 engine(3);
  std::normal_distribution<float> normal;
  const std::uint64_t pairs = stride() == 1 ? 1 << 28 : 1 << 18;
  std::uint64_t escapes = 0, undecided = 0;
  for (std::uint64_t i = 0; i < pairs; ++i) {
    float a = 8 * normal(engine), b = 8 * normal(engine);
    if (i % 4 == 1) b = std::bit_cast<float>(static_cast<std::uint32_t>(engine()));
    if (i % 4 == 2) a = -std::abs(a) - 0.01f, b = std::log1p(-std::exp(a)) + 0.001f;  // terms that cancel
    if (a != a || b != b || std::isinf(b)) continue;
    const auto near = tested::quick::logaddexp(a, b);
    escapes += !far_from_the_bound(near, contract::logaddexp(a, b));
    undecided += static_cast<float>(near.value - near.error) != static_cast<float>(near.value + near.error);
  }
  EXPECT_EQ(escapes, 0u);
  EXPECT_LT(undecided, pairs / 100);
}

}  // namespace
}  // namespace isobit::kernels
