// Remainders and neighbours by integers against the C library's, which are exact: bit for bit, over hostile pairs.
#include "contract/remainder.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>

namespace isobit::contract {
namespace {

// Any exponent; zeros, subnormals, infinities and NaN among them; often near each other.
struct Pairs {
  std::mt19937 engine{7};
  float any() {
    constexpr std::uint32_t kSpecial[] = {0u,          1u,          0x7fffffu,   0x800000u,
                                          0x7f7fffffu, 0x7f800000u, 0x7fc00000u, 0x3f800000u};
    const std::uint32_t sign = engine() & 0x80000000u;
    return float_of(engine() % 8 == 0 ? kSpecial[engine() % 8] | sign : static_cast<std::uint32_t>(engine()));
  }
  float near(float x) {
    const std::uint32_t bits = bits_of(x);
    switch (engine() % 4) {
      case 0: return float_of(bits + engine() % 5 - 2);
      case 1: return float_of(bits ^ 0x80000000u);
      case 2: return float_of((bits & 0xff800000u) | (engine() & 0x7fffffu));
      default: return any();
    }
  }
};

bool same(float a, float b) { return a != a ? b != b : bits_of(a) == bits_of(b); }

TEST(Remainder, IsTheLibrarysFmod) {
  Pairs pairs;
  for (int i = 0; i < 2'000'000; ++i) {
    const float a = pairs.any(), b = pairs.near(a);
    ASSERT_TRUE(same(exact_fmod(a, b), std::fmod(a, b)))
        << std::hexfloat << a << " by " << b << ": " << exact_fmod(a, b);
    ASSERT_TRUE(same(exact_fmod(b, a), std::fmod(b, a)))
        << std::hexfloat << b << " by " << a << ": " << exact_fmod(b, a);
  }
}

TEST(Remainder, NextIsTheLibrarysNextAfter) {
  Pairs pairs;
  for (int i = 0; i < 1'000'000; ++i) {
    const float a = pairs.any(), b = pairs.near(a);
    ASSERT_TRUE(same(next_after(a, b), std::nextafter(a, b))) << std::hexfloat << a << " towards " << b;
  }
}

TEST(Remainder, NaNIsCanonical) {
  for (const float x :
       {exact_fmod(1.0f, 0.0f), exact_fmod(std::numeric_limits<float>::infinity(), 2.0f), next_after(-kNan, 1.0f)}) {
    EXPECT_EQ(bits_of(x), 0x7fc00000u);
  }
}

}  // namespace
}  // namespace isobit::contract
