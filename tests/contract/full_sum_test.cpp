#include "contract/full_sum.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

namespace isobit::contract {
namespace {

double sum_of(const std::vector<double>& values) {
  FullSum sum;
  for (const double x : values) sum.add(x);
  return sum.result();
}

TEST(FullSum, RoundsOnce) {
  EXPECT_EQ(sum_of({}), 0);
  EXPECT_EQ(sum_of({1e16, 1, 1e-16}), 10000000000000002.0);
  EXPECT_EQ(sum_of({1e308, 1, -1e308}), 1);
  EXPECT_EQ(sum_of(std::vector<double>(10, 0.1)), 1);
  EXPECT_EQ(sum_of({0x1p53, 1}), 0x1p53);                // half way, to even
  EXPECT_EQ(sum_of({0x1p53, 1, 0x1p-100}), 0x1p53 + 2);  // a little above
  EXPECT_EQ(sum_of({0x1p53 + 2, 1, -0x1p-100}), 0x1p53 + 2);
}

// Against integers: multiples of 2^-60 in 128 bits.
TEST(FullSum, AnyOrderGivesTheNearest) {
  std::mt19937_64 draw(7);
  for (int round = 0; round < 2000; ++round) {
    std::vector<double> values;
    __int128 exact = 0;
    for (int i = 0; i < 40; ++i) {
      const auto whole = static_cast<std::int64_t>(draw() >> (1 + draw() % 40)) * (draw() % 2 == 0 ? 1 : -1);
      const double x = std::ldexp(static_cast<double>(whole >> 10), -60 + static_cast<int>(draw() % 40));
      values.push_back(x);
      exact += static_cast<__int128>(std::ldexp(x, 60));
    }
    const double expected = std::ldexp(static_cast<double>(exact), -60);  // one rounding, to nearest even
    EXPECT_EQ(sum_of(values), expected);
    std::shuffle(values.begin(), values.end(), draw);
    EXPECT_EQ(sum_of(values), expected);
  }
}

}  // namespace
}  // namespace isobit::contract
