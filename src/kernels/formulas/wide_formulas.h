// The formulas of wide_functions.h, element by element: one text for host and device.
#pragma once

#include <cmath>

#include "contract/functions.h"
#include "contract/functions_incomplete_gamma.h"
#include "contract/functions_normal.h"
#include "contract/functions_wide.h"
#include "contract/remainder.h"
#include "kernels/wide_functions.h"

namespace isobit::kernels::ISOBIT_ISA {
namespace wide {

using contract::kInfinity;
using contract::kNan;

template <class Lane>
ISOBIT_FORMULA Lane sinc(Lane x) {
  using contract::select;
  return select(x == Lane(0.0f), Lane(1.0f), contract::sinpi(x) / (Lane(0x1.921fb6p+1f) * x));
}
[[nodiscard]] ISOBIT_HOST_DEVICE inline float entropy(float x) {
  if (x != x) return kNan;
  return x > 0.0f ? -x * contract::log(x) : x == 0.0f ? 0.0f : -kInfinity;
}

// Of rest = fmod(a, b).
[[nodiscard]] ISOBIT_HOST_DEVICE inline float remainder_of(float rest, float b) {
  const float other = rest + b;
  return (rest != 0.0f) & ((b < 0.0f) != (rest < 0.0f)) ? other : rest;
}
[[nodiscard]] ISOBIT_HOST_DEVICE inline float floor_of(float a, float b, float rest) {
  const float plain = a / b, above = (a - rest) / b, below = above - 1.0f;
  const float quotient = (rest != 0.0f) & ((b < 0.0f) != (rest < 0.0f)) ? below : above;
  const float floor = ::floorf(quotient), next = floor + 1.0f;
  const float whole = quotient - floor > 0.5f ? next : floor;
  return b == 0.0f ? plain : quotient == 0.0f ? ::copysignf(0.0f, plain) : whole;
}
[[nodiscard]] ISOBIT_HOST_DEVICE inline float remainder(float a, float b) {
  return remainder_of(contract::exact_fmod(a, b), b);
}
[[nodiscard]] ISOBIT_HOST_DEVICE inline float floor_divide(float a, float b) {
  return floor_of(a, b, contract::exact_fmod(a, b));
}
template <class Lane>
ISOBIT_FORMULA Lane copysign(Lane a, Lane b) {
  using contract::select;
  const Lane size = contract::magnitude(a);
  return select(b != b, size, contract::with_sign_of(size, b));
}
[[nodiscard]] ISOBIT_HOST_DEVICE inline float fmaximum(float a, float b) {
  return a != a ? b : b != b ? a : a < b ? b : a == 0.0f && b == 0.0f ? 0.0f : a;
}
[[nodiscard]] ISOBIT_HOST_DEVICE inline float fminimum(float a, float b) {
  return a != a ? b : b != b ? a : b < a ? b : a == 0.0f && b == 0.0f ? 0.0f : a;
}
[[nodiscard]] ISOBIT_HOST_DEVICE inline float heaviside(float a, float b) {
  return a != a ? kNan : a < 0.0f ? 0.0f : a > 0.0f ? 1.0f : b;
}
[[nodiscard]] ISOBIT_HOST_DEVICE inline float xlog1py(float a, float b) {
  return a == 0.0f && b == b ? 0.0f : a * contract::log1p(b);
}
[[nodiscard]] ISOBIT_HOST_DEVICE inline float logit_backward(float dy, float x) {
  return x >= 0.0f && x <= 1.0f ? dy / (x * (1.0f - x)) : kNan;
}

[[nodiscard]] ISOBIT_HOST_DEVICE inline float apply(WideUnary op, float x) {
  switch (op) {
#define ISOBIT_CASE(name, formula, ...) \
  case WideUnary::name: return formula;
    ISOBIT_WIDE_UNARY(ISOBIT_CASE)
#undef ISOBIT_CASE
  }
  return kNan;
}
[[nodiscard]] ISOBIT_HOST_DEVICE inline float apply(WideBinary op, float a, float b) {
  switch (op) {
#define ISOBIT_CASE(name, formula, ...) \
  case WideBinary::name: return formula;
    ISOBIT_WIDE_BINARY(ISOBIT_CASE)
#undef ISOBIT_CASE
  }
  return kNan;
}

}  // namespace wide

struct WideUnaryFormula {
  WideUnary op;
  ISOBIT_HOST_DEVICE float operator()(float x) const { return wide::apply(op, x); }
};
struct WideBinaryFormula {
  WideBinary op;
  ISOBIT_HOST_DEVICE float operator()(float a, float b) const { return wide::apply(op, a, b); }
};

}  // namespace isobit::kernels::ISOBIT_ISA
