// Sums along one dimension from a table: every implementation's bits, the order of entries.
#include "kernels/resample.h"

#include <gtest/gtest.h>

#include <random>
#include <string>
#include <vector>

#include "kernels/sweep.h"

namespace isobit::kernels {
namespace {

using namespace isobit::kernels::testing;

struct Table {
  std::vector<std::int32_t> begin{0}, source;
  std::vector<float> weight;
  std::int64_t in = 0, most = 0;
  [[nodiscard]] AxisTable view() const {
    return {in, static_cast<std::int64_t>(begin.size()) - 1, begin.data(), source.data(), weight.data(), most};
  }
};

// steady: the same number of entries in every row.
Table table(std::int64_t in, std::int64_t out, std::int64_t most, bool steady, unsigned seed) {
  std::mt19937 engine(seed);
  Table t;
  t.in = in;
  for (std::int64_t o = 0; o < out; ++o) {
    const std::int64_t count = in == 0 ? 0 : steady ? most : engine() % (most + 1);
    for (std::int64_t k = 0; k < count; ++k) t.source.push_back(static_cast<std::int32_t>(engine() % in));
    t.begin.push_back(static_cast<std::int32_t>(t.source.size()));
    t.most = std::max(t.most, count);
  }
  t.weight = hostile_floats(static_cast<std::int64_t>(t.source.size()), seed, seed % 2 == 0);
  return t;
}

// A doubling's gradient, which has a way of its own along the last dimension; and tables that nearly are one.
TEST(Resample, SumsOfPairs) {
  for (const std::int64_t out : {1, 7, 8, 16, 40}) {
    for (const int change : {0, 1, 2, 3}) {
      Table t;
      t.in = 2 * out, t.most = 2;
      for (std::int64_t o = 0; o < out; ++o) {
        t.source.push_back(static_cast<std::int32_t>(2 * o)), t.source.push_back(static_cast<std::int32_t>(2 * o + 1));
        t.begin.push_back(static_cast<std::int32_t>(t.source.size()));
      }
      t.weight.assign(t.source.size(), 1.0f);
      if (change == 1) t.weight.back() = 0.5f;
      if (change == 2) std::swap(t.source[0], t.source[1]);
      if (change == 3) t.in += 1;
      for (const bool nan : {false, true}) {
        const std::vector<float> x = hostile_floats(9 * t.in, static_cast<unsigned>(out), nan);
        expect_host_reference_bits(
            [&] {
              std::vector<float> y(static_cast<std::size_t>(9 * out), 7.0f);
              resample_axis(t.view(), 9, 1, x.data(), y.data());
              return y;
            },
            std::to_string(out) + ", change " + std::to_string(change));
      }
    }
  }
}

TEST(Resample, EveryImplementationGivesTheReferencesBits) {
  unsigned seed = 0;
  for (const std::int64_t inner : {1, 2, 15, 16, 33}) {
    for (const auto& [in, out] :
         {std::pair<std::int64_t, std::int64_t>{1, 1}, {5, 40}, {40, 17}, {7, 0}, {0, 4}, {3, 16}}) {
      for (const bool steady : {true, false}) {
        const Table t = table(in, out, 3, steady, ++seed);
        const std::vector<float> x = hostile_floats(9 * in * inner, seed + 1, seed % 3 == 0);
        expect_host_reference_bits(
            [&] {
              std::vector<float> y(static_cast<std::size_t>(9 * out * inner), 7.0f);
              resample_axis(t.view(), 9, inner, x.data(), y.data());
              return y;
            },
            "inner " + std::to_string(inner) + ", " + std::to_string(in) + " to " + std::to_string(out));
      }
    }
  }
}

TEST(Resample, EntriesAreAddedInTheirOrder) {
  Table t;
  t.in = 3, t.most = 3, t.source = {0, 1, 2}, t.begin = {0, 3}, t.weight = {1.0f, 1.0f, 1.0f};
  const std::vector<float> x{1.0f, 0x1p-24f, 0x1p-24f};
  for_each_host_implementation([&](const std::string& where) {
    float y = 7;
    t.source = {0, 1, 2};
    resample_axis(t.view(), 1, 1, x.data(), &y);
    EXPECT_EQ(y, 1.0f) << where;
    t.source = {2, 1, 0};
    resample_axis(t.view(), 1, 1, x.data(), &y);
    EXPECT_EQ(y, 0x1.000002p0f) << where;
  });
}

}  // namespace
}  // namespace isobit::kernels
