// The remainder of a division of binary32 numbers and the neighbouring number, by integers: exact, so the same wherever
// integers are (contract, section 10).
//
// Special values are C's (Annex F), NaN canonical. Host and device; no state.
#pragma once

#include "contract/functions.h"

ISOBIT_CONTRACT_BEGIN

// abs(x) = fraction * 2^exponent, for finite x other than 0; fraction below 2^24.
struct WholeFraction {
  std::uint64_t fraction;
  std::int32_t exponent;
};
[[nodiscard]] ISOBIT_HOST_DEVICE inline WholeFraction whole_fraction(float x) {
  const std::uint32_t bits = bits_of(x) & 0x7fffffffu, place = bits >> 23;
  if (place == 0) return {bits, -149};
  return {(bits & 0x7fffffu) | 0x800000u, static_cast<std::int32_t>(place) - 150};
}

// a - n b, n = a / b cut to a whole number; a's sign. Exact.
[[nodiscard]] ISOBIT_HOST_DEVICE inline float exact_fmod(float a, float b) {
  if (a != a || b != b || b == 0.0f || a - a != 0.0f) return kNan;
  const std::uint32_t sign = bits_of(a) & 0x80000000u;
  if (a == 0.0f || b - b != 0.0f) return a;
  const WholeFraction of = whole_fraction(a), by = whole_fraction(b);
  if (of.exponent < by.exponent - 24) return a;
  // 2^(of - by) in the fraction's units; a divisor with the larger exponent keeps a's own.
  std::int32_t steps = of.exponent - by.exponent, unit = by.exponent;
  std::uint64_t divisor = by.fraction;
  if (steps < 0) divisor <<= -steps, unit = of.exponent, steps = 0;
  std::uint64_t rest = of.fraction % divisor;
  for (; steps > 0; steps -= steps < 32 ? steps : 32) rest = (rest << (steps < 32 ? steps : 32)) % divisor;
  if (rest == 0) return float_of(sign);
  // rest has at most 24 bits and is a multiple of 2^unit, unit >= -149: no rounding.
  const float power =
      unit >= -126 ? float_of(static_cast<std::uint32_t>(unit + 127) << 23) : float_of(1u << (unit + 149));
  return float_of(bits_of(static_cast<float>(rest) * power) | sign);
}

// The next number from a towards b.
template <class Lane>
ISOBIT_FORMULA Lane next_after(Lane a, Lane b) {
  using Int = IntOf<Lane>;
  // Away from 0 the bits grow by 1, towards it they shrink. They wrap where the last line takes another result (-0,
  // NaN).
  const Int away = select(a > Lane(0.0f), Int(-1), Int(1)), step = select(a < b, away, Int(0) - away);
  const Lane smallest = as_float((as_int(b) & Int(INT32_MIN)) | Int(1));
  const Lane next = select(a == Lane(0.0f), smallest, as_float(subtract_wrapping(as_int(a), step)));
  return select(a == b, b, select((a == a) & (b == b), next, Lane(kNan)));
}

ISOBIT_CONTRACT_END
