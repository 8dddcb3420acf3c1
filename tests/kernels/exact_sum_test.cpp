#include "kernels/exact_sum.h"

#include <gtest/gtest.h>
#include <mpfr.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdlib>
#include <limits>
#include <random>
#include <stdexcept>
#include <vector>

#include "contract/mpfr_range.h"
#include "kernels/exact_accumulator.h"
#include "kernels/sweep.h"

namespace isobit::kernels {
namespace {

using testing::same_bits;
using Floats = std::vector<float>;

// All finite bit patterns alike, or the exponents of ordinary gradients.
Floats finite_floats(std::int64_t n, unsigned seed, bool any_exponent) {
  std::mt19937 engine(seed);
  Floats values(static_cast<std::size_t>(n));
  for (float& value : values) {
    do {
      std::uint32_t bits = engine();
      if (!any_exponent) bits = (bits & 0x80ffffffu) | (0x36u + bits % 8) << 24;
      value = std::bit_cast<float>(bits);
    } while (!std::isfinite(value));
  }
  return values;
}

// The contract's section 7 for one element of several grains, t known from all elements; __int128 and MPFR.
float sum_by_definition(const std::vector<Floats>& grains, std::size_t i, int t) {
  __int128 sum = 0;  // in weights of limb t - 1
  for (const Floats& grain : grains) {
    double r = grain[i];
    for (int limb = 3; limb >= t - 1 && limb >= -3; --limb) {
      const double d = std::nearbyint(std::ldexp(r, -(45 * limb - 21)));
      r -= std::ldexp(d, 45 * limb - 21);
      sum += static_cast<__int128>(d) * (limb == t ? __int128{1} << 45 : limb == t - 1 ? 1 : 0);
    }
  }
  mpfr_t exact, rounded;
  mpfr_init2(exact, 200);
  mpfr_init2(rounded, 24);
  mpfr_set_si_2exp(exact, static_cast<long>(sum >> 45), 45, MPFR_RNDN);
  mpfr_add_si(exact, exact, static_cast<long>(sum & ((__int128{1} << 45) - 1)), MPFR_RNDN);
  mpfr_mul_2si(exact, exact, 45 * (t - 1) - 21, MPFR_RNDN);
  const MpfrRange binary32(kLeastBinary32, kMostBinary32);
  const int ternary = mpfr_check_range(rounded, mpfr_set(rounded, exact, MPFR_RNDN), MPFR_RNDN);
  mpfr_subnormalize(rounded, ternary, MPFR_RNDN);
  const float result = mpfr_get_flt(rounded, MPFR_RNDN) + 0.0f;
  mpfr_clear(exact);
  mpfr_clear(rounded);
  return result;
}

int top_by_definition(const std::vector<Floats>& grains) {
  double largest = 0;
  for (const Floats& grain : grains) {
    for (float x : grain) largest = std::max(largest, std::abs(static_cast<double>(x)));
  }
  int t = 3;
  while (t >= -3 && std::nearbyint(std::ldexp(largest, -(45 * t - 21))) == 0) --t;
  return t;
}

Floats expected_sum(const std::vector<Floats>& grains) {
  const int t = top_by_definition(grains);
  Floats sums(grains[0].size());
  if (t == kNoLimb) return sums;
  for (std::size_t i = 0; i < sums.size(); ++i) sums[i] = sum_by_definition(grains, i, t);
  return sums;
}

Floats accumulated(const std::vector<Floats>& grains) {
  ExactAccumulator accumulator(static_cast<std::int64_t>(grains[0].size()));
  for (const Floats& grain : grains) EXPECT_TRUE(accumulator.add(grain.data()));
  Floats sums(grains[0].size());
  accumulator.result(sums.data());
  return sums;
}

// Grains whose largest exponents differ widely, so that the top limb rises late in some orders.
std::vector<Floats> hostile_grains(std::int64_t n, int count, unsigned seed) {
  std::vector<Floats> grains;
  std::mt19937 engine(seed);
  for (int g = 0; g < count; ++g) {
    Floats grain = finite_floats(n, seed + 17 * static_cast<unsigned>(g), g % 2 == 0);
    const int down = static_cast<int>(engine() % 250);
    for (float& x : grain) x = engine() % 7 == 0 ? (engine() & 1 ? 0.0f : -0.0f) : std::ldexp(x, -down);
    grains.push_back(grain);
  }
  return grains;
}

TEST(ExactSum, EqualsTheDefinitionForEveryIsaThreadCountAndOrder) {
  for (const std::int64_t n : {1, 5, 16, 67, 1001}) {
    for (const int count : {1, 2, 3, 9}) {
      std::vector<Floats> grains = hostile_grains(n, count, static_cast<unsigned>(n + count));
      const Floats expected = expected_sum(grains);
      testing::for_each_implementation([&](const std::string& where) {
        std::mt19937 engine(3);
        for (int shuffle = 0; shuffle < 4; ++shuffle) {
          EXPECT_TRUE(same_bits(accumulated(grains), expected)) << where << ", n " << n << ", grains " << count;
          std::shuffle(grains.begin(), grains.end(), engine);
        }
      });
    }
  }
}

TEST(ExactSum, LargeTensorsAreCutAmongThreads) {
  const std::vector<Floats> grains = hostile_grains(70001, 3, 11);
  testing::expect_reference_bits([&] { return accumulated(grains); }, "70001 elements");
}

TEST(ExactSum, IsTheExactSumRoundedOnceForOrdinaryGradients) {
  std::vector<Floats> grains;
  for (unsigned g = 0; g < 50; ++g) grains.push_back(testing::wide_floats(300, g));
  const Floats sums = accumulated(grains);
  mpfr_t exact;
  mpfr_init2(exact, 300);
  for (std::size_t i = 0; i < sums.size(); ++i) {
    mpfr_set_zero(exact, 1);
    for (const Floats& grain : grains) mpfr_add_d(exact, exact, grain[i], MPFR_RNDN);
    EXPECT_EQ(sums[i], mpfr_get_flt(exact, MPFR_RNDN));
  }
  mpfr_clear(exact);
}

TEST(ExactSum, AdditionInAnyOrderWouldNotPass) {  // or the tests of order could not fail
  std::vector<Floats> grains;
  for (unsigned g = 0; g < 9; ++g) grains.push_back(testing::wide_floats(300, g));
  const auto chain = [&] {
    Floats sum(300);
    for (const Floats& grain : grains)
      for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += grain[i];
    return sum;
  };
  const Floats forwards = chain();
  std::reverse(grains.begin(), grains.end());
  EXPECT_FALSE(same_bits(chain(), forwards));
}

TEST(ExactSum, WorkersMayAccumulateApartAndMerge) {
  const std::vector<Floats> grains = hostile_grains(301, 10, 5);
  const Floats expected = expected_sum(grains);
  for (const std::size_t cut : {0u, 1u, 4u, 9u, 10u}) {
    ExactAccumulator first(301), second(301);
    for (std::size_t g = 0; g < grains.size(); ++g) {
      EXPECT_TRUE((g < cut ? first : second).add(grains[g].data()));
    }
    second.add(first);
    Floats sums(301);
    second.result(sums.data());
    EXPECT_TRUE(same_bits(sums, expected)) << "cut at " << cut;
    EXPECT_EQ(second.grains(), 10);
  }
}

TEST(ExactSum, OneGrainIsItselfButForMinusZeroAndFarSmallerValues) {
  Floats grain = testing::wide_floats(500, 1);
  grain[3] = -0.0f;
  Floats expected = grain;
  expected[3] = 0.0f;
  EXPECT_TRUE(same_bits(accumulated({grain}), expected));
}

TEST(ExactSum, NonFiniteGrainIsRefusedAndChangesNothing) {
  testing::for_each_implementation([&](const std::string& where) {
    const Floats good = testing::wide_floats(70, 1);
    ExactAccumulator accumulator(70);
    ASSERT_TRUE(accumulator.add(good.data()));
    for (const float wild : {std::numeric_limits<float>::infinity(), std::numeric_limits<float>::quiet_NaN(),
                             -std::numeric_limits<float>::quiet_NaN()}) {
      for (const std::size_t place : {0u, 33u, 69u}) {
        Floats bad = good;
        bad[place] = wild;
        EXPECT_FALSE(accumulator.add(bad.data())) << where;
      }
    }
    Floats sums(70);
    accumulator.result(sums.data());
    EXPECT_TRUE(same_bits(sums, good)) << where;
  });
}

TEST(ExactSum, OverflowIsInfinite) {
  const Floats most(20, std::numeric_limits<float>::max());
  testing::for_each_implementation([&](const std::string& where) {
    for (float x : accumulated({most, most})) EXPECT_TRUE(std::isinf(x)) << where;
    for (float x : accumulated({most})) EXPECT_EQ(x, most[0]) << where;
  });
}

TEST(ExactSum, RoundingOfLargeAndCancellingSums) {
  std::mt19937_64 engine(7);
  const std::int64_t n = 4001;
  std::vector<std::int64_t> hi(n), lo(n);
  for (const int t : {-3, -2, 0, 2, 3}) {
    for (std::size_t i = 0; i < hi.size(); ++i) {
      hi[i] = static_cast<std::int64_t>(engine()) >> (2 + engine() % 62);
      lo[i] = static_cast<std::int64_t>(engine()) >> (2 + engine() % 62);
      if (i % 4 == 0) lo[i] = (engine() & 1 ? 1 : -1) * (std::int64_t{1} << (engine() % 51));
      if (i % 8 == 0) hi[i] = -lo[i] >> 45;
      if (i % 8 == 1) {  // a tie of binary32 that the lowest bits decide, beyond the 53 bits of binary64
        hi[i] = static_cast<std::int64_t>((1u << 24) + 2 * (engine() % (1u << 23)) + 1) * (engine() & 1 ? 1 : -1);
        lo[i] = static_cast<std::int64_t>(engine() % 201) - 100;
      }
    }
    testing::expect_reference_bits(
        [&] {
          Floats out(static_cast<std::size_t>(n));
          round_digits(hi.data(), lo.data(), t, out.data(), n);
          return out;
        },
        "limb " + std::to_string(t));
  }
}

// Of every size, so that some elements' terms lie far apart, ties at the lower digit's half weight among them.
TEST(ExactSum, TermsAtHandGiveTheBitsOfTheirDigits) {
  for (const std::int64_t n : {0, 1, 3, 4, 7, 8, 64, 4099, 40001}) {
    for (const std::int64_t count : {0, 1, 2, 3, 5, 8}) {
      for (const bool any_exponent : {false, true}) {
        std::vector<Floats> terms;
        std::vector<const float*> pointers;
        int top = kNoLimb;
        for (std::int64_t k = 0; k < count; ++k) {
          terms.push_back(finite_floats(n, static_cast<unsigned>(31 * n + 7 * count + k), any_exponent));
          for (std::size_t i = 0; i < terms.back().size(); ++i) {
            if (i % 11 == 0) terms.back()[i] = i % 2 == 0 ? 0.0f : -0.0f;
            if (i % 13 == 0 && k > 0) terms.back()[i] = -terms[0][i];
            if (i % 17 == 0 && !any_exponent) terms.back()[i] = std::ldexp(static_cast<float>(2 * (i % 5) + 1), -67);
          }
          top = std::max(top, top_limb(terms.back().data(), n));
        }
        for (const Floats& each : terms) pointers.push_back(each.data());
        for (int t = top; t <= std::min(top + 1, kHighestLimb); ++t) {
          std::vector<std::int64_t> hi(static_cast<std::size_t>(n)), lo(static_cast<std::size_t>(n));
          for (const Floats& each : terms) add_digits(each.data(), t, hi.data(), lo.data(), n);
          Floats expected(static_cast<std::size_t>(n));
          round_digits(hi.data(), lo.data(), t, expected.data(), n);
          testing::for_each_host_implementation([&](const std::string& where) {
            Floats sums(static_cast<std::size_t>(n), 1.0f);
            sum_terms(pointers.data(), count, t, sums.data(), n);
            EXPECT_TRUE(same_bits(sums, expected)) << where << ", " << count << " terms, limb " << t;
          });
        }
      }
    }
  }
}

__int128 value_of(std::int64_t high, std::int64_t low) {
  return static_cast<__int128>(high) * (std::int64_t{1} << 45) + low;
}

// Integers of up to so many bits, some with many zeros at the end, at the ends of the range, zeros.
std::vector<std::int64_t> sums_of_digits(std::int64_t n, unsigned seed, int bits) {
  std::mt19937_64 engine(seed);
  std::vector<std::int64_t> all(static_cast<std::size_t>(n));
  for (std::int64_t& each : all) {
    const std::uint64_t random = engine();
    each = static_cast<std::int64_t>(engine()) >> (64 - bits);
    if (random % 4 == 0) each = each >> (bits / 2) << (bits / 2);
    if (random % 16 == 1) each = (std::int64_t{1} << (bits - 1)) - static_cast<std::int64_t>(random >> 63);
    if (random % 16 == 2) each = -(std::int64_t{1} << (bits - 1));
    if (random % 8 == 5) each = 0;
  }
  return all;
}

// Joined: the value itself or false; where it is true also false only beyond 2^51. Split: digits of the same value.
TEST(ExactSum, JoinedDigitsAreTheirValueOrRefused) {
  for (const std::int64_t n : {0, 1, 3, 8, 9, 64, 1023}) {
    for (const int bits : {4, 20, 44, 51, 52, 60, 62}) {
      const auto hi = sums_of_digits(n, static_cast<unsigned>(n + bits), bits);
      const auto lo = sums_of_digits(n, static_cast<unsigned>(3 * n + bits), std::min(bits, 60));
      testing::for_each_host_implementation([&](const std::string& where) {
        for (std::size_t i = 0; i < hi.size(); ++i) {  // one at a time: which are refused
          for (const std::int64_t* low : {lo.data() + i, static_cast<const std::int64_t*>(nullptr)}) {
            const __int128 value = value_of(hi[i], low == nullptr ? 0 : *low);
            double joined = 0;
            const bool fits = static_cast<__int128>(static_cast<double>(value)) == value;
            ASSERT_EQ(join_digits(hi.data() + i, low, &joined, 1), fits) << where;
            ASSERT_TRUE(!fits || static_cast<__int128>(joined) == value) << where;
          }
        }
        std::vector<double> joined(hi.size());
        bool all_fit = true, small = true;
        for (std::size_t i = 0; i < hi.size(); ++i) {
          const __int128 value = value_of(hi[i], lo[i]);
          all_fit &= static_cast<__int128>(static_cast<double>(value)) == value;
          small &= std::abs(hi[i]) < std::int64_t{1} << 51 && std::abs(lo[i]) < std::int64_t{1} << 51;
        }
        const bool done = join_digits(hi.data(), lo.data(), joined.data(), n);
        EXPECT_TRUE(!done || all_fit) << where << ' ' << bits;
        EXPECT_TRUE(done || !small || !all_fit) << where << ' ' << bits;
        if (!done) return;
        std::vector<std::int64_t> high(hi.size(), 1), low(hi.size(), -1);
        ASSERT_TRUE(split_joined(joined.data(), high.data(), low.data(), n)) << where;
        for (std::size_t i = 0; i < hi.size(); ++i)
          ASSERT_TRUE(value_of(high[i] - 1, low[i] + 1) == value_of(hi[i], lo[i])) << where;
      });
    }
  }
}

TEST(ExactSum, WhatIsNoSumOfDigitsIsNotSplit) {
  for (const double each : {0.5, -1e-300, 0x1p107, -0x1p200, std::numeric_limits<double>::infinity(), std::nan("")}) {
    const std::vector<double> sums{1, each, 2};
    std::vector<std::int64_t> hi(3, 7), lo(3, 7);
    EXPECT_FALSE(split_joined(sums.data(), hi.data(), lo.data(), 3)) << each;
    EXPECT_EQ(hi, std::vector<std::int64_t>(3, 7));
    double sum = 1;
    const bool exact = each == 0.5;
    EXPECT_EQ(add_joined(&each, &sum, 1), exact) << each;
  }
}

// Joined sums of two workers and a third one's single term, added in each order: the digits' bits, or refused.
TEST(ExactSum, JoinedSumsGiveTheBitsOfTheirDigits) {
  int added = 0, refused = 0;
  for (const std::int64_t n : {1, 7, 8, 64, 1000}) {
    for (const bool any_exponent : {false, true}) {
      for (unsigned seed = 0; seed < 8; ++seed) {
        std::vector<Floats> terms;
        int top = kNoLimb;
        for (unsigned k = 0; k < 5; ++k) {
          terms.push_back(finite_floats(n, 97 * seed + k + static_cast<unsigned>(n), any_exponent));
          if (k == 4) {
            for (float& each : terms[4]) each *= 0x1p-20f;
          }
          top = std::max(top, top_limb(terms.back().data(), n));
        }
        const auto size = static_cast<std::size_t>(n);
        std::vector<std::int64_t> hi(size), lo(size), other_hi(size), other_lo(size), all_hi, all_lo;
        for (int k : {0, 1}) add_digits(terms[static_cast<std::size_t>(k)].data(), top, hi.data(), lo.data(), n);
        for (int k : {2, 3})
          add_digits(terms[static_cast<std::size_t>(k)].data(), top, other_hi.data(), other_lo.data(), n);
        all_hi = hi, all_lo = lo;
        for (std::size_t i = 0; i < size; ++i) all_hi[i] += other_hi[i], all_lo[i] += other_lo[i];
        add_digits(terms[4].data(), top, all_hi.data(), all_lo.data(), n);
        Floats expected(size);
        round_digits(all_hi.data(), all_lo.data(), top, expected.data(), n);
        testing::for_each_host_implementation([&](const std::string& where) {
          for (const bool term_first : {false, true}) {
            std::vector<double> sum(size), other(size);
            bool exact = join_digits(other_hi.data(), other_lo.data(), other.data(), n);
            exact &= term_first || join_digits(hi.data(), lo.data(), sum.data(), n);
            exact &= add_widened(terms[4].data(), top, sum.data(), n);
            exact = exact && add_joined(other.data(), sum.data(), n);
            if (term_first) {
              exact &= join_digits(hi.data(), lo.data(), other.data(), n);
              exact = exact && add_joined(other.data(), sum.data(), n);
            }
            ++(exact ? added : refused);
            if (!exact) continue;
            Floats out(size);
            round_joined(sum.data(), top, out.data(), n);
            EXPECT_TRUE(same_bits(out, expected)) << where << ' ' << n;
          }
        });
      }
    }
  }
  EXPECT_GT(added, 300);
  EXPECT_GT(refused, 300);
}

TEST(ExactSum, CountsGrains) {
  ExactAccumulator accumulator(1);
  const float largest_digit = 0x1.fffffep22f;  // just below half a weight: its low digit is the largest there is
  const float one = 0x1p30f;
  ASSERT_TRUE(accumulator.add(&one));
  for (int g = 1; g < 1 << 17; ++g) ASSERT_TRUE(accumulator.add(&largest_digit));
  float sum = 0;
  accumulator.result(&sum);
  EXPECT_EQ(sum, static_cast<float>(0x1p30 + 131071.0 * static_cast<double>(largest_digit)));
  EXPECT_THROW((void)accumulator.add(&one), std::length_error);
  accumulator.clear();
  EXPECT_TRUE(accumulator.add(&one));
}

}  // namespace
}  // namespace isobit::kernels
