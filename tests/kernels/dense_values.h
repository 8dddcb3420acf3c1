// Inputs and comparisons shared by the tests of matrix products and convolutions.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <random>
#include <vector>

#include "kernels/isa.h"
#include "kernels/threads.h"

namespace isobit::kernels::testing {

using Floats = std::vector<float>;

// What hostile inputs hold: magnitudes over 40 binades, both zeros, subnormals; with `special` NaN and
// infinities.
inline Floats hostile(std::int64_t n, unsigned seed, bool special = false) {
  std::mt19937 engine(seed);
  std::uniform_int_distribution<int> exponent(-20, 20), kind(0, 199);
  std::uniform_real_distribution<float> mantissa(1.0f, 2.0f);
  Floats values(static_cast<std::size_t>(n));
  for (float& value : values) {
    float magnitude = std::ldexp(mantissa(engine), exponent(engine));
    const int k = kind(engine);
    if (k < 8) magnitude = 0.0f;
    if (k == 8) magnitude = 0x1p-149f * static_cast<float>(engine() % 1000);
    if (special && k == 9) magnitude = std::numeric_limits<float>::infinity();
    if (special && k == 10) magnitude = std::numeric_limits<float>::quiet_NaN();
    if (special && k == 11) magnitude = std::numeric_limits<float>::max();
    value = engine() & 1 ? magnitude : -magnitude;
  }
  return values;
}

// Ordinary values in [-1, 1): what bounds against binary64 are stated for.
inline Floats ordinary(std::int64_t n, unsigned seed) {
  std::mt19937 engine(seed);
  std::uniform_real_distribution<float> value(-1.0f, 1.0f);
  Floats values(static_cast<std::size_t>(n));
  for (float& v : values) v = value(engine);
  return values;
}

inline std::uint32_t canonical_bits(float value) {
  return std::isnan(value) ? 0x7fc00000u : std::bit_cast<std::uint32_t>(value);
}

// Index of the first element whose bits differ (any NaN equals any NaN), -1 where none does.
inline std::int64_t first_difference(const Floats& a, const Floats& b) {
  if (a.size() != b.size()) return 0;
  for (std::size_t i = 0; i < a.size(); ++i)
    if (canonical_bits(a[i]) != canonical_bits(b[i])) return static_cast<std::int64_t>(i);
  return -1;
}

inline const std::vector<int>& thread_counts() {
  static const std::vector<int> counts{1, 2, 3, 8};
  return counts;
}

}  // namespace isobit::kernels::testing
