#include "contract/ordered_dot.h"

#include <gtest/gtest.h>

#include <bit>
#include <random>
#include <vector>

namespace isobit::contract {
namespace {

// The contract's sentence, word for word; slow, recursive, obviously right.
float tree_by_definition(const std::vector<float>& leaves, std::size_t first, std::size_t n) {
  if (n == 0) return 0.0f;
  if (n == 1) return leaves[first];
  const std::size_t p = std::bit_floor(n - 1);
  return tree_by_definition(leaves, first, p) + tree_by_definition(leaves, first + p, n - p);
}

std::uint32_t bits(float value) { return std::bit_cast<std::uint32_t>(value); }

std::vector<float> random_floats(std::size_t n, unsigned seed) {
  std::mt19937 engine(seed);
  std::uniform_int_distribution<int> exponent(-20, 20);
  std::uniform_real_distribution<float> mantissa(1.0f, 2.0f);
  std::vector<float> values(n);
  for (float& value : values) {
    const float magnitude = std::ldexp(mantissa(engine), exponent(engine));
    value = engine() & 1 ? magnitude : -magnitude;
  }
  return values;
}

TEST(PairwiseTree, FollowsTheDefinitionForEveryCount) {
  for (std::size_t n = 0; n <= 300; ++n) {
    const auto leaves = random_floats(n, static_cast<unsigned>(n));
    PairwiseTree tree;
    for (float leaf : leaves) tree.add(leaf);
    EXPECT_EQ(bits(tree.result()), bits(tree_by_definition(leaves, 0, n) + 0.0f)) << n << " leaves";
  }
}

TEST(PairwiseTree, IsNotTheSumFromLeftToRight) {  // or the tests above could not fail
  PairwiseTree tree;
  float running = 0.0f;
  for (const float leaf : {0x1p30f, 1.0f, -0x1p30f, 1.0f}) {
    tree.add(leaf);
    running += leaf;
  }
  EXPECT_EQ(running, 1.0f);
  EXPECT_EQ(tree.result(), 0.0f);
}

TEST(OrderedDot, NeverReturnsMinusZero) {
  const float tiny = 0x1p-100f;
  const float minus_tiny = -tiny;
  EXPECT_EQ(bits(ordered_dot(&tiny, 1, &minus_tiny, 1, 1)), bits(0.0f));  // underflows to -0 inside
  EXPECT_EQ(bits(ordered_dot<float>(nullptr, 1, nullptr, 1, 0)), bits(0.0f));
}

TEST(OrderedDot, ZeroTermsChangeNothing) {
  auto a = random_floats(2000, 2), b = random_floats(2000, 3);
  const float without = ordered_dot(a.data(), 1, b.data(), 1, 1024);
  for (std::size_t k = 1024; k < 1500; ++k) a[k] = k % 2 ? 0.0f : -0.0f;
  EXPECT_EQ(bits(ordered_dot(a.data(), 1, b.data(), 1, 1500)), bits(without));
}

}  // namespace
}  // namespace isobit::contract
