// Distances in units in the last place: the number of representable values between two.
//
// Floats are mapped to integers in their own order (sign and magnitude to two's complement; -0 and +0 are one value),
// so that neighbours are 1 apart, across powers of two, subnormals and 0 too, and infinity is 1 beyond the largest
// finite value. Two NaNs are equal; a NaN and a number are kUnordered apart. Integers and bool: their difference. No
// state.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <string_view>

namespace isobit::study {

inline constexpr std::uint64_t kUnordered = std::numeric_limits<std::uint64_t>::max();

// `bits` of a float with so many bits of exponent and fraction, below the sign.
[[nodiscard]] std::uint64_t ulp_distance(std::uint64_t a, std::uint64_t b, int exponent_bits, int fraction_bits);
[[nodiscard]] std::uint64_t ulp_distance(float a, float b);
[[nodiscard]] std::uint64_t ulp_distance(double a, double b);

// Two tensors of one dtype (as safetensors spells it) and number of elements, compared bit by bit; NaN is NaN, and -0
// and +0 differ by 0 units.
struct ValueDifference {
  std::uint64_t max_ulp = 0;   // the largest distance
  std::int64_t at = -1;        // where it is: the first such index; -1 where nothing differs
  std::int64_t differing = 0;  // elements with other bits
  std::int64_t elements = 0;
};
// std::invalid_argument for a dtype that it does not know, or other sizes.
[[nodiscard]] ValueDifference compare_values(std::string_view dtype, std::span<const std::byte> a,
                                             std::span<const std::byte> b);

}  // namespace isobit::study
