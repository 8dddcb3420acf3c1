#include "kernels/fingerprint.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <random>
#include <stdexcept>
#include <vector>

#include "contract/fingerprint.h"
#include "kernels/sweep.h"

namespace isobit::kernels {
namespace {

using Floats = std::vector<float>;

template <class T>
Fingerprint sums(const std::vector<T>& x, std::int64_t first = 0) {
  return element_sums(x.data(), first, static_cast<std::int64_t>(x.size()));
}

Fingerprint closed(const Floats& x) {
  const std::int64_t shape[] = {static_cast<std::int64_t>(x.size())};
  return close_tensor(sums(x), "float32", shape, 1);
}

// The three test vectors of docs/contract.md, section 9.
TEST(Fingerprint, TestVectors) {
  const std::int64_t none[] = {0};
  const Floats three = {1.0f, -0.0f, std::numeric_limits<float>::quiet_NaN()};
  const std::int64_t six[] = {2, 3};
  const std::vector<std::int64_t> integers = {0, 1, -1, 1LL << 40, std::numeric_limits<std::int64_t>::min(), 7};
  EXPECT_EQ(to_hex(close_tensor({}, "float32", none, 1)), "4987d64783d1f660b6910457efa6b70d");
  EXPECT_EQ(to_hex(closed(three)), "4ad55751513cbdb0c17f8af33fe68117");
  EXPECT_EQ(to_hex(close_tensor(sums(integers), "int64", six, 2)), "776404c46258f48a33a40ddd021a355d");
}

template <class T>
void expect_reference_sums(const std::vector<T>& x, std::int64_t first) {
  const Fingerprint expected = testing::by_reference([&] { return sums(x, first); });
  testing::for_each_implementation([&](const std::string& where) {
    EXPECT_EQ(sums(x, first), expected) << where << ", " << x.size() << " elements from " << first;
  });
}

TEST(Fingerprint, EveryIsaAndThreadCountAgree) {
  std::mt19937_64 engine(1);
  for (const std::int64_t n : {0, 1, 3, 7, 8, 15, 16, 17, 31, 63, 64, 1001, 100003}) {
    std::vector<std::int64_t> integers(static_cast<std::size_t>(n));
    std::vector<std::uint8_t> bytes(static_cast<std::size_t>(n));
    for (auto& x : integers) x = static_cast<std::int64_t>(engine());
    for (auto& x : bytes) x = static_cast<std::uint8_t>(engine());
    for (const std::int64_t first : {std::int64_t{0}, std::int64_t{5}, std::int64_t{1} << 40}) {
      expect_reference_sums(testing::hostile_floats(n, static_cast<unsigned>(n), true), first);
      expect_reference_sums(integers, first);
      expect_reference_sums(bytes, first);
    }
  }
}

TEST(Fingerprint, ShardsMerge) {
  const Floats whole = testing::normal_floats(1000, 1);
  for (const std::int64_t cut : {0, 1, 333, 999, 1000}) {
    const Fingerprint left = element_sums(whole.data(), 0, cut);
    const Fingerprint right = element_sums(whole.data() + cut, cut, 1000 - cut);
    EXPECT_EQ(merge(left, right), sums(whole));
    EXPECT_EQ(merge(right, left), sums(whole));
  }
}

TEST(Fingerprint, NanIsCanonicalAndZerosAreNot) {
  testing::for_each_implementation([&](const std::string& where) {
    Floats x(40, 1.0f), y = x;
    for (std::size_t i = 0; i < x.size(); ++i) {
      x[i] = std::bit_cast<float>(0x7fc00000u);
      y[i] = std::bit_cast<float>(i % 2 == 0 ? 0xffc00000u : 0x7f800001u + static_cast<std::uint32_t>(i));
    }
    EXPECT_EQ(sums(x), sums(y)) << where;
    EXPECT_NE(sums(Floats{0.0f}), sums(Floats{-0.0f})) << where;
  });
}

TEST(Fingerprint, OneChangedBitChangesBothSums) {
  const Floats x = testing::normal_floats(200, 2);
  const Fingerprint before = sums(x);
  for (std::size_t i = 0; i < x.size(); ++i) {
    for (int bit = 0; bit < 32; ++bit) {
      Floats y = x;
      y[i] = std::bit_cast<float>(std::bit_cast<std::uint32_t>(y[i]) ^ 1u << bit);
      const Fingerprint after = sums(y);
      ASSERT_TRUE(after.high != before.high && after.low != before.low) << "element " << i << " bit " << bit;
    }
  }
}

TEST(Fingerprint, OrderShapeAndTypeMatter) {
  const Floats x = testing::normal_floats(6, 3);
  Floats swapped = x;
  std::swap(swapped[1], swapped[4]);
  EXPECT_NE(closed(x), closed(swapped));
  const std::int64_t six[] = {6}, two_three[] = {2, 3}, three_two[] = {3, 2}, padded[] = {6, 1};
  const std::vector<Fingerprint> all = {
      close_tensor(sums(x), "float32", six, 1),       close_tensor(sums(x), "float32", two_three, 2),
      close_tensor(sums(x), "float32", three_two, 2), close_tensor(sums(x), "float32", padded, 2),
      close_tensor(sums(x), "int64", six, 1),         close_tensor(sums(x), "float32", six, 0)};
  for (std::size_t i = 0; i < all.size(); ++i) {
    for (std::size_t j = 0; j < i; ++j) EXPECT_NE(all[i], all[j]) << i << " " << j;
  }
}

// Changes of many elements must not cancel: the differences that one unit in the last place makes (in small,
// equal and random values, at neighbouring indexes) are as different as random numbers would be.
TEST(Fingerprint, DifferencesOfNeighboursLookRandom) {
  constexpr std::size_t kCount = 1 << 18;
  std::mt19937 engine(4);
  for (const int kind : {0, 1, 2}) {
    std::vector<std::uint64_t> high(kCount), low(kCount);
    for (std::size_t i = 0; i < kCount; ++i) {
      const std::uint32_t bits = kind == 0 ? 0u : kind == 1 ? 0x3f800000u : 0x3c000000u + engine() % 0x4000000u;
      const contract::Mix a = contract::mix(i, contract::spread_bits(bits));
      const contract::Mix b = contract::mix(i, contract::spread_bits(bits + 1));
      high[i] = std::min(b.high - a.high, a.high - b.high);
      low[i] = std::min(b.low - a.low, a.low - b.low);
    }
    for (std::vector<std::uint64_t>* differences : {&high, &low}) {
      for (const int shift : {0, 16, 31}) {  // 32 bits of each: 8 equal pairs expected by chance
        std::vector<std::uint32_t> window(kCount);
        for (std::size_t i = 0; i < kCount; ++i) window[i] = static_cast<std::uint32_t>((*differences)[i] >> shift);
        std::sort(window.begin(), window.end());
        std::int64_t equal = 0;
        for (std::size_t i = 1; i < kCount; ++i) equal += window[i] == window[i - 1];
        EXPECT_LT(equal, 30) << "kind " << kind << " shift " << shift;
      }
    }
  }
}

TEST(ListFingerprint, SeesNamesOrderAndCount) {
  const std::int64_t shape[] = {3};
  const Fingerprint a = closed({1, 2, 3}), b = closed({4, 5, 6});
  const auto list = [&](std::vector<std::pair<std::string, Fingerprint>> entries) {
    ListFingerprint all;
    for (const auto& [name, tensor] : entries) all.add(name, "float32", shape, 1, tensor);
    return all.result();
  };
  const std::vector<Fingerprint> results = {list({}),
                                            list({{"a", a}}),
                                            list({{"b", a}}),
                                            list({{"a", a}, {"b", b}}),
                                            list({{"a", b}, {"b", a}}),
                                            list({{"a", a}, {"bb", b}}),
                                            list({{"aa", a}, {"b", b}}),
                                            list({{std::string("a\0", 2), a}}),
                                            list({{"abcdefgh", a}}),
                                            list({{"abcdefghi", a}})};
  for (std::size_t i = 0; i < results.size(); ++i) {
    for (std::size_t j = 0; j < i; ++j) EXPECT_NE(results[i], results[j]) << i << " " << j;
  }
  EXPECT_EQ(to_hex(list({{"a", a}, {"b", b}})), "f04b0a03997bdf0ab11181e42a1f6772");
  EXPECT_THROW((void)list({{"b", a}, {"a", b}}), std::invalid_argument);
  EXPECT_THROW((void)list({{"a", a}, {"a", b}}), std::invalid_argument);
}

TEST(Fingerprint, Hexadecimal) {
  EXPECT_EQ(to_hex({0x0123456789abcdefull, 0xfedcba9876543210ull}), "0123456789abcdeffedcba9876543210");
}

}  // namespace
}  // namespace isobit::kernels
