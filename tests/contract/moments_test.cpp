#include "contract/moments.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <random>
#include <vector>

namespace isobit::contract {
namespace {

using Floats = std::vector<float>;

std::uint32_t bits(float value) { return std::bit_cast<std::uint32_t>(value); }

Floats normal_floats(std::size_t n, float mean, float deviation, unsigned seed) {
  std::mt19937 engine(seed);
  std::normal_distribution<float> normal(mean, deviation);
  Floats values(n);
  for (float& value : values) value = normal(engine);
  return values;
}

Moments moments_of(const Floats& x) {
  return moments(static_cast<std::int64_t>(x.size()), [&](std::int64_t i) { return x[static_cast<std::size_t>(i)]; });
}

// The contract's sentences with the tree as a recursion.
Moments by_definition(const Floats& x, std::size_t first_leaf, std::size_t leaves) {
  if (leaves == 0) return {};
  if (leaves > 1) {
    const std::size_t p = std::bit_floor(leaves - 1);
    const Moments a = by_definition(x, first_leaf, p), b = by_definition(x, first_leaf + p, leaves - p);
    const float n = static_cast<float>(a.n + b.n), na = static_cast<float>(a.n), nb = static_cast<float>(b.n);
    const float d = b.mean - a.mean, q = nb / n;
    const float share = na * q, squared = d * d;
    return {a.n + b.n, std::fma(d, q, a.mean), std::fma(squared, share, a.m2 + b.m2)};
  }
  const std::size_t begin = first_leaf * 512, end = std::min(begin + 512, x.size());
  Floats lane(32, 0.0f);
  const auto fold = [&] {
    for (const std::size_t w : {16, 8, 4, 2, 1}) {
      for (std::size_t j = 0; j < w; ++j) lane[j] += lane[j + w];
    }
    return lane[0];
  };
  for (std::size_t i = begin; i < end; ++i) lane[i % 32] += x[i];
  const float mean = fold() / static_cast<float>(end - begin);
  std::fill(lane.begin(), lane.end(), 0.0f);
  for (std::size_t i = begin; i < end; ++i) lane[i % 32] = std::fma(x[i] - mean, x[i] - mean, lane[i % 32]);
  return {static_cast<std::int64_t>(end - begin), mean, fold()};
}

TEST(Moments, FollowTheDefinition) {
  for (const std::size_t n : {0u, 1u, 2u, 31u, 49u, 511u, 512u, 513u, 1024u, 1500u, 1537u, 5000u, 33333u}) {
    const Floats x = normal_floats(n, 3.0f, 2.0f, static_cast<unsigned>(n));
    const Moments got = moments_of(x), expected = by_definition(x, 0, (n + 511) / 512);
    EXPECT_EQ(got.n, static_cast<std::int64_t>(n));
    EXPECT_EQ(bits(got.mean), bits(expected.mean)) << n;
    EXPECT_EQ(bits(got.m2), bits(expected.m2)) << n;
  }
}

TEST(Moments, OfNothingAndOfOne) {
  EXPECT_EQ(moments_of({}).n, 0);
  EXPECT_EQ(bits(moments_of({}).mean), bits(0.0f));
  EXPECT_EQ(bits(moments_of({}).m2), bits(0.0f));
  EXPECT_EQ(moments_of({7.5f}).mean, 7.5f);
  EXPECT_EQ(bits(moments_of({7.5f}).m2), bits(0.0f));
}

TEST(Moments, MergeTellsItsSides) {  // a tree that swapped its operands would be seen
  int differ = 0;
  for (unsigned seed = 0; seed < 50; ++seed) {
    Floats x = normal_floats(1300, 0.3f, 1.0f, seed);
    for (std::size_t i = 1024; i < x.size(); ++i) x[i] += 7.3f;
    const Moments a = moments_of(Floats(x.begin(), x.begin() + 1024)),
                  b = moments_of(Floats(x.begin() + 1024, x.end()));
    EXPECT_EQ(bits((a + b).mean), bits(moments_of(x).mean));
    EXPECT_EQ(bits((a + b).m2), bits(moments_of(x).m2));
    differ += bits((a + b).mean) != bits((b + a).mean) || bits((a + b).m2) != bits((b + a).m2);
  }
  EXPECT_GE(differ, 10);
}

double relative_error_of_m2(const Floats& x) {
  double mean = 0, m2 = 0;
  for (const float v : x) mean += v;
  mean /= static_cast<double>(x.size());
  for (const float v : x) m2 += (v - mean) * (v - mean);
  return std::fabs(moments_of(x).m2 - m2) / m2;
}

// With u = 2^-24 and r = |mean| / deviation, rounding the leaves' means moves m2 by about (r * u)^2, adding
// up by a few u. The bounds are five times what was seen.
TEST(Moments, AgreeWithFloat64WhateverTheMean) {
  EXPECT_LT(relative_error_of_m2(normal_floats(100000, 0.0f, 1.0f, 1)), 1e-6);
  EXPECT_LT(relative_error_of_m2(normal_floats(100000, 1e3f, 1.0f, 2)), 1e-6);
  EXPECT_LT(relative_error_of_m2(normal_floats(100000, 1e6f, 1.0f, 3)), 5e-3);
}

TEST(Moments, OnePassSumsWouldNot) {  // what the bound above excludes
  const Floats x = normal_floats(100000, 1e6f, 1.0f, 3);
  float sum = 0, squares = 0;
  for (const float v : x) sum += v, squares = std::fma(v, v, squares);
  const float m2 = squares - sum * (sum / 100000.0f);
  EXPECT_GT(std::fabs(m2 / 100000.0 - 1.0), 1.0);
}

TEST(Moments, AreNeverNegativeAndCarryNaN) {
  EXPECT_EQ(bits(moments_of(Floats(5000, 0.1f)).m2) >> 31, 0u);
  Floats x = normal_floats(2000, 0, 1, 9);
  x[777] = std::nanf("");
  EXPECT_TRUE(std::isnan(moments_of(x).mean) && std::isnan(moments_of(x).m2));
}

}  // namespace
}  // namespace isobit::contract
