#include "contract/lane_sum.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>
#include <random>
#include <vector>

namespace isobit::contract {
namespace {

using Floats = std::vector<float>;

std::uint32_t bits(float value) { return std::bit_cast<std::uint32_t>(value); }

Floats random_floats(std::size_t n, unsigned seed) {
  std::mt19937 engine(seed);
  std::uniform_int_distribution<int> exponent(-20, 20);
  std::uniform_real_distribution<float> mantissa(1.0f, 2.0f);
  Floats values(n);
  for (float& value : values) {
    const float magnitude = std::ldexp(mantissa(engine), exponent(engine));
    value = engine() & 1 ? magnitude : -magnitude;
  }
  return values;
}

// The contract's sentences, word for word: absent elements count as +0; fold 16, 8, 4, 2, 1; leaves by the
// tree.
float leaf_by_definition(const Floats& a, const Floats* b, std::size_t begin) {
  Floats lane(32, 0.0f);
  for (std::size_t j = 0; j < 32; ++j) {
    for (std::size_t i = begin + j; i < begin + 512; i += 32) {
      const float x = i < a.size() ? a[i] : 0.0f;
      lane[j] = b ? std::fma(x, i < a.size() ? (*b)[i] : 0.0f, lane[j]) : lane[j] + x;
    }
  }
  for (const std::size_t w : {16, 8, 4, 2, 1}) {
    for (std::size_t j = 0; j < w; ++j) lane[j] = lane[j] + lane[j + w];
  }
  return lane[0];
}

float tree_by_definition(const Floats& leaves, std::size_t first, std::size_t n) {
  if (n == 0) return 0.0f;
  if (n == 1) return leaves[first];
  const std::size_t p = std::bit_floor(n - 1);
  return tree_by_definition(leaves, first, p) + tree_by_definition(leaves, first + p, n - p);
}

float sum_by_definition(const Floats& a, const Floats* b = nullptr) {
  Floats leaves;
  for (std::size_t begin = 0; begin < a.size(); begin += 512) leaves.push_back(leaf_by_definition(a, b, begin));
  return tree_by_definition(leaves, 0, leaves.size()) + 0.0f;
}

float lane_sum(const Floats& a) {
  LaneSum sum;
  for (const float x : a) sum.add(x);
  return sum.result();
}

float lane_dot(const Floats& a, const Floats& b) {
  LaneSum sum;
  for (std::size_t i = 0; i < a.size(); ++i) sum.add_product(a[i], b[i]);
  return sum.result();
}

const std::size_t kSizes[] = {0, 1, 2, 31, 32, 33, 63, 64, 511, 512, 513, 543, 1024, 1025, 1537, 2048, 2561, 10007};

TEST(LaneSum, FollowsTheDefinition) {
  for (const std::size_t n : kSizes) {
    const Floats a = random_floats(n, static_cast<unsigned>(n)), b = random_floats(n, static_cast<unsigned>(n) + 1);
    EXPECT_EQ(bits(lane_sum(a)), bits(sum_by_definition(a))) << n << " elements";
    EXPECT_EQ(bits(lane_dot(a, b)), bits(sum_by_definition(a, &b))) << n << " products";
  }
}

TEST(LaneSum, OtherOrdersGiveOtherBits) {  // or the test above could not fail
  int running_differs = 0, reversed_differs = 0, products_differ = 0;
  for (unsigned seed = 0; seed < 20; ++seed) {
    const Floats a = random_floats(2000, seed), reversed(a.rbegin(), a.rend());
    Floats squares;
    float running = 0.0f;
    for (const float x : a) running += x, squares.push_back(x * x);
    running_differs += bits(lane_sum(a)) != bits(running);
    reversed_differs += bits(lane_sum(a)) != bits(lane_sum(reversed));
    products_differ += bits(lane_dot(a, a)) != bits(lane_sum(squares));
  }
  EXPECT_GE(running_differs, 10);
  EXPECT_GE(reversed_differs, 10);
  EXPECT_GE(products_differ, 1);
}

TEST(LaneSum, StaysWithinItsErrorBound) {
  // Depth of additions: 16 in a lane, 5 in the fold, log2(leaves) in the tree; each at most u = 2^-24 of the
  // sum of magnitudes.
  for (const std::size_t n : {1000u, 100000u}) {
    const Floats a = random_floats(n, static_cast<unsigned>(n));
    double exact = 0, magnitude = 0;
    for (const float x : a) exact += x, magnitude += std::fabs(x);
    const double depth = 16 + 5 + std::ceil(std::log2(static_cast<double>(n) / 512));
    EXPECT_LE(std::fabs(lane_sum(a) - exact), depth * 0x1p-24 * magnitude * 1.001);
  }
}

TEST(LaneSum, IsNeverMinusZero) {
  const Floats minus_zeros(700, -0.0f);
  EXPECT_EQ(bits(lane_sum({})), bits(0.0f));
  EXPECT_EQ(bits(lane_sum(minus_zeros)), bits(0.0f));
  const Floats tiny(700, 0x1p-100f), minus_tiny(700, -0x1p-100f);  // every product underflows to -0
  EXPECT_EQ(bits(lane_dot(tiny, minus_tiny)), bits(0.0f));
}

TEST(LaneSum, KeepsSubnormalsAndNonFinites) {
  EXPECT_EQ(lane_sum(Floats(3, 0x1p-149f)), 3 * 0x1p-149f);
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  EXPECT_EQ(lane_sum({1, kInfinity}), kInfinity);
  EXPECT_TRUE(std::isnan(lane_sum({-kInfinity, kInfinity})));
}

TEST(LaneSum, ZeroElementsAtTheEndChangeNothing) {
  Floats a = random_floats(900, 3);
  const float before = lane_sum(a);
  a.insert(a.end(), 2000, -0.0f);
  EXPECT_EQ(bits(lane_sum(Floats(a.begin(), a.begin() + 1024))), bits(before));
}

}  // namespace
}  // namespace isobit::contract
