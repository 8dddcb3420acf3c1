// exp, expm1, sigmoid and tanh as fixed binary32 formulas (contract, section 2).
//
// Promises: the same bits from every compiler, machine and lane type; error below 1.5 ulp over all 2^32
// inputs, subnormal results included (the figures stand in docs/contract.md); NaN gives NaN; exp(-inf) = +0,
// expm1(-inf) = -1, sigmoid(-inf) = +0; expm1 and tanh keep the sign of zero.
// Coefficients: Sollya 8, fpminimax with binary32 coefficients on the stated range, relative error unless
// said otherwise. Host and device; no state.
#pragma once

#include "contract/formula.h"

ISOBIT_CONTRACT_BEGIN

// x = n ln 2 + r, |r| < 0.3467. The first step of r is exact (fma; n ln2 and x share their last place).
template <class Lane>
struct ExpArgument {
  IntOf<Lane> n;
  Lane r, whole;  // whole: n as a float
};

template <class Lane>
ISOBIT_FORMULA ExpArgument<Lane> reduce_exp(Lane x) {
  const Lane shifted = fma(x, Lane(0x1.715476p0f), Lane(kRoundingShift));
  const Lane n = shifted - Lane(kRoundingShift);
  const Lane r = fma(n, Lane(-0x1.62e43p-1f), x);
  return {rounded_int(shifted), fma(n, Lane(0x1.05c61p-29f), r), n};
}

// (e^r - 1 - r) / r^2 on [-0.34668, 0.34668]; e^r has a relative error of 2^-28.
template <class Lane>
ISOBIT_FORMULA Lane exp_tail(Lane r) {
  Lane q = Lane(0x1.685136p-10f);
  q = fma(q, r, Lane(0x1.123bd6p-7f));
  q = fma(q, r, Lane(0x1.555b98p-5f));
  q = fma(q, r, Lane(0x1.55548ep-3f));
  return fma(q, r, Lane(0x1.fffff8p-2f));
}

// y * 2^n in two products, so that only a subnormal result is rounded a second time; -254 <= n < 300, 2^-100 < y < 2 or
// y is NaN. `whole` is n as a float, for lanes that have an instruction of it (cpu/vector/lanes.h: the same bits).
template <class Lane>
ISOBIT_FORMULA Lane scale(Lane y, IntOf<Lane> n, [[maybe_unused]] Lane whole) {
  const IntOf<Lane> exponents = n + IntOf<Lane>(254);  // of both powers, biased
  const IntOf<Lane> half = shift_right(exponents, 1);
  return y * as_float(shift_left(half, 23)) * as_float(shift_left(exponents - half, 23));
}
// Where x may begin: below -104 e^x is +0, and here n is -254, both powers of scale() are 0, and so is their product
// without rounding. An Intel Xeon takes some 200 cycles for a product that is rounded to less than a normal number, and
// masked elements of attention are e^-infinity.
template <class Lane>
ISOBIT_FORMULA Lane least_exponent() {
  return Lane(-176.0625f);
}
// The same where 2^n and the result are normal.
template <class Lane>
ISOBIT_FORMULA Lane scale_normal(Lane y, IntOf<Lane> n, [[maybe_unused]] Lane whole) {
  return y * power_of_two<Lane>(n);
}

// e^r = 1 + r + r^2 q.
template <class Lane>
ISOBIT_FORMULA Lane exp_of_rest(Lane r) {
  return Lane(1.0f) + fma(r * r, exp_tail(r), r);
}
// exp(x) for x <= 89 or NaN: the same bits.
template <class Lane>
ISOBIT_FORMULA Lane exp_below(Lane x) {
  const ExpArgument<Lane> a = reduce_exp(at_least(x, least_exponent<Lane>()));
  return scale(exp_of_rest(a.r), a.n, a.whole);
}
template <class Lane>
ISOBIT_FORMULA Lane exp(Lane x) {
  return exp_below(at_most(x, Lane(89.0f)));  // already infinite
}
// exp(x) for -87 < x < 88 or NaN: the same bits.
template <class Lane>
ISOBIT_FORMULA Lane exp_within(Lane x) {
  const ExpArgument<Lane> a = reduce_exp(x);
  return scale_normal(exp_of_rest(a.r), a.n, a.whole);
}

