// Maxima, minima and the place of a maximum (contract, section 1).
//
//   maximum, minimum   any NaN makes the canonical NaN; a result that is a zero is +0
//   is_better_maximum  keeps the first NaN, else the first of the largest, -0 equal to +0
//
// maximum and minimum are commutative and associative bit for bit, so that any order of a reduction gives the
// same result. Templates over the lane type: float, double, or the vector kernels' lanes. Host and device; no state;
// no exceptions.
#pragma once

#include "contract/platform.h"
#include "contract/scalar_ops.h"

ISOBIT_CONTRACT_BEGIN

inline constexpr std::uint32_t kCanonicalNaN = 0x7fc00000u;

template <class F>
[[nodiscard]] ISOBIT_HOST_DEVICE inline F maximum(F a, F b) {
  const F larger = select(a < b, b, a) + F(0.0f);  // + (+0): a zero loses its sign
  return select((a != a) | (b != b), F(float_of(kCanonicalNaN)), larger);
}

template <class F>
[[nodiscard]] ISOBIT_HOST_DEVICE inline F minimum(F a, F b) {
  const F smaller = select(b < a, b, a) + F(0.0f);
  return select((a != a) | (b != b), F(float_of(kCanonicalNaN)), smaller);
}

// Whether x, met after `best`, takes its place as the element at the maximum.
template <class T>
[[nodiscard]] ISOBIT_HOST_DEVICE inline bool is_better_maximum(T x, T best) {
  if (best != best) return false;
  return x != x || x > best;
}

ISOBIT_CONTRACT_END
