#include "contract/extrema.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace isobit::contract {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();
const float kNaN = std::nanf("");
const float kValues[] = {0.0f, -0.0f, 1.0f, -1.0f, 0x1p-149f, -0x1p-149f, kInfinity, -kInfinity, kNaN, -kNaN};

TEST(Extrema, AZeroResultIsPlusZero) {
  for (const float a : {0.0f, -0.0f}) {
    for (const float b : {0.0f, -0.0f}) {
      EXPECT_EQ(bits_of(maximum(a, b)), 0u);
      EXPECT_EQ(bits_of(minimum(a, b)), 0u);
    }
  }
  EXPECT_EQ(bits_of(maximum(-0.0f, -1.0f)), 0u);
  EXPECT_EQ(bits_of(minimum(-0.0f, 1.0f)), 0u);
}

TEST(Extrema, AnyNaNMakesTheCanonicalNaN) {
  for (const float value : kValues) {
    EXPECT_EQ(bits_of(maximum(value, -kNaN)), kCanonicalNaN);
    EXPECT_EQ(bits_of(maximum(kNaN, value)), kCanonicalNaN);
    EXPECT_EQ(bits_of(minimum(value, -kNaN)), kCanonicalNaN);
    EXPECT_EQ(bits_of(minimum(kNaN, value)), kCanonicalNaN);
  }
}

TEST(Extrema, AnyOrderGivesTheSameBits) {
  for (const float a : kValues) {
    for (const float b : kValues) {
      EXPECT_EQ(bits_of(maximum(a, b)), bits_of(maximum(b, a)));
      EXPECT_EQ(bits_of(minimum(a, b)), bits_of(minimum(b, a)));
      for (const float c : kValues) {
        EXPECT_EQ(bits_of(maximum(maximum(a, b), c)), bits_of(maximum(a, maximum(b, c))));
        EXPECT_EQ(bits_of(minimum(minimum(a, b), c)), bits_of(minimum(a, minimum(b, c))));
      }
    }
  }
}

TEST(Extrema, AreTheLargestAndTheSmallest) {
  EXPECT_EQ(maximum(1.0f, 2.0f), 2.0f);
  EXPECT_EQ(minimum(1.0f, 2.0f), 1.0f);
  EXPECT_EQ(maximum(-kInfinity, -1.0f), -1.0f);
  EXPECT_EQ(minimum(0x1p-149f, kInfinity), 0x1p-149f);
}

TEST(Extrema, TheFirstNaNThenTheFirstOfEqualsStays) {
  EXPECT_TRUE(is_better_maximum(2.0f, 1.0f));
  EXPECT_FALSE(is_better_maximum(1.0f, 1.0f));
  EXPECT_FALSE(is_better_maximum(0.0f, -0.0f));
  EXPECT_FALSE(is_better_maximum(-0.0f, 0.0f));
  EXPECT_TRUE(is_better_maximum(kNaN, kInfinity));
  EXPECT_FALSE(is_better_maximum(kNaN, kNaN));
  EXPECT_FALSE(is_better_maximum(kInfinity, kNaN));
}

}  // namespace
}  // namespace isobit::contract
