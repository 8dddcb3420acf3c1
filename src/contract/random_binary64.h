// From Philox words to binary64 numbers (contract, section 15).
//
//   element e has two words of its own, (w0, w1) or (w2, w3) of block e div 2: m = (w0 + 2^32 w1) >> 11
//   uniform    u = m * 2^-53; low .. high: fma(u, high - low, low)
//   normal     of two elements' m: u1 = (m0 + 1) * 2^-53, u2 = m1 * 2^-53, and random.h's formulas
//
// Host only; no state.
#pragma once

#include "contract/functions_binary64.h"
#include "contract/random.h"

ISOBIT_CONTRACT_BEGIN

// The 53 bits of element 2 b + half, of block b.
[[nodiscard]] inline std::uint64_t bits53_of(const PhiloxBlock& block, int half) {
  return (static_cast<std::uint64_t>(block.word[half * 2 + 1]) << 32 | block.word[half * 2]) >> 11;
}
// range: high - low, rounded.
[[nodiscard]] inline double uniform_of_bits(std::uint64_t bits, double low, double range) {
  return fma(static_cast<double>(bits) * 0x1p-53, range, low);
}
[[nodiscard]] inline NormalPair<double> normals_of_bits(std::uint64_t bits0, std::uint64_t bits1) {
  const double u1 = static_cast<double>(bits0 + 1) * 0x1p-53, half_turns = static_cast<double>(bits1) * 0x1p-52;
  const double radius = sqrt(-2.0 * log(u1));
  return {radius * cospi(half_turns), radius * sinpi(half_turns)};
}

ISOBIT_CONTRACT_END
