#include "contract/order_plan.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <vector>

namespace isobit::contract {
namespace {

std::vector<std::uint64_t> order(const OrderPlan& plan) {
  std::vector<std::uint64_t> samples(plan.size());
  for (std::uint64_t p = 0; p < plan.size(); ++p) samples[p] = plan(p);
  return samples;
}

bool is_permutation(const std::vector<std::uint64_t>& samples) {
  std::vector<char> seen(samples.size(), 0);
  for (const std::uint64_t s : samples) {
    if (s >= samples.size() || seen[s] != 0) return false;
    seen[s] = 1;
  }
  return true;
}

TEST(OrderPlan, IsAPermutationForEveryCount) {
  for (std::uint64_t n = 0; n <= 300; ++n) {
    for (const std::uint64_t seed : {0ull, 1ull, ~0ull}) {
      EXPECT_TRUE(is_permutation(order({OrderRule::shuffled, seed, n, n}))) << n;
    }
  }
  for (const std::uint64_t n : {1023ull, 1024ull, 1025ull, 4097ull, 60000ull, (1ull << 18) + 1}) {
    EXPECT_TRUE(is_permutation(order({OrderRule::shuffled, 7, 3, n}))) << n;
  }
}

// A broken network (no bijection) would be found: two positions sharing an image.
TEST(OrderPlan, TheTestOfPermutationsCanFail) {
  auto samples = order({OrderRule::shuffled, 1, 0, 100});
  samples[3] = samples[4];
  EXPECT_FALSE(is_permutation(samples));
}

TEST(OrderPlan, LargeCountsStayInRange) {
  for (const std::uint64_t n : {(1ull << 32) + 5, 1ull << 62}) {
    const OrderPlan plan(OrderRule::shuffled, 1, 0, n);
    std::vector<std::uint64_t> images;
    for (std::uint64_t p = 0; p < 1000; ++p) {
      images.push_back(plan(n - 1 - p));
      EXPECT_LT(images.back(), n);
    }
    std::sort(images.begin(), images.end());
    EXPECT_EQ(std::unique(images.begin(), images.end()), images.end());
  }
}

TEST(OrderPlan, SequentialIsTheIdentity) {
  const OrderPlan plan(OrderRule::sequential, 5, 2, 1000);
  for (std::uint64_t p = 0; p < 1000; ++p) EXPECT_EQ(plan(p), p);
}

TEST(OrderPlan, DependsOnSeedAndEpoch) {
  const auto first = order({OrderRule::shuffled, 1, 0, 1000});
  EXPECT_EQ(order({OrderRule::shuffled, 1, 0, 1000}), first);
  EXPECT_NE(order({OrderRule::shuffled, 1, 1, 1000}), first);
  EXPECT_NE(order({OrderRule::shuffled, 2, 0, 1000}), first);
}

// Chi-square of (position, sample) and of (sample at 0, sample at 1) over epochs. Degrees of freedom k: mean k,
// deviation sqrt(2 k); five deviations pass by chance but once in a million, and the plan is fixed anyway.
TEST(OrderPlan, SmallOrdersAreUniform) {
  for (const std::uint64_t n : {2ull, 3ull, 5ull, 8ull, 17ull}) {
    constexpr std::uint64_t kEpochs = 20000;
    std::vector<double> by_position(n * n), by_pair(n * n);
    for (std::uint64_t epoch = 0; epoch < kEpochs; ++epoch) {
      const auto samples = order({OrderRule::shuffled, 42, epoch, n});
      for (std::uint64_t p = 0; p < n; ++p) by_position[p * n + samples[p]] += 1;
      by_pair[samples[0] * n + samples[1]] += 1;
    }
    const auto chi_square = [](const std::vector<double>& counts, double expected, std::uint64_t step,
                               std::uint64_t n) {
      double sum = 0;
      for (std::uint64_t i = 0; i < counts.size(); ++i) {
        if (step != 0 && i % (n + 1) == 0) continue;  // pairs of equal samples do not occur
        sum += (counts[i] - expected) * (counts[i] - expected) / expected;
      }
      return sum;
    };
    const double cells = static_cast<double>(n * n), others = static_cast<double>(n * (n - 1));
    EXPECT_LT(chi_square(by_position, kEpochs / static_cast<double>(n), 0, n), cells + 5 * std::sqrt(2 * cells)) << n;
    EXPECT_LT(chi_square(by_pair, kEpochs / others, 1, n), others + 5 * std::sqrt(2 * others)) << n;
  }
}

// Neighbours in order are not neighbours in storage: |difference| has the mean n / 3 of independent samples.
TEST(OrderPlan, LargeOrdersAreMixed) {
  const std::uint64_t n = 60000;
  const auto samples = order({OrderRule::shuffled, 9, 0, n});
  double distance = 0;
  for (std::size_t p = 1; p < n; ++p) {
    distance += std::abs(static_cast<double>(samples[p]) - static_cast<double>(samples[p - 1]));
  }
  EXPECT_NEAR(distance / static_cast<double>(n - 1) / static_cast<double>(n), 1.0 / 3.0, 0.005);
}

// Golden: the plan is part of the contract (docs/contract.md, section 6).
TEST(OrderPlan, GoldenVectors) {
  const auto first = [](std::uint64_t seed, std::uint64_t epoch, std::uint64_t n) {
    const OrderPlan plan(OrderRule::shuffled, seed, epoch, n);
    return std::vector<std::uint64_t>{plan(0), plan(1), plan(2), plan(n - 1)};
  };
  using V = std::vector<std::uint64_t>;
  EXPECT_EQ(first(0, 0, 10), (V{2, 5, 9, 3}));
  EXPECT_EQ(first(1, 2, 60000), (V{56015, 26708, 11591, 34883}));
  EXPECT_EQ(first(0x123456789abcdef0ull, 1ull << 40, (1ull << 40) + 3),
            (V{919426678696, 318470843251, 1035686643979, 454300044395}));
}

}  // namespace
}  // namespace isobit::contract
