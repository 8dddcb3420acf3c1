// erf as a fixed binary32 formula (contract, section 2).
//
// Promises: as functions_exp.h; erf keeps the sign of zero, erf(+-inf) = +-1. Host and device; no state.
#pragma once

#include "contract/functions_exp.h"

ISOBIT_CONTRACT_BEGIN

// Below 1 a polynomial, from there on 1 - e^-P(|x|).
template <class Lane>
ISOBIT_FORMULA Lane erf(Lane x) {
  const Lane a = magnitude(x);
  const Lane z = a * a;
  // erf(a) / a - 1 on z in [0, 1]; absolute error 1.3e-9 (Sollya 8, fpminimax).
  Lane p = Lane(0x1.4c5cb4p-14f);
  p = fma(p, z, Lane(-0x1.a5197ap-11f));
  p = fma(p, z, Lane(0x1.542fecp-8f));
  p = fma(p, z, Lane(-0x1.b7fec4p-6f));
  p = fma(p, z, Lane(0x1.ce2d52p-4f));
  p = fma(p, z, Lane(-0x1.81274p-2f));
  p = fma(p, z, Lane(0x1.06eba8p-3f));
  const Lane near = fma(a, p, a);
  // -log(1 - erf(b)) on [1, 4]; error times 1 - erf(b) 3.1e-9 (Sollya 8, remez with that weight, rounded).
  const Lane b = at_most(a, Lane(4.0f));  // from 3.92 on the result is 1
  Lane q = Lane(-0x1.852d46p-13f);
  q = fma(q, b, Lane(0x1.814cd8p-9f));
  q = fma(q, b, Lane(-0x1.654222p-6f));
  q = fma(q, b, Lane(0x1.a60a82p-4f));
  q = fma(q, b, Lane(0x1.46c584p-1f));
  q = fma(q, b, Lane(0x1.2085b2p0f));
  q = fma(q, b, Lane(0x1.72e6ecp-12f));
  const Lane far = Lane(1.0f) - exp_within(-q);  // q < 18
  return with_sign_of(select(a < Lane(1.0f), near, far), x);
}

ISOBIT_CONTRACT_END
