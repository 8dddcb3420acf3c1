// Sorts of rows: the contract's order written plainly, every implementation, ties and special values, wrong orders
// seen.
#include "kernels/sort.h"

#include <gtest/gtest.h>

#include <stdexcept>
#include <string>
#include <vector>

#include "kernels/sweep.h"

namespace isobit::kernels {
namespace {

using namespace isobit::kernels::testing;
using Floats = std::vector<float>;

// Values and, as exact floats would not hold them, places behind each other.
struct Sorted {
  Floats values;
  std::vector<std::int64_t> places;
};
::testing::AssertionResult same_bits(const Sorted& got, const Sorted& expected) {
  const auto values = testing::same_bits(got.values, expected.values);
  return values ? testing::same_bits(got.places, expected.places) : values;
}

Sorted sorted(bool descending, std::int64_t rows, std::int64_t n, const Floats& x) {
  Sorted s{Floats(x.size(), -7.0f), std::vector<std::int64_t>(x.size(), -7)};
  sort_rows(descending, rows, n, x.data(), s.values.data(), s.places.data());
  return s;
}

// By insertion: an element goes behind all that are not after it.
Sorted plainly(bool descending, std::int64_t rows, std::int64_t n, const Floats& x, bool stable = true) {
  Sorted s;
  for (std::int64_t r = 0; r < rows; ++r) {
    std::vector<std::int64_t> order;
    const auto at = [&](std::int64_t i) { return x[static_cast<std::size_t>(r * n + i)]; };
    const auto after = [&](float a, float b) {  // a comes after b
      if (std::isnan(a) || std::isnan(b))
        return descending ? std::isnan(b) && !std::isnan(a) : std::isnan(a) && !std::isnan(b);
      return descending ? a < b : a > b;
    };
    for (std::int64_t i = 0; i < n; ++i) {
      auto place = order.end();
      while (place != order.begin() && (after(at(place[-1]), at(i)) || (!stable && !after(at(i), at(place[-1])))))
        --place;
      order.insert(place, i);
    }
    for (const std::int64_t i : order) s.values.push_back(at(i)), s.places.push_back(i);
  }
  return s;
}

// Few different values, zeros of both signs and NaN among them.
Floats with_ties(std::int64_t n, unsigned seed) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  const Floats kinds{0.0f, -0.0f, 1.5f, -1.5f, NAN, -NAN, kInfinity, -kInfinity, 0x1p-149f, -0x1p-149f};
  std::mt19937 engine(seed);
  Floats values(static_cast<std::size_t>(n));
  for (float& value : values) value = kinds[engine() % kinds.size()];
  return values;
}

void sweep(std::int64_t rows, std::int64_t n, bool against_plain) {
  for (const bool descending : {false, true}) {
    for (const bool ties : {false, true}) {
      const Floats x = ties ? with_ties(rows * n, 3) : hostile_floats(rows * n, static_cast<unsigned>(n), true);
      const std::string what = std::to_string(rows) + " x " + std::to_string(n) + (descending ? ", descending" : "");
      const auto compute = [&] { return sorted(descending, rows, n, x); };
      const Sorted expected = by_reference(compute);
      if (against_plain) {
        EXPECT_TRUE(same_bits(expected, plainly(descending, rows, n, x))) << what;
      }
      for_each_implementation([&](const std::string& where) {
        EXPECT_TRUE(same_bits(compute(), expected)) << what << (ties ? ", ties; " : "; ") << where;
      });
    }
  }
}

TEST(SortRows, ShortRowsShareATile) {
  for (const auto& [rows, n] : {std::pair<std::int64_t, std::int64_t>{0, 5},
                                {5, 0},
                                {1, 1},
                                {7, 1},
                                {300, 3},
                                {257, 8},
                                {1, 8},
                                {31, 9},
                                {5, 100},
                                {17, 127},
                                {3, 513},
                                {2, 1024}}) {
    sweep(rows, n, true);
  }
}

TEST(SortRows, ARowIsATile) {
  for (const std::int64_t n : {1025, 2047, 2048}) sweep(2, n, false);
}

TEST(SortRows, RowsOfSeveralTiles) {
  for (const std::int64_t n : {2049, 4096, 4099, 3 * 2048 + 1, 20011}) sweep(n < 5000 ? 3 : 1, n, false);
  sweep(7, 2500, false);  // not all rows at once
}

TEST(SortRows, SortedReversedAndEqualRows) {
  for (const std::int64_t n : {100, 5000}) {
    Floats up(static_cast<std::size_t>(n)), down = up, equal(up.size(), 2.0f);
    for (std::size_t i = 0; i < up.size(); ++i) up[i] = static_cast<float>(i), down[i] = -static_cast<float>(i);
    for (const Floats& x : {up, down, equal}) {
      for (const bool descending : {false, true}) {
        const auto compute = [&] { return sorted(descending, 1, n, x); };
        const Sorted expected = by_reference(compute);
        for_each_implementation(
            [&](const std::string& where) { EXPECT_TRUE(same_bits(compute(), expected)) << where; });
      }
    }
  }
}

TEST(SortRows, AnUnstableOrderIsSeen) {
  const Floats x = with_ties(200, 5);
  EXPECT_FALSE(same_bits(sorted(false, 1, 200, x), plainly(false, 1, 200, x, /*stable=*/false)));
}

#ifdef ISOBIT_EMULATED_CUDA
TEST(SortRows, RowsBeyondTheKeysAreRefused) {
  const emulated::EmulatedScope scope(emulated::ThreadOrder::ascending);
  EXPECT_THROW(sort_rows(false, 1, std::int64_t{1} << 32, static_cast<const float*>(nullptr), nullptr, nullptr),
               std::length_error);
}
#endif

}  // namespace
}  // namespace isobit::kernels
