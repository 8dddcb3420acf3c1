// sin, cos, sinpi and cospi as fixed binary32 formulas (contract, section 2).
//
// Promises: as functions_exp.h, for every finite argument; infinities give NaN. sin and sinpi keep the sign
// of zero, sinpi of an integer is a zero of its sign, cospi of an integer and a half is +0 (as in C23). The
// argument becomes n quarter turns and a rest h + l of two binary32 numbers, |h| < 0.786:
// - |x| < 2^16: three parts of pi/2, the first difference exact, the second with its error;
// - beyond: Payne and Hanek's method ("Radian reduction for trigonometric functions", SIGNUM 1983) in 64-bit
//   integers, one lane at a time;
// - sinpi and cospi: exactly, then times pi in two parts.
// Coefficients: Sollya 8, fpminimax with binary32 coefficients. Host and device; no state.
#pragma once

#include "contract/formula.h"

ISOBIT_CONTRACT_BEGIN

template <class Lane>
struct QuarterTurns {
  IntOf<Lane> n;
  Lane h, l;
};

inline constexpr float kHalfPi0 = 0x1.921fb6p0f;
inline constexpr float kHalfPi1 = -0x1.777a5cp-25f;
inline constexpr float kHalfPi2 = -0x1.ee59dap-50f;

// Any finite |x| >= 2^16. The 96 bits of 2/pi that matter times the 24 bits of x give x in quarter turns
// modulo 4, as a 64-bit number of units 2^-62; a float is never nearer to a multiple of pi/2 than 2^-31 or
// so.
[[nodiscard]] ISOBIT_HOST_DEVICE inline QuarterTurns<float> reduce_huge(float x) {
  // A zero word, then the binary digits of 2/pi.
  constexpr std::uint32_t kDigits[] = {0,          0xa2f9836e, 0x4e441529, 0xfc2757d1,
                                       0xf534ddc0, 0xdb629599, 0x3c439041, 0xfe5163ab};
  const std::uint32_t bits = bits_of(x) & 0x7fffffffu;
  const std::uint64_t significand = (bits & 0x7fffffu) | 0x800000u;
  const int start = static_cast<int>(bits >> 23) - 150 - 2 + 32;  // first digit of weight below 4 in the product
  const int word = start / 32 & 7, shift = start % 32;
  std::uint32_t digits[3];
  for (int i = 0; i < 3; ++i) {
    const std::uint64_t pair = static_cast<std::uint64_t>(kDigits[(word + i) & 7]) << 32 | kDigits[(word + i + 1) & 7];
    digits[i] = static_cast<std::uint32_t>(pair << shift >> 32);
  }
  const std::uint64_t turns =
      (significand * digits[0] << 32) + significand * digits[1] + (significand * digits[2] >> 32);
  const std::uint64_t n = (turns + (1ull << 61)) >> 62;
  const std::int64_t rest = static_cast<std::int64_t>(turns - (n << 62));
  const float coarse = static_cast<float>(rest);
  const float fine = static_cast<float>(rest - static_cast<std::int64_t>(coarse));
  const float c = coarse * 0x1p-62f, f = fine * 0x1p-62f;
  const float h = c * kHalfPi0;
  const float l = fma(c, kHalfPi0, -h) + fma(c, kHalfPi1, f * kHalfPi0);
  const bool negative = bits_of(x) >> 31;
  const std::int32_t quarter = static_cast<std::int32_t>(n & 3);
  return negative ? QuarterTurns<float>{-quarter, -h, -l} : QuarterTurns<float>{quarter, h, l};
}

template <class Lane>
ISOBIT_FORMULA QuarterTurns<Lane> reduce_quarter_turns(Lane x) {
  const Lane shifted = fma(x, Lane(0x1.45f306p-1f), Lane(kRoundingShift));
  const Lane n = shifted - Lane(kRoundingShift);
  const Lane r = fma(n, Lane(-kHalfPi0), x);  // exact
  QuarterTurns<Lane> t;
  t.n = rounded_int(shifted);
  const Lane product = n * Lane(kHalfPi1);
  const Lane product_low = fma(n, Lane(kHalfPi1), -product);
  t.h = r - product;
  t.l = fma(n, Lane(-kHalfPi2), ((r - t.h) - product) - product_low);
  const auto huge = magnitude(x) >= Lane(0x1p16f);
  if (any(huge)) {
    each_lane(huge, [&](int i) {
      const QuarterTurns<float> one = reduce_huge(lane(x, i));
      set_lane(t.n, i, one.n);
      set_lane(t.h, i, one.h);
      set_lane(t.l, i, one.l);
    });
  }
  return t;
}

