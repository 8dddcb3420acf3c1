// The order of a stable sort as integers (contract, section 1): NaN last, zeros of both signs equal. Private to this
// folder.
#pragma once

#include <cstdint>
#include <cstring>

namespace isobit::aten {

// Ascends as the values do; all ones for every NaN.
[[nodiscard]] inline std::uint32_t rank_bits(float value) {
  std::uint32_t bits;
  std::memcpy(&bits, &value, sizeof bits);
  bits = value == 0.0f ? 0u : bits;
  const std::uint32_t ordered = bits ^ ((bits >> 31 != 0 ? ~0u : 0x80000000u));
  return value == value ? ordered : ~0u;
}

}  // namespace isobit::aten
