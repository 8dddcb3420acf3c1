// What the formulas of functions_*.h and pointwise.h share: the integer type beside a lane type, bit
// handling.
//
// A formula is a template over its lane type: float, or a vector of floats that brings the operations of
// scalar_ops.h with it. Every step is one IEEE operation per lane, so all lane types give the same bits.
#pragma once

#include "contract/scalar_ops.h"

// Formulas are inlined where they are used: a vector kernel's loop then keeps their constants in registers.
#define ISOBIT_FORMULA [[nodiscard]] ISOBIT_HOST_DEVICE inline __attribute__((always_inline))

ISOBIT_CONTRACT_BEGIN

// std::int32_t for float; integer lanes for float lanes.
template <class Lane>
using IntOf = decltype(as_int(Lane()));

inline constexpr float kInfinity = __builtin_inff();
inline constexpr float kNan = __builtin_nanf("");

// Adding it rounds |x| < 2^22 to the nearest integer (ties to even), which then stands in the last
// bits. Larger arguments give some integer.
inline constexpr float kRoundingShift = 0x1.8p23f;
template <class Lane>
ISOBIT_FORMULA IntOf<Lane> rounded_int(Lane shifted) {
  return subtract_wrapping(as_int(shifted), IntOf<Lane>(0x4b400000));
}

// 2^n for -127 < n < 128.
template <class Lane>
ISOBIT_FORMULA Lane power_of_two(IntOf<Lane> n) {
  return as_float(shift_left(n + IntOf<Lane>(127), 23));
}

// x, where it is above the limit the limit (not 0, not NaN); NaN stays. Likewise from below.
template <class Lane>
ISOBIT_FORMULA Lane at_most(Lane x, Lane limit) {
  return select(x > limit, limit, x);
}
template <class Lane>
ISOBIT_FORMULA Lane at_least(Lane x, Lane limit) {
  return select(x < limit, limit, x);
}

template <class Lane>
ISOBIT_FORMULA Lane magnitude(Lane x) {
  return as_float(as_int(x) & IntOf<Lane>(0x7fffffff));
}

// y >= +0 with x's sign.
template <class Lane>
ISOBIT_FORMULA Lane with_sign_of(Lane y, Lane x) {
  return as_float(as_int(y) | (as_int(x) & IntOf<Lane>(INT32_MIN)));
}

ISOBIT_CONTRACT_END
