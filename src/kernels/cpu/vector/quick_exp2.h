// 2^x by sums of two binary32 numbers: the same idea as quick_functions.h on twice as many lanes.
//
// x = n + j/16 + offset[j] + r: offset is chosen so that 2^(j/16 + offset) lies within 2^-42.9 of a binary32 number,
// the power (Gal, "Computing elementary functions: a new approach for achieving high accuracy and good performance",
// 1986). Offsets are multiples of 2^-28, 0 for j = 0, and at most 2^-10, so that r is exact and at most 0.0323. Then
//   2^r power = power + slope r + power r^2 q(r),   slope = power ln 2, of two binary32 numbers,
// with q of degree 2. Errors, of sums below 2: q's coefficients 2.4e-11, q's evaluation 1.6e-11, r^2 and its product
// with q 3e-11 each, the last three additions of numbers below 2^-10 2.9e-11 each: 1.9e-10 in all. Include only from
// cpu/vector/*.cpp and their tests.
#pragma once

#include "contract/functions_wide.h"

namespace isobit::kernels::ISOBIT_ISA::quick {

inline constexpr float kExp2Error = 0x1.ap-33f;
// Beyond it results may be no normal numbers.
inline constexpr float kExp2Largest = 125.0f;

struct Exp2Table {
  alignas(64) float offset[16], power[16], slope[16], slope_low[16];
};
inline constexpr Exp2Table kExp2Table = {
    {0x0p+0f, 0x1.86aep-12f, 0x1.02f7p-12f, 0x1.89b7p-12f, -0x1.be248p-11f, -0x1.870ep-13f, 0x1.deb88p-11f,
     0x1.af88p-15f, 0x1.9bacp-12f, 0x1.e92ap-11f, 0x1.202p-11f, -0x1.ebf7p-11f, 0x1.eb1fp-11f, -0x1.22d98p-11f,
     -0x1.35998p-11f, -0x1.088p-11f},
    {0x1p+0f, 0x1.0b6734p+0f, 0x1.1737cp+0f, 0x1.239b14p+0f, 0x1.3041ecp+0f, 0x1.3ddfep+0f, 0x1.4c337cp+0f,
     0x1.5ab3a8p+0f, 0x1.6a232p+0f, 0x1.7a4fe4p+0f, 0x1.8af4d6p+0f, 0x1.9c0478p+0f, 0x1.aed19p+0f, 0x1.c16d7ep+0f,
     0x1.d5505ep+0f, 0x1.ea1f18p+0f},
    {0x1.62e43p-1f, 0x1.72b31p-1f, 0x1.8313fap-1f, 0x1.94405ep-1f, 0x1.a5ca5cp-1f, 0x1.b8aaeap-1f, 0x1.cc874ep-1f,
     0x1.e0a178p-1f, 0x1.f6075ep-1f, 0x1.0639d8p+0f, 0x1.11c34ep+0f, 0x1.1d96b8p+0f, 0x1.2a9ee6p+0f, 0x1.3785p+0f,
     0x1.454dbap+0f, 0x1.53b9fp+0f},
    {-0x1.05c61p-29f, -0x1.b6d31cp-29f, -0x1.20c87cp-26f, 0x1.810352p-27f, 0x1.c6958ep-31f, 0x1.52529ap-26f,
     -0x1.e48f6p-27f, -0x1.85b1acp-26f, -0x1.501dcp-26f, -0x1.744584p-26f, -0x1.0bdb32p-29f, -0x1.dd3ceap-26f,
     0x1.c009c2p-27f, 0x1.e8069ap-25f, 0x1.70cb4p-25f, -0x1.581e4ep-25f}};

// table[index mod 16]; lanes have theirs (lanes.h).
inline float look_up(const float* table, std::int32_t index) { return table[index & 15]; }

// 2^x is (sum + rest) 2^n to within kExp2Error 2^n, `power` n in an exponent's place; for abs(x) <= kExp2Largest.
template <class Lane>
struct Exp2Sum {
  Lane sum, rest;
  contract::IntOf<Lane> power;
};
template <class Lane>
ISOBIT_FORMULA Exp2Sum<Lane> exp2_sum(Lane x) {
  using contract::as_int, contract::fma, contract::shift_left;
  using Int = contract::IntOf<Lane>;
  const Lane shift(0x1.8p19f), shifted = x + shift;  // in sixteenths, which stand in the last bits
  const Int index = as_int(shifted);
  const Lane r = (x - (shifted - shift)) - look_up(kExp2Table.offset, index);
  const Lane power = look_up(kExp2Table.power, index), slope = look_up(kExp2Table.slope, index);
  const Lane first = slope * r;
  const Lane rest = fma(look_up(kExp2Table.slope_low, index), r, fma(slope, r, -first));
  const Lane q = fma(fma(Lane(0x1.3b2bb8p-7f), r, Lane(0x1.c6b2bcp-5f)), r, Lane(0x1.ebfbep-3f));
  const Lane sum = power + first;
  return {sum, ((power - sum) + first) + fma(power, (r * r) * q, rest),
          shift_left(index, 19) & Int(static_cast<std::int32_t>(0xff800000u))};
}

}  // namespace isobit::kernels::ISOBIT_ISA::quick
