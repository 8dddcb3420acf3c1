// log and log1p as fixed binary32 formulas (contract, section 2).
//
// Promises: as functions_exp.h. log(+-0) = log1p(-1) = -inf, below that NaN; log(inf) = inf; log1p keeps the
// sign of zero. Coefficients: Sollya 8, fpminimax. Host and device; no state.
#pragma once

#include "contract/formula.h"

ISOBIT_CONTRACT_BEGIN

// e ln 2 + log(1 + f + rest) for an integer e, f in [-0.2929, 0.4143], |rest| below half an ulp of f: e ln 2
// (its high part has 16 bits, so the product is exact) and f are added exactly, the others are small.
template <class Lane>
ISOBIT_FORMULA Lane log_of_parts(Lane e, Lane f, Lane rest) {
  // (log(1 + f) - f) / f^2 on [-0.2930, 0.41425]; relative error of log(1 + f) 4.2e-9.
  Lane q = Lane(-0x1.38513p-4f);
  q = fma(q, f, Lane(0x1.08648ep-3f));
  q = fma(q, f, Lane(-0x1.0f3fbep-3f));
  q = fma(q, f, Lane(0x1.226d9ep-3f));
  q = fma(q, f, Lane(-0x1.5425bcp-3f));
  q = fma(q, f, Lane(0x1.99a41cp-3f));
  q = fma(q, f, Lane(-0x1.000432p-2f));
  q = fma(q, f, Lane(0x1.55555p-2f));
  q = fma(q, f, Lane(-0x1.fffff8p-2f));
  const Lane base = e * Lane(0x1.62e4p-1f);
  const Lane high = base + f;
  const Lane low = fma(e, Lane(0x1.7f7d1cp-20f), (f - (high - base)) + rest);
  return high + fma(f * f, q, low);
}

// The bits of sqrt(1/2): an integer difference to them splits x into 2^e m, m in [0.7071, 1.4142].
inline constexpr std::int32_t kSqrtHalfBits = 0x3f3504f3;

template <class Lane>
ISOBIT_FORMULA Lane log(Lane x) {
  using Int = IntOf<Lane>;
  const auto subnormal = x < Lane(0x1p-126f);
  const Int bits = as_int(magnitude(select(subnormal, x * Lane(0x1p23f), x)));
  const Int e = shift_right(bits - Int(kSqrtHalfBits), 23);
  const Lane f = as_float(bits - shift_left(e, 23)) - Lane(1.0f);
  const Lane y = log_of_parts(to_float(select(subnormal, e - Int(23), e)), f, Lane(0.0f));
  const Lane special = select(x == Lane(0.0f), Lane(-kInfinity), Lane(kNan));
  return select(x > Lane(0.0f), select(x == Lane(kInfinity), x, y), special);
}

// 1 + x = 2^e (1 + f), f from x itself: s x + (s - 1), s = 2^-e, with its rounding error.
template <class Lane>
ISOBIT_FORMULA Lane log1p(Lane x) {
  using Int = IntOf<Lane>;
  const Int bits = as_int(magnitude(Lane(1.0f) + x));
  const Int e = shift_right(bits - Int(kSqrtHalfBits), 23);
  const Lane s = as_float(Int(0x3f800000) - shift_left(e, 23));
  const auto large = x > Lane(0x1p30f);  // 1 + x is x; s may not be a normal number
  const Lane of_large = as_float(bits - shift_left(e, 23)) - Lane(1.0f);
  const Lane f = select(large, of_large, fma(x, s, s - Lane(1.0f)));
  const Lane rest = select(large, Lane(0.0f), fma(x, s, (s - Lane(1.0f)) - f));
  Lane y = log_of_parts(to_float(e), f, rest);
  y = select(magnitude(x) < Lane(0x1p-25f), x, y);
  const Lane special = select(x == Lane(-1.0f), Lane(-kInfinity), Lane(kNan));
  return select(x > Lane(-1.0f), select(x == Lane(kInfinity), x, y), special);
}

ISOBIT_CONTRACT_END
