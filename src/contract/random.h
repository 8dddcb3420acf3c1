// From Philox words to random numbers (contract, section 5).
//
//   uniform    u = (w >> 8) * 2^-24; low .. high: fma(u, high - low, low)
//   normal     u1 = ((w0 >> 8) + 1) * 2^-24, u2 = (w1 >> 8) * 2^-24, R = sqrt(-2 log u1),
//              (R cospi(2 u2), R sinpi(2 u2)); mean and deviation: fma(z, deviation, mean)
//   bernoulli  w < RN(p * 2^32), the product in binary64, rounded to the nearest integer (ties to even);
//              always for p >= 1, never for p <= 0 or NaN
//   integer    low + floor(w * range / 2^64), w of two words, the first the lower; low + w for a range of 2^64
//
// Words are integer lanes (their bits unsigned). The method is Box and Muller's ("A note on the generation of
// random normal deviates", 1958). Host and device; no state.
#pragma once

#include <cmath>

#include "contract/functions.h"
#include "contract/philox.h"

ISOBIT_CONTRACT_BEGIN

template <class Lane>
ISOBIT_FORMULA Lane unit_of_word(IntOf<Lane> word) {
  return to_float(shift_right_logical(word, 8)) * Lane(0x1p-24f);
}

// range: high - low, rounded.
template <class Lane>
ISOBIT_FORMULA Lane uniform_of_word(IntOf<Lane> word, Lane low, Lane range) {
  return fma(unit_of_word<Lane>(word), range, low);
}

template <class Lane>
struct NormalPair {
  Lane first, second;
};

template <class Lane>
ISOBIT_FORMULA NormalPair<Lane> normals_of_words(IntOf<Lane> w0, IntOf<Lane> w1) {
  const Lane u1 = to_float(shift_right_logical(w0, 8) + IntOf<Lane>(1)) * Lane(0x1p-24f);
  const Lane half_turns = to_float(shift_right_logical(w1, 8)) * Lane(0x1p-23f);
  const Lane radius = sqrt(Lane(-2.0f) * log(u1));
  return {radius * cospi(half_turns), radius * sinpi(half_turns)};
}

// Words below it are kept, of 2^32 possible ones.
[[nodiscard]] ISOBIT_HOST_DEVICE inline std::uint64_t bernoulli_threshold(double p) {
  if (!(p > 0.0)) return 0;
  if (p >= 1.0) return 1ull << 32;
  return static_cast<std::uint64_t>(::rint(p * 0x1p32));
}

// The upper half of the product of 128 bits.
[[nodiscard]] ISOBIT_HOST_DEVICE inline std::uint64_t high_product(std::uint64_t a, std::uint64_t b) {
  const std::uint64_t a0 = a & 0xffffffff, a1 = a >> 32, b0 = b & 0xffffffff, b1 = b >> 32;
  const std::uint64_t middle = a1 * b0 + (a0 * b0 >> 32);         // below 2^64
  const std::uint64_t middle2 = a0 * b1 + (middle & 0xffffffff);  // below 2^64
  return a1 * b1 + (middle >> 32) + (middle2 >> 32);
}

// One of low, low + 1, ..., low + range - 1 (modulo 2^64); range 0 stands for 2^64.
[[nodiscard]] ISOBIT_HOST_DEVICE inline std::int64_t integer_of_words(std::uint32_t w0, std::uint32_t w1,
                                                                      std::int64_t low, std::uint64_t range) {
  const std::uint64_t word = static_cast<std::uint64_t>(w1) << 32 | w0;
  const std::uint64_t offset = range == 0 ? word : high_product(word, range);
  return static_cast<std::int64_t>(static_cast<std::uint64_t>(low) + offset);
}

ISOBIT_CONTRACT_END