// 2^n (1 + p) - 1, halved so that n = 128 fits: the large parts are added exactly (Dekker's fast two-sum).
template <class Lane>
ISOBIT_FORMULA Lane expm1(Lane x) {
  const Lane from = x;
  x = at_least(at_most(x, Lane(89.0f)), Lane(-20.0f));  // infinite, or already -1
  const ExpArgument<Lane> a = reduce_exp(x);
  // (e^r - 1 - r) / r^2 on [-0.34668, 0.34668], fitted for the relative error of e^r - 1: 1.4e-8.
  Lane q = Lane(0x1.6b6ecap-10f);
  q = fma(q, a.r, Lane(0x1.1228ccp-7f));
  q = fma(q, a.r, Lane(0x1.55571ap-5f));
  q = fma(q, a.r, Lane(0x1.5554aep-3f));
  q = fma(q, a.r, Lane(0x1.fffffep-2f));
  const Lane half_power = power_of_two<Lane>(a.n - IntOf<Lane>(1));
  const Lane base = half_power - Lane(0.5f);
  const Lane linear = half_power * a.r;
  const Lane high = base + linear;
  const Lane low = linear - (high - base);
  const Lane y = high + fma(half_power, (a.r * a.r) * q, low);
  return select(magnitude(from) < Lane(0x1p-24f), from, y + y);
}

// e^-|x| as 2^n (h + l); the quotient 1 / (1 + e) or e / (1 + e) gets one correction step.
template <class Lane>
ISOBIT_FORMULA Lane sigmoid(Lane x) {
  const Lane minus = at_least(-magnitude(x), least_exponent<Lane>());
  const ExpArgument<Lane> a = reduce_exp(minus);
  const Lane p = fma(a.r * a.r, exp_tail(a.r), a.r);
  const Lane h = Lane(1.0f) + p;
  const Lane l = p - (h - Lane(1.0f));
  const IntOf<Lane> least = IntOf<Lane>(-60);  // below it 1 + e is 1
  const Lane power = power_of_two<Lane>(select(a.n < least, least, a.n));
  const Lane denominator = Lane(1.0f) + power * h;
  const Lane denominator_low = fma(power, l, power * h - (denominator - Lane(1.0f)));
  const auto negative = x < Lane(0.0f);
  const Lane numerator = select(negative, h, Lane(1.0f));
  const Lane numerator_low = select(negative, l, Lane(0.0f));
  const Lane inverse = Lane(1.0f) / denominator;
  const Lane quotient = numerator * inverse;
  const Lane rest = fma(-quotient, denominator, numerator) + fma(-quotient, denominator_low, numerator_low);
  return scale(fma(rest, inverse, quotient), select(negative, a.n, IntOf<Lane>(0)),
               select(negative, a.whole, Lane(0.0f)));
}

// Below 1 a polynomial, from there on 1 - 2 / (e^2|x| + 1).
template <class Lane>
ISOBIT_FORMULA Lane tanh(Lane x) {
  const Lane a = magnitude(x);
  const Lane z = a * a;
  // (tanh(a) / a - 1) / z on z in [0, 1]; relative error of tanh 5.1e-9.
  Lane p = Lane(-0x1.75f4aep-12f);
  p = fma(p, z, Lane(0x1.2cc77ap-9f));
  p = fma(p, z, Lane(-0x1.041158p-7f));
  p = fma(p, z, Lane(0x1.5fed1ap-6f));
  p = fma(p, z, Lane(-0x1.b95cdap-5f));
  p = fma(p, z, Lane(0x1.110ba6p-3f));
  p = fma(p, z, Lane(-0x1.55553ap-2f));
  const Lane near = fma(z * a, p, a);
  const Lane e = exp_within(at_most(a + a, Lane(44.0f)));  // from 17.4 on the result is 1
  const Lane far = Lane(1.0f) - Lane(2.0f) / (e + Lane(1.0f));
  return with_sign_of(select(a < Lane(1.0f), near, far), x);
}

ISOBIT_CONTRACT_END
