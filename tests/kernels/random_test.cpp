// Random fills: vector bits equal the reference's wherever a fill is cut, and the numbers are what the
// contract says, written out here a second time.
#include "kernels/random.h"

#include <algorithm>
#include <limits>

#include "contract/order_plan.h"
#include "contract/philox.h"
#include "kernels/sweep.h"

namespace isobit::kernels::testing {
namespace {

using Floats = std::vector<float>;

constexpr std::uint64_t kKey = 0x0123456789abcdefull;
constexpr std::int64_t kSizes[] = {0, 1, 2, 3, 5, 31, 32, 33, 63, 64, 65, 127, 1000, 33333};
// Cuts inside a block, at a chunk, and where the block number's low word carries into the high one.
constexpr std::int64_t kFirsts[] = {0, 1, 2, 3, 6, 61, (std::int64_t{1} << 34) - 50, (std::int64_t{1} << 40) + 7};

template <class Fill>
void expect_reference_bits_for_all_cuts(const std::string& what, Fill fill) {
  for (const std::int64_t first : kFirsts) {
    for (const std::int64_t n : kSizes) {
      expect_reference_bits(
          [&] {
            Floats out(static_cast<std::size_t>(n), -7.0f);
            fill(first, out.data(), n);
            return out;
          },
          what + ", first " + std::to_string(first) + ", n " + std::to_string(n));
    }
  }
}

TEST(Random, UniformBits) {
  expect_reference_bits_for_all_cuts(
      "uniform", [](auto first, float* out, auto n) { fill_uniform(kKey, first, -0.7f, 1.3f, out, n); });
}

TEST(Random, NormalBits) {
  expect_reference_bits_for_all_cuts(
      "normal", [](auto first, float* out, auto n) { fill_normal(kKey, first, 0.1f, 2.5f, out, n); });
}

TEST(Random, BernoulliBits) {
  for (const double p : {0.0, 1e-9, 0.1, 0.5, 0.999999999, 1.0}) {
    expect_reference_bits_for_all_cuts("bernoulli " + std::to_string(p),
                                       [p](auto first, float* out, auto n) { fill_bernoulli(kKey, first, p, out, n); });
  }
}

TEST(Random, BernoulliBitsOfEachElementsOwnProbability) {
  Floats p = normal_floats(33333, 5, 0.5f, 0.3f);
  p[0] = 0.0f, p[1] = 1.0f, p[2] = NAN, p[63] = -0.0f, p[64] = 0x1p-149f;
  expect_reference_bits_for_all_cuts(
      "bernoulli of each", [&](auto first, float* out, auto n) { fill_bernoulli_each(kKey, first, p.data(), out, n); });
  Floats each(33333), one(33333), constant(33333, 0.3f);
  fill_bernoulli_each(kKey, 7, constant.data(), each.data(), 33333);
  fill_bernoulli(kKey, 7, static_cast<double>(0.3f), one.data(), 33333);
  EXPECT_TRUE(same_bits(each, one));
}

TEST(Random, DropoutBits) {
  const Floats x = hostile_floats(33333, 4, true);
  for (const double keep : {0.0, 0.5, 0.9, 1.0}) {
    expect_reference_bits_for_all_cuts("dropout " + std::to_string(keep), [&](auto first, float* out, auto n) {
      dropout(kKey, first, keep, x.data(), out, n);
    });
    expect_reference_bits_for_all_cuts("dropout in place", [&](auto first, float* out, auto n) {
      for (std::int64_t i = 0; i < n; ++i) out[i] = x[static_cast<std::size_t>(i)];
      dropout(kKey, first, keep, out, out, n);
    });
  }
}

TEST(Random, AFillMayBeCutAnywhere) {
  Floats whole(1000), cut(1000);
  fill_normal(kKey, 10, 0.0f, 1.0f, whole.data(), 1000);
  for (std::int64_t at = 0; at < 1000; at += 38) {
    fill_normal(kKey, 10 + at, 0.0f, 1.0f, cut.data() + at, std::min<std::int64_t>(38, 1000 - at));
  }
  EXPECT_TRUE(same_bits(cut, whole));
}

TEST(Random, IsWhatTheContractSays) {
  constexpr std::int64_t kCount = 4000;
  Floats uniform(kCount), normal(kCount), bernoulli(kCount), dropped(kCount);
  const Floats x = normal_floats(kCount, 1);
  fill_uniform(kKey, 0, 2.0f, 5.0f, uniform.data(), kCount);
  fill_normal(kKey, 0, 0.0f, 1.0f, normal.data(), kCount);
  fill_bernoulli(kKey, 0, 0.3, bernoulli.data(), kCount);
  dropout(kKey, 0, 0.3, x.data(), dropped.data(), kCount);
  for (std::int64_t e = 0; e < kCount; ++e) {
    const auto block = contract::random_block(kKey, static_cast<std::uint64_t>(e / 4));
    const std::uint32_t w = block.word[e % 4];
    EXPECT_EQ(uniform[e], std::fma(static_cast<float>(w >> 8) * 0x1p-24f, 3.0f, 2.0f));
    const double u1 = ((block.word[e % 4 & 2] >> 8) + 1.0) * 0x1p-24, u2 = (block.word[e % 4 | 1] >> 8) * 0x1p-24;
    const double angle = 2.0 * M_PI * u2;
    const double z = std::sqrt(-2.0 * std::log(u1)) * (e % 2 ? std::sin(angle) : std::cos(angle));
    EXPECT_NEAR(normal[e], z, 2e-6);
    const bool kept = w < 0.3 * 0x1p32;
    EXPECT_EQ(bernoulli[e], kept ? 1.0f : 0.0f);
    EXPECT_TRUE(same(dropped[e], kept ? x[e] * (1.0f / 0.3f) : 0.0f));
  }
}

// Written a second time, with the compiler's product of 128 bits.
std::int64_t integer_of(std::uint64_t key, std::int64_t e, std::int64_t low, std::uint64_t range) {
  const auto block = contract::random_block(key, static_cast<std::uint64_t>(e / 2));
  const std::uint64_t w = block.word[e % 2 * 2] + (static_cast<std::uint64_t>(block.word[e % 2 * 2 + 1]) << 32);
  __extension__ using Wide = unsigned __int128;
  const Wide wide_range = range == 0 ? Wide{1} << 64 : Wide{range};
  return static_cast<std::int64_t>(static_cast<std::uint64_t>(low) + static_cast<std::uint64_t>(w * wide_range >> 64));
}

TEST(Random, IntegersAreWhatTheContractSays) {
  for (const std::uint64_t range :
       {1ull, 2ull, 3ull, 10ull, 60000ull, (1ull << 32) - 1, 1ull << 32, (1ull << 32) + 1, 1ull << 63, ~0ull, 0ull}) {
    for (const std::int64_t low : {std::int64_t{0}, std::int64_t{-7}, std::numeric_limits<std::int64_t>::min()}) {
      std::vector<std::int64_t> whole(20001), part(700);
      for (const int threads : {1, 2, 3, 8}) {
        const ThreadCountScope scope(threads);
        fill_integers(kKey, 0, low, range, whole.data(), 20001);
        fill_integers(kKey, 333, low, range, part.data(), 700);
        for (std::int64_t e = 0; e < 20001; ++e)
          ASSERT_EQ(whole[e], integer_of(kKey, e, low, range)) << e << ' ' << range;
        for (std::int64_t e = 0; e < 700; ++e) ASSERT_EQ(part[e], whole[e + 333]) << e;
        constexpr std::int64_t kFar = (std::int64_t{1} << 33) - 100;  // the block's number passes 2^32
        fill_integers(kKey, kFar, low, range, part.data(), 700);
        for (std::int64_t e = 0; e < 700; ++e) ASSERT_EQ(part[e], integer_of(kKey, kFar + e, low, range)) << e;
      }
    }
  }
}

TEST(Random, IntegersFillTheirRangeEvenly) {
  std::vector<std::int64_t> drawn(70000);
  fill_integers(5, 0, -3, 7, drawn.data(), 70000);
  std::vector<int> counts(7);
  for (const std::int64_t value : drawn) ++counts.at(static_cast<std::size_t>(value + 3));
  for (const int count : counts) EXPECT_NEAR(count, 10000, 6 * std::sqrt(10000.0 * 6 / 7));
}

TEST(Random, GoldenIntegers) {  // as computed by another program, in arbitrary precision
  std::vector<std::int64_t> drawn(5), order(5);
  fill_integers(kKey, 0, -10, 60000, drawn.data(), 5);
  EXPECT_EQ(drawn, (std::vector<std::int64_t>{46290, 28705, 19265, 41849, 30514}));
  fill_permutation(kKey, 0, 60000, order.data(), 5);
  EXPECT_EQ(order, (std::vector<std::int64_t>{6843, 24465, 43416, 25048, 16297}));
}

TEST(Random, PermutationsAreTheOrderOfEpochZero) {
  for (const std::int64_t count : {0, 1, 2, 3, 255, 256, 257, 10007}) {
    const contract::OrderPlan plan(contract::OrderRule::shuffled, kKey, 0, static_cast<std::uint64_t>(count));
    for (const int threads : {1, 2, 3, 8}) {
      const ThreadCountScope scope(threads);
      std::vector<std::int64_t> whole(static_cast<std::size_t>(count));
      fill_permutation(kKey, 0, count, whole.data(), count);
      for (std::int64_t p = 0; p < count; ++p)
        ASSERT_EQ(whole[p], static_cast<std::int64_t>(plan(static_cast<std::uint64_t>(p))));
      std::sort(whole.begin(), whole.end());
      for (std::int64_t p = 0; p < count; ++p) ASSERT_EQ(whole[p], p);
    }
  }
}

// A defect of the generator or of a pairing would show in these; the bounds are six standard deviations.
TEST(Random, MomentsOfNormals) {
  constexpr std::int64_t kCount = 1 << 20;
  Floats z(kCount);
  fill_normal(99, 0, 0.0f, 1.0f, z.data(), kCount);
  double mean = 0, square = 0, fourth = 0, neighbours = 0;
  for (std::int64_t i = 0; i < kCount; ++i) {
    const double v = z[i];
    mean += v / kCount;
    square += v * v / kCount;
    fourth += v * v * v * v / kCount;
    if (i > 0) neighbours += v * z[i - 1] / kCount;
  }
  const double deviation = 6.0 / std::sqrt(kCount);
  EXPECT_NEAR(mean, 0.0, deviation);
  EXPECT_NEAR(square, 1.0, deviation * std::sqrt(2.0));
  EXPECT_NEAR(fourth, 3.0, deviation * std::sqrt(96.0));
  EXPECT_NEAR(neighbours, 0.0, deviation);
}

TEST(Random, AnotherKeyOrElementGivesOtherNumbers) {  // or the comparisons above could not fail
  Floats a(64), b(64), c(64);
  fill_uniform(1, 0, 0.0f, 1.0f, a.data(), 64);
  fill_uniform(2, 0, 0.0f, 1.0f, b.data(), 64);
  fill_uniform(1, 1, 0.0f, 1.0f, c.data(), 64);
  EXPECT_FALSE(same_bits(a, b));
  EXPECT_FALSE(same_bits(a, c));
}

}  // namespace
}  // namespace isobit::kernels::testing
