// The two mixers of a fingerprint, and how sums are closed with names, types and shapes (contract, section 9).
//
// A tensor's sums are, modulo 2^64, the sum over its elements of mix(index, bits).high and of .low. For a fixed
// index both are one-to-one in bits, so a tensor that differs in one element always differs in both sums.
// Operations: 32 x 32 -> 64 bit products, byte rotations, additions, exclusive or: cheap on every vector unit.
// Not cryptographic. Host and device; no state.
#pragma once

#include "contract/platform.h"

ISOBIT_CONTRACT_BEGIN

struct Mix {
  std::uint64_t high, low;
};

inline constexpr std::uint64_t kMixIndex = 0x9E3779B97F4A7C15ull;  // 2^64 / golden ratio, odd
// Even; not an array, which device code could not index.
inline constexpr std::uint32_t kMixFactor0 = 0xB5297A4Cu, kMixFactor1 = 0x68E31DA4u, kMixFactor2 = 0x9E6D62D0u,
                               kMixFactor3 = 0xD1B54A32u;

// z + lo32(z) * factor = lo32(z) * (factor + 1) + hi32(z) * 2^32: one-to-one, because factor + 1 is odd.
[[nodiscard]] ISOBIT_HOST_DEVICE inline std::uint64_t mix_multiply(std::uint64_t z, std::uint32_t factor) {
  return z + (z & 0xFFFFFFFFu) * factor;
}
[[nodiscard]] ISOBIT_HOST_DEVICE inline std::uint64_t rotate_right(std::uint64_t z, int bits) {
  return z >> bits | z << (64 - bits);
}

[[nodiscard]] ISOBIT_HOST_DEVICE inline std::uint64_t mix_shift(std::uint64_t z) { return z ^ z >> 32; }

// bits: the element's 64-bit pattern (spread_bits for narrower types).
[[nodiscard]] ISOBIT_HOST_DEVICE inline Mix mix(std::uint64_t index, std::uint64_t bits) {
  std::uint64_t z = (index + 1) * kMixIndex ^ bits;
  z = mix_shift(mix_multiply(z, kMixFactor0));
  z = mix_shift(rotate_right(mix_multiply(z, kMixFactor1), 24));
  z = rotate_right(mix_multiply(z, kMixFactor2), 24);
  const std::uint64_t high = z;
  z = rotate_right(mix_multiply(mix_shift(z), kMixFactor3), 24);
  return {high, z};
}

// 32 bits in both halves. bool and uint8: the value as 32 bits. float: a NaN is 0x7fc00000.
[[nodiscard]] ISOBIT_HOST_DEVICE inline std::uint64_t spread_bits(std::uint32_t bits) {
  return static_cast<std::uint64_t>(bits) << 32 | bits;
}
[[nodiscard]] ISOBIT_HOST_DEVICE inline std::uint64_t element_bits(float x) {
  return spread_bits(x != x ? 0x7fc00000u : bits_of(x));
}
[[nodiscard]] ISOBIT_HOST_DEVICE inline std::uint64_t element_bits(std::int64_t x) {
  return static_cast<std::uint64_t>(x);
}
[[nodiscard]] ISOBIT_HOST_DEVICE inline std::uint64_t element_bits(std::uint8_t x) { return spread_bits(x); }

// The finalizer of SplitMix64 (Steele, Lea, Flood, OOPSLA 2014).
[[nodiscard]] ISOBIT_HOST_DEVICE inline std::uint64_t avalanche(std::uint64_t z) {
  z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9ull;
  z = (z ^ z >> 27) * 0x94D049BB133111EBull;
  return z ^ z >> 31;
}

// One 64-bit word into a 128-bit state; one-to-one in the state for a fixed word. Order matters.
[[nodiscard]] ISOBIT_HOST_DEVICE inline Mix absorb(Mix state, std::uint64_t word) {
  const std::uint64_t high = avalanche(state.high + word + kMixIndex) + state.low;
  const std::uint64_t low = avalanche(state.low ^ high) + word;
  return {high, low};
}

ISOBIT_CONTRACT_END
