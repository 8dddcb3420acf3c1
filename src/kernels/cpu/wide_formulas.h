// The formulas of wide_functions.h, element by element: one text for host and device.
#pragma once

#include <cmath>

#include "contract/functions.h"
#include "contract/functions_wide.h"
#include "contract/remainder.h"
#include "kernels/wide_functions.h"

namespace isobit::kernels::ISOBIT_ISA {
namespace wide {

using contract::kInfinity;
using contract::kNan;

[[nodiscard]] ISOBIT_HOST_DEVICE inline float sinc(float x) {
  return x == 0.0f ? 1.0f : contract::sinpi(x) / (0x1.921fb6p+1f * x);
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
[[nodiscard]] ISOBIT_HOST_DEVICE inline float remainder(float a, float b) { return remainder_of(contract::exact_fmod(a, b), b); }
[[nodiscard]] ISOBIT_HOST_DEVICE inline float floor_divide(float a, float b) {
  return floor_of(a, b, contract::exact_fmod(a, b));
}
[[nodiscard]] ISOBIT_HOST_DEVICE inline float copysign(float a, float b) { return b != b ? ::fabsf(a) : ::copysignf(a, b); }
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
    case WideUnary::log2: return contract::log2(x);
    case WideUnary::log10: return contract::log10(x);
    case WideUnary::exp2: return contract::exp2(x);
    case WideUnary::sinh: return contract::sinh(x);
    case WideUnary::cosh: return contract::cosh(x);
    case WideUnary::tan: return contract::tan(x);
    case WideUnary::asin: return contract::asin(x);
    case WideUnary::acos: return contract::acos(x);
    case WideUnary::atan: return contract::atan(x);
    case WideUnary::asinh: return contract::asinh(x);
    case WideUnary::acosh: return contract::acosh(x);
    case WideUnary::atanh: return contract::atanh(x);
    case WideUnary::erfc: return contract::erfc(x);
    case WideUnary::logit: return contract::logit(x);
    case WideUnary::sinc: return sinc(x);
    case WideUnary::entropy: return entropy(x);
  }
  return kNan;
}
[[nodiscard]] ISOBIT_HOST_DEVICE inline float apply(WideBinary op, float a, float b) {
  switch (op) {
    case WideBinary::atan2: return contract::atan2(a, b);
    case WideBinary::hypot: return contract::hypot(a, b);
    case WideBinary::logaddexp: return contract::logaddexp(a, b);
    case WideBinary::logaddexp2: return contract::logaddexp2(a, b);
    case WideBinary::fmod: return contract::exact_fmod(a, b);
    case WideBinary::remainder: return remainder(a, b);
    case WideBinary::floor_divide: return floor_divide(a, b);
    case WideBinary::trunc_divide: return ::truncf(a / b);
    case WideBinary::copysign: return copysign(a, b);
    case WideBinary::fmaximum: return fmaximum(a, b);
    case WideBinary::fminimum: return fminimum(a, b);
    case WideBinary::heaviside: return heaviside(a, b);
    case WideBinary::xlog1py: return xlog1py(a, b);
    case WideBinary::nextafter: return contract::next_after(a, b);
    case WideBinary::logit_backward: return logit_backward(a, b);
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
