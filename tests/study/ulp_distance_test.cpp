#include "study/ulp_distance.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <vector>

namespace isobit::study {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

TEST(Ulp, CountsTheSteps) {
  std::mt19937 draw(1);
  for (int i = 0; i < 2000; ++i) {
    const float start = std::bit_cast<float>(static_cast<std::uint32_t>(draw()));
    if (!std::isfinite(start)) continue;
    float x = start;
    const std::uint64_t steps = draw() % 20;
    for (std::uint64_t s = 0; s < steps; ++s) x = std::nextafter(x, kInfinity);
    if (std::isfinite(x) && std::signbit(x) == std::signbit(start)) {
      EXPECT_EQ(ulp_distance(start, x), steps) << start;
      EXPECT_EQ(ulp_distance(x, start), steps) << start;
    }
  }
}

TEST(Ulp, AcrossZeroAndAtTheEnds) {
  const float tiny = std::numeric_limits<float>::denorm_min();
  EXPECT_EQ(ulp_distance(0.0F, -0.0F), 0u);
  EXPECT_EQ(ulp_distance(-tiny, tiny), 2u);
  EXPECT_EQ(ulp_distance(std::numeric_limits<float>::max(), kInfinity), 1u);
  EXPECT_EQ(ulp_distance(-kInfinity, kInfinity), 2u * 0x7F800000u);
  EXPECT_EQ(ulp_distance(1.0, std::nextafter(1.0, 2.0)), 1u);
  const float nan = std::numeric_limits<float>::quiet_NaN();
  EXPECT_EQ(ulp_distance(nan, -nan), 0u);
  EXPECT_EQ(ulp_distance(nan, 1.0F), kUnordered);
}

template <class T>
std::span<const std::byte> bytes(const std::vector<T>& values) {
  return std::as_bytes(std::span(values));
}

TEST(Ulp, OfTensors) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const std::vector<float> a = {1, 0.0F, nan, 5, -2}, b = {1, -0.0F, std::bit_cast<float>(0x7FC00001u), 5.0000005F, -2};
  const ValueDifference found = compare_values("F32", bytes(a), bytes(b));
  EXPECT_EQ(found.differing, 2);  // the zeros and the fourth; NaN is NaN
  EXPECT_EQ(found.max_ulp, 1u);
  EXPECT_EQ(found.at, 3);
  EXPECT_EQ(found.elements, 5);
  const std::vector<std::int8_t> c = {-128, 1}, d = {127, 1};
  EXPECT_EQ(compare_values("I8", bytes(c), bytes(d)).max_ulp, 255u);
  const std::vector<std::int64_t> e = {std::numeric_limits<std::int64_t>::min()},
                                  f = {std::numeric_limits<std::int64_t>::max()};
  EXPECT_EQ(compare_values("I64", bytes(e), bytes(f)).max_ulp, std::numeric_limits<std::uint64_t>::max());
  const std::vector<std::uint16_t> g = {0x3C00}, h = {0x3BFF};  // 1 and its neighbour in binary16
  EXPECT_EQ(compare_values("F16", bytes(g), bytes(h)).max_ulp, 1u);
  EXPECT_THROW((void)compare_values("F32", bytes(a), bytes(g)), std::invalid_argument);
  EXPECT_THROW((void)compare_values("Q4", bytes(a), bytes(a)), std::invalid_argument);
}

}  // namespace
}  // namespace isobit::study
