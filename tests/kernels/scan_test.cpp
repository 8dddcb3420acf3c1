// Products and running values: the contract's chains written plainly, every implementation, wrong orders seen.
#include "kernels/scan.h"

#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <tuple>
#include <vector>

#include "contract/functions_wide.h"
#include "kernels/sweep.h"

namespace isobit::kernels {
namespace {

using namespace isobit::kernels::testing;
using Floats = std::vector<float>;

struct Shape {
  std::int64_t outer, size, inner;
  [[nodiscard]] std::int64_t count() const { return outer * size * inner; }
  [[nodiscard]] std::size_t at(std::int64_t line, std::int64_t k) const {
    return static_cast<std::size_t>((line / inner * size + k) * inner + line % inner);
  }
};
const Shape kShapes[] = {{1, 1, 1},     {3, 0, 2},    {0, 4, 3},    {4, 3, 0},    {9, 31, 1},
                         {5, 33, 1},    {2, 40, 17},  {3, 7, 300},  {300, 5, 1},  {2, 511, 3},
                         {1, 512, 1},   {2, 513, 1},  {1, 1030, 5}, {1, 5000, 1}, {1, 9 * 512 + 1, 2},
                         {2, 600, 150}, {64, 1, 1},   {65, 2, 1},   {67, 3, 1},   {70, 4, 1},
                         {40, 7, 1},    {35, 515, 1}, {3, 2048, 1}, {7, 3001, 1}, {1, 40000, 1}};

std::string text(const Shape& s) {
  return std::to_string(s.outer) + " x " + std::to_string(s.size) + " x " + std::to_string(s.inner);
}

// Factors near 1, so that long products stay finite and their order shows.
Floats factors(std::int64_t n, unsigned seed) { return normal_floats(n, seed, 1.0f, 0.05f); }

float tree(const Floats& leaves, std::size_t first, std::size_t count) {
  if (count == 0) return 1.0f;
  if (count == 1) return leaves[first];
  std::size_t p = 1;
  while (2 * p < count) p *= 2;
  return tree(leaves, first, p) * tree(leaves, first + p, count - p);
}
Floats plain_product(const Shape& s, const Floats& x, std::int64_t leaf = 512) {
  Floats y;
  for (std::int64_t line = 0; line < s.outer * s.inner; ++line) {
    Floats leaves;
    for (std::int64_t k = 0; k < s.size; ++k) {
      if (k % leaf == 0) leaves.push_back(1.0f);
      leaves.back() = leaves.back() * x[s.at(line, k)];
    }
    y.push_back(tree(leaves, 0, leaves.size()));
  }
  return y;
}
Floats products(const Shape& s, const Floats& x) {
  Floats y(static_cast<std::size_t>(s.outer * s.inner), -7.0f);
  product(s.outer, s.size, s.inner, x.data(), y.data());
  return y;
}

TEST(Product, EveryImplementationGivesTheTreesBits) {
  for (const Shape& s : kShapes) {
    for (const bool hostile : {false, true}) {
      const auto seed = static_cast<unsigned>(s.size + s.inner);
      const Floats x = hostile ? hostile_floats(s.count(), seed, true) : factors(s.count(), seed);
      EXPECT_TRUE(same_bits(by_reference([&] { return products(s, x); }), plain_product(s, x))) << text(s);
      expect_reference_bits([&] { return products(s, x); }, text(s));
    }
  }
}

TEST(Product, AWrongOrderIsSeen) {
  for (const Shape& s : {Shape{3, 2000, 1}, Shape{1, 2000, 3}}) {
    const Floats x = factors(s.count(), 4);
    EXPECT_FALSE(same_bits(products(s, x), plain_product(s, x, 256)));
  }
}

Floats log_sums(const Shape& s, const Floats& x, bool in_place) {
  Floats y = in_place ? x : Floats(x.size(), -7.0f);
  running_log_sum(s.outer, s.size, s.inner, in_place ? y.data() : x.data(), y.data());
  return y;
}

TEST(RunningLogSum, EveryImplementationGivesTheChainsBits) {
  for (const Shape& s : kShapes) {
    if (s.size > 1100) continue;
    for (const bool hostile : {false, true}) {
      const Floats x = hostile ? hostile_floats(s.count(), 2, true) : normal_floats(s.count(), 1, 0.0f, 30.0f);
      Floats expected(x.size());
      for (std::int64_t line = 0; line < s.outer * s.inner; ++line) {
        double sum = -INFINITY;
        for (std::int64_t k = 0; k < s.size; ++k) {
          sum = contract::log_add_exp_of(sum, static_cast<double>(x[s.at(line, k)]));
          expected[s.at(line, k)] = static_cast<float>(sum);
        }
      }
      for (const bool in_place : {false, true}) {
        EXPECT_TRUE(same_bits(by_reference([&] { return log_sums(s, x, in_place); }), expected)) << text(s);
        expect_reference_bits([&] { return log_sums(s, x, in_place); }, text(s));
      }
    }
  }
}

TEST(RunningLogSum, IsTheLogarithmOfTheSum) {
  const Floats x{-1.0f, 100.0f, 0.5f, 100.0f, -INFINITY, 200.0f};
  const Floats y = log_sums({1, 6, 1}, x, false);
  double sum = 0;
  for (std::size_t k = 0; k < x.size(); ++k) {
    sum += std::exp(static_cast<double>(x[k]));
    EXPECT_NEAR(y[k], std::log(sum), 1e-6 * std::abs(std::log(sum))) << k;
  }
}

// Values, then places.
std::pair<Floats, std::vector<std::int64_t>> extrema(bool largest, const Shape& s, const Floats& x) {
  std::pair<Floats, std::vector<std::int64_t>> result{Floats(x.size(), -7.0f), std::vector<std::int64_t>(x.size(), -7)};
  running_extremum(largest, s.outer, s.size, s.inner, x.data(), result.first.data(), result.second.data());
  return result;
}

TEST(RunningExtremum, EveryImplementationSelectsTheSame) {
  for (const Shape& s : kShapes) {
    for (const bool largest : {false, true}) {
      for (const bool wild : {false, true}) {
        Floats x = hostile_floats(s.count(), static_cast<unsigned>(s.size), wild);
        for (std::size_t i = 0; i < x.size(); i += 3) x[i] = x[i / 2];  // equals
        Floats values(x.size());
        std::vector<std::int64_t> places(x.size());
        for (std::int64_t line = 0; line < s.outer * s.inner; ++line) {
          float best = 0;
          std::int64_t place = -1;
          for (std::int64_t k = 0; k < s.size; ++k) {
            const float v = x[s.at(line, k)];
            const bool takes = std::isnan(v) || (!std::isnan(best) && (largest ? v >= best : v <= best));
            if (place < 0 || takes) best = v, place = k;
            values[s.at(line, k)] = best;
            places[s.at(line, k)] = place;
          }
        }
        const auto expected = by_reference([&] { return extrema(largest, s, x); });
        EXPECT_TRUE(same_bits(expected.first, values)) << text(s);
        EXPECT_TRUE(same_bits(expected.second, places)) << text(s);
        for_each_implementation([&](const std::string& where) {
          const auto got = extrema(largest, s, x);
          EXPECT_TRUE(same_bits(got.first, values)) << text(s) << "; " << where;
          EXPECT_TRUE(same_bits(got.second, places)) << text(s) << "; " << where;
        });
      }
    }
  }
}

}  // namespace
}  // namespace isobit::kernels
