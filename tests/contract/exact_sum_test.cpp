#include "contract/exact_sum.h"

#include <gtest/gtest.h>
#include <mpfr.h>

#include <bit>
#include <cmath>
#include <limits>
#include <random>

#include "contract/mpfr_range.h"

namespace isobit::contract {
namespace {

float random_finite(std::mt19937_64& engine) {
  for (;;) {
    const float x = std::bit_cast<float>(static_cast<std::uint32_t>(engine()));
    if (std::isfinite(x)) return x;
  }
}

// The contract's sentence: digits from the top, d = RNE(r / weight), r -= d * weight; all exact in binary64.
struct AllDigits {
  std::int64_t digit[7];
  int top = kLowestSumLimb - 1;
  double rest;
};
AllDigits digits_by_definition(float x) {
  AllDigits all{};
  double r = x;
  for (int limb = kHighestSumLimb; limb >= kLowestSumLimb; --limb) {
    const double d = std::nearbyint(std::ldexp(r, -(45 * limb - 21)));
    r -= std::ldexp(d, 45 * limb - 21);
    all.digit[limb - kLowestSumLimb] = static_cast<std::int64_t>(d);
    if (d != 0 && all.top < kLowestSumLimb) all.top = limb;
  }
  all.rest = r;
  return all;
}

TEST(SumDigits, FollowTheDefinition) {
  std::mt19937_64 engine(1);
  for (int i = 0; i < 200000; ++i) {
    const float x = random_finite(engine);
    const AllDigits all = digits_by_definition(x);
    ASSERT_EQ(all.rest, 0.0) << x;  // seven limbs hold every binary32 number
    ASSERT_EQ(top_limb_of(x), all.top) << x;
    for (int t = std::max(all.top, kLowestSumLimb); t <= kHighestSumLimb; ++t) {
      const SumDigits got = sum_digits(x, t);
      ASSERT_EQ(got.high, all.digit[t - kLowestSumLimb]) << x << " limb " << t;
      ASSERT_EQ(got.low, t == kLowestSumLimb ? 0 : all.digit[t - 1 - kLowestSumLimb]) << x << " limb " << t;
      ASSERT_LE(std::abs(got.low), std::int64_t{1} << 44);
    }
  }
}

TEST(SumDigits, TopLimbAtItsBorders) {
  for (int limb = kLowestSumLimb; limb <= kHighestSumLimb; ++limb) {
    const float half = std::ldexp(1.0f, 45 * limb - 22);  // half the weight: a tie, its digit is 0
    if (half > 0) {
      EXPECT_EQ(top_limb_of(half), limb - 1);
    }
    EXPECT_EQ(top_limb_of(std::nextafter(half, 1e38f)), limb);
    EXPECT_EQ(top_limb_of(-std::nextafter(half, 1e38f)), limb);
  }
  EXPECT_EQ(top_limb_of(0.0f), kLowestSumLimb - 1);
  EXPECT_EQ(top_limb_of(-0.0f), kLowestSumLimb - 1);
  EXPECT_EQ(top_limb_of(0x1p-149f), kLowestSumLimb);
  EXPECT_EQ(top_limb_of(std::numeric_limits<float>::max()), kHighestSumLimb);
}

// (high * 2^45 + low) * weight(t - 1) at 200 bits, then rounded once with binary32's exponent range.
float round_by_mpfr(std::int64_t high, std::int64_t low, int t) {
  mpfr_t exact, rounded;
  mpfr_init2(exact, 200);
  mpfr_init2(rounded, 24);
  mpfr_set_si_2exp(exact, high, 45, MPFR_RNDN);
  mpfr_add_si(exact, exact, low, MPFR_RNDN);
  mpfr_mul_2si(exact, exact, 45 * (t - 1) - 21, MPFR_RNDN);
  const MpfrRange binary32(kLeastBinary32, kMostBinary32);
  const int ternary = mpfr_set(rounded, exact, MPFR_RNDN);
  const int checked = mpfr_check_range(rounded, ternary, MPFR_RNDN);
  mpfr_subnormalize(rounded, checked, MPFR_RNDN);
  const float result = mpfr_get_flt(rounded, MPFR_RNDN);
  mpfr_clear(exact);
  mpfr_clear(rounded);
  return result;
}

TEST(RoundSum, IsOneRoundingOfTheExactValue) {
  std::mt19937_64 engine(2);
  for (int i = 0; i < 300000; ++i) {
    const int t = static_cast<int>(engine() % 7) - 3;
    std::int64_t high = static_cast<std::int64_t>(engine()) >> (2 + engine() % 62);
    std::int64_t low = static_cast<std::int64_t>(engine()) >> (2 + engine() % 62);
    if (i % 3 == 0) low = (std::int64_t{1} << (engine() % 60)) * (engine() & 1 ? 1 : -1);  // near ties
    if (i % 5 == 0) {  // a tie of binary32 that the lowest bits decide
      high = static_cast<std::int64_t>((1u << 24) + 2 * (engine() % (1u << 23)) + 1) * (engine() & 1 ? 1 : -1);
      low = static_cast<std::int64_t>(engine() % 201) - 100;
    }
    const float expected = round_by_mpfr(high, low, t);
    ASSERT_EQ(bits_of(round_sum(high, low, t)), bits_of(expected + 0.0f)) << high << " " << low << " limb " << t;
  }
}

TEST(RoundSum, ZeroIsPositive) {
  EXPECT_EQ(bits_of(round_sum(0, 0, 0)), 0u);
  EXPECT_EQ(bits_of(round_sum(1, -(std::int64_t{1} << 45), 0)), 0u);
  EXPECT_TRUE(std::isinf(round_sum(std::int64_t{1} << 15, 0, 3)));
}

}  // namespace
}  // namespace isobit::contract