// x in half turns: x modulo 2, exactly, then its nearest multiple of 1/2. n in -2..2; for 0 <= x.
template <class Lane>
ISOBIT_FORMULA QuarterTurns<Lane> reduce_half_turns(Lane x) {
  const Lane turns = (x * Lane(0.5f) + Lane(0x1p23f)) - Lane(0x1p23f);
  const Lane z = select(x < Lane(0x1p24f), x - (turns + turns), Lane(0.0f));  // even from 2^24 on
  const Lane shifted = fma(z, Lane(2.0f), Lane(kRoundingShift));
  const Lane r = fma(shifted - Lane(kRoundingShift), Lane(-0.5f), z);
  QuarterTurns<Lane> t;
  t.n = rounded_int(shifted);
  t.h = r * Lane(0x1.921fb6p1f);
  t.l = fma(r, Lane(-0x1.777a5cp-24f), fma(r, Lane(0x1.921fb6p1f), -t.h));
  return t;
}

// sin(n pi/2 + h + l).
template <class Lane>
ISOBIT_FORMULA Lane sin_of_turns(QuarterTurns<Lane> t) {
  using Int = IntOf<Lane>;
  const Lane z = t.h * t.h;
  // (sin(h) / h - 1) / z on z in [0, 0.62]; relative error of sin 4.2e-9.
  Lane p = Lane(-0x1.9929a8p-13f);
  p = fma(p, z, Lane(0x1.1106ep-7f));
  p = fma(p, z, Lane(-0x1.555544p-3f));
  const Lane sine = t.h + fma(z * t.h, p, t.l);
  // (cos(h) - 1 + z / 2) / z^2 on the same; relative error of cos 1.2e-10.
  Lane q = Lane(0x1.99e70ap-16f);
  q = fma(q, z, Lane(-0x1.6c0c26p-10f));
  q = fma(q, z, Lane(0x1.55554ap-5f));
  const Lane half = z * Lane(0.5f);
  const Lane high = Lane(1.0f) - half;
  const Lane low = fma(-t.h, t.l, (Lane(1.0f) - high) - half);
  const Lane cosine = high + fma(z * z, q, low);
  const Lane y = select((t.n & Int(1)) == Int(0), sine, cosine);
  return as_float(as_int(y) ^ shift_left(t.n & Int(2), 30));
}

template <class Lane>
ISOBIT_FORMULA Lane sin(Lane x) {
  const Lane a = magnitude(x);
  const Lane y = select(a < Lane(0x1p-12f), x, sin_of_turns(reduce_quarter_turns(x)));
  return select(a < Lane(kInfinity), y, Lane(kNan));
}

template <class Lane>
ISOBIT_FORMULA Lane cos(Lane x) {
  QuarterTurns<Lane> t = reduce_quarter_turns(x);
  t.n = t.n + IntOf<Lane>(1);
  return select(magnitude(x) < Lane(kInfinity), sin_of_turns(t), Lane(kNan));
}

template <class Lane>
ISOBIT_FORMULA Lane sinpi(Lane x) {
  const Lane a = magnitude(x);
  Lane y = sin_of_turns(reduce_half_turns(a));
  y = select(y == Lane(0.0f), Lane(0.0f), y);
  y = as_float(as_int(y) ^ (as_int(x) & IntOf<Lane>(INT32_MIN)));
  return select(a < Lane(kInfinity), y, Lane(kNan));
}

template <class Lane>
ISOBIT_FORMULA Lane cospi(Lane x) {
  const Lane a = magnitude(x);
  QuarterTurns<Lane> t = reduce_half_turns(a);
  t.n = t.n + IntOf<Lane>(1);
  return select(a < Lane(kInfinity), sin_of_turns(t) + Lane(0.0f), Lane(kNan));
}

ISOBIT_CONTRACT_END
