// The lane operations on single numbers, so that one formula template serves scalar code and vectors.
//
// A contract formula is a template over its lane type and calls these functions unqualified: with float it
// (or double, where a formula serves binary64 too) it finds the overloads here, with the vector kernels' FloatLanes it
// finds theirs by argument. Same names, same meaning (src/kernels/cpu/vector/lanes.h). Host and device; no state.
#pragma once

#include <cmath>

#include "contract/platform.h"

ISOBIT_CONTRACT_BEGIN

// Not std::fma of double and not a * b + c: one rounding to the operands' type.
[[nodiscard]] ISOBIT_HOST_DEVICE inline float fma(float a, float b, float c) { return ::fmaf(a, b, c); }
[[nodiscard]] ISOBIT_HOST_DEVICE inline float sqrt(float a) { return ::sqrtf(a); }
[[nodiscard]] ISOBIT_HOST_DEVICE inline double fma(double a, double b, double c) { return ::fma(a, b, c); }
[[nodiscard]] ISOBIT_HOST_DEVICE inline double sqrt(double a) { return ::sqrt(a); }

[[nodiscard]] ISOBIT_HOST_DEVICE inline float select(bool m, float a, float b) { return m ? a : b; }
[[nodiscard]] ISOBIT_HOST_DEVICE inline double select(bool m, double a, double b) { return m ? a : b; }
[[nodiscard]] ISOBIT_HOST_DEVICE inline std::int32_t select(bool m, std::int32_t a, std::int32_t b) {
  return m ? a : b;
}
[[nodiscard]] ISOBIT_HOST_DEVICE inline bool any(bool m) { return m; }

[[nodiscard]] ISOBIT_HOST_DEVICE inline std::int32_t as_int(float a) { return static_cast<std::int32_t>(bits_of(a)); }
std::int32_t as_int(double) = delete;  // formulas over binary32's bits are not binary64's
[[nodiscard]] ISOBIT_HOST_DEVICE inline float as_float(std::int32_t a) {
  return float_of(static_cast<std::uint32_t>(a));
}
// Exact for |a| < 2^24.
[[nodiscard]] ISOBIT_HOST_DEVICE inline float to_float(std::int32_t a) { return static_cast<float>(a); }

[[nodiscard]] ISOBIT_HOST_DEVICE inline std::int32_t shift_left(std::int32_t a, int bits) {
  return static_cast<std::int32_t>(static_cast<std::uint32_t>(a) << bits);
}
[[nodiscard]] ISOBIT_HOST_DEVICE inline std::int32_t shift_right(std::int32_t a, int bits) {
  return a >> bits;  // keeps the sign (C++20)
}
[[nodiscard]] ISOBIT_HOST_DEVICE inline std::int32_t shift_right_logical(std::int32_t a, int bits) {
  return static_cast<std::int32_t>(static_cast<std::uint32_t>(a) >> bits);
}

[[nodiscard]] ISOBIT_HOST_DEVICE inline std::int32_t subtract_wrapping(std::int32_t a, std::int32_t b) {
  return static_cast<std::int32_t>(static_cast<std::uint32_t>(a) - static_cast<std::uint32_t>(b));
}

// Work that goes lane by lane: a float is one lane.
[[nodiscard]] ISOBIT_HOST_DEVICE inline float lane(float a, int) { return a; }
ISOBIT_HOST_DEVICE inline void set_lane(float& a, int, float value) { a = value; }
ISOBIT_HOST_DEVICE inline void set_lane(std::int32_t& a, int, std::int32_t value) { a = value; }
template <class Function>
ISOBIT_HOST_DEVICE inline void each_lane(bool m, Function&& function) {
  if (m) function(0);
}

ISOBIT_CONTRACT_END
