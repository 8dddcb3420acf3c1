// Point-wise operators and their gradients, one written formula each (contract, section 10).
//
// Templates over the lane type, built from the elementary functions: every operation is one IEEE operation in
// the order written here. Scalars of an operator are rounded to the tensors' type before they come here.
// Host and device; no state.
#pragma once

#include "contract/extrema.h"
#include "contract/functions.h"

ISOBIT_CONTRACT_BEGIN

// Rounded to the lane's type.
template <class Lane>
struct GeluConstants {
  static constexpr float kSqrtHalf = 0x1.6a09e6p-1f;          // sqrt(1/2)
  static constexpr float kInverseSqrtTwoPi = 0x1.988454p-2f;  // 1 / sqrt(2 pi)
  static constexpr float kSqrtTwoOverPi = 0x1.988454p-1f;     // sqrt(2 / pi)
  static constexpr float kCubic = 0x1.6e4e26p-5f;             // 0.044715
};
template <>
struct GeluConstants<double> {
  static constexpr double kSqrtHalf = 0x1.6a09e667f3bcdp-1;
  static constexpr double kInverseSqrtTwoPi = 0x1.9884533d43651p-2;
  static constexpr double kSqrtTwoOverPi = 0x1.9884533d43651p-1;
  static constexpr double kCubic = 0x1.6e4e26d4801f7p-5;
};

template <class Lane>
ISOBIT_FORMULA Lane relu(Lane x) {
  return select(x < Lane(0.0f), Lane(0.0f), x);
}
// x is the input or the output; a NaN there lets dy through, as torch's threshold_backward does.
template <class Lane>
ISOBIT_FORMULA Lane relu_backward(Lane dy, Lane x) {
  return select(x <= Lane(0.0f), Lane(0.0f), dy);
}

template <class Lane>
ISOBIT_FORMULA Lane leaky_relu(Lane x, Lane slope) {
  return select(x > Lane(0.0f), x, x * slope);
}
template <class Lane>
ISOBIT_FORMULA Lane leaky_relu_backward(Lane dy, Lane x, Lane slope) {
  return select(x > Lane(0.0f), dy, dy * slope);
}

// The upper bound is applied last: low > high gives high everywhere. NaN stays.
template <class Lane>
ISOBIT_FORMULA Lane clamp(Lane x, Lane low, Lane high) {
  const Lane raised = select(x < low, low, x);
  return select(raised > high, high, raised);
}
// hardtanh: nothing passes at or beyond a bound; a NaN input lets dy through.
template <class Lane>
ISOBIT_FORMULA Lane hardtanh_backward(Lane dy, Lane x, Lane low, Lane high) {
  return select((x <= low) | (x >= high), Lane(0.0f), dy);
}

template <class Lane>
ISOBIT_FORMULA Lane sigmoid_backward(Lane dy, Lane y) {
  return dy * (y * (Lane(1.0f) - y));
}
template <class Lane>
ISOBIT_FORMULA Lane tanh_backward(Lane dy, Lane y) {
  return dy * (Lane(1.0f) - y * y);
}

template <class Lane>
ISOBIT_FORMULA Lane silu(Lane x) {
  return x * sigmoid(x);
}
template <class Lane>
ISOBIT_FORMULA Lane silu_backward(Lane dy, Lane x) {
  const Lane s = sigmoid(x);
  return dy * (s * fma(x, Lane(1.0f) - s, Lane(1.0f)));
}

template <class Lane>
ISOBIT_FORMULA Lane gelu(Lane x) {
  return (Lane(0.5f) * x) * (Lane(1.0f) + erf(x * Lane(GeluConstants<Lane>::kSqrtHalf)));
}
template <class Lane>
ISOBIT_FORMULA Lane gelu_backward(Lane dy, Lane x) {
  const Lane cumulative = Lane(0.5f) * (Lane(1.0f) + erf(x * Lane(GeluConstants<Lane>::kSqrtHalf)));
  const Lane density = exp_below((x * x) * Lane(-0.5f)) * Lane(GeluConstants<Lane>::kInverseSqrtTwoPi);
  return dy * fma(x, density, cumulative);
}

// gelu with approximate="tanh".
template <class Lane>
ISOBIT_FORMULA Lane gelu_tanh(Lane x) {
  const Lane inner = Lane(GeluConstants<Lane>::kSqrtTwoOverPi) * fma(Lane(GeluConstants<Lane>::kCubic) * (x * x), x, x);
  return (Lane(0.5f) * x) * (Lane(1.0f) + tanh(inner));
}
template <class Lane>
ISOBIT_FORMULA Lane gelu_tanh_backward(Lane dy, Lane x) {
  const Lane square = x * x;
  const Lane t =
      tanh(Lane(GeluConstants<Lane>::kSqrtTwoOverPi) * fma(Lane(GeluConstants<Lane>::kCubic) * square, x, x));
  const Lane slope =
      Lane(GeluConstants<Lane>::kSqrtTwoOverPi) * fma(Lane(3.0f * GeluConstants<Lane>::kCubic), square, Lane(1.0f));
  const Lane left = Lane(0.5f) * (Lane(1.0f) + t);
  const Lane right = (Lane(0.5f) * x) * ((Lane(1.0f) - t * t) * slope);
  return dy * (left + right);
}

template <class Lane>
ISOBIT_FORMULA Lane add_scaled(Lane a, Lane b, Lane alpha) {
  return fma(alpha, b, a);
}
template <class Lane>
ISOBIT_FORMULA Lane addcmul(Lane a, Lane b, Lane c, Lane value) {
  return fma(value * b, c, a);
}
template <class Lane>
ISOBIT_FORMULA Lane addcdiv(Lane a, Lane b, Lane c, Lane value) {
  return fma(value, b / c, a);
}

// x to the power +-(whole + half / 2): whole's binary digits from the top, y = y * y, then y = y * x where
// the digit is 1; times sqrt(x) where half is set; its reciprocal where negative. Power 0 is 1, for NaN too.
struct ProductPower {
  std::int32_t whole;
  bool half, negative;
};
// Whether p has that form with |p| <= 32; its relative error is then below 2 |p| + 2 ulp.
[[nodiscard]] ISOBIT_HOST_DEVICE inline bool as_product_power(double p, ProductPower& power) {
  const double magnitude = p < 0 ? -p : p;
  if (!(magnitude <= 32.0)) return false;
  const std::int32_t halves = static_cast<std::int32_t>(magnitude * 2.0);
  if (static_cast<double>(halves) != magnitude * 2.0) return false;
  power = {halves / 2, halves % 2 != 0, p < 0};
  return true;
}
template <class Lane>
ISOBIT_FORMULA Lane product_power(Lane x, ProductPower power) {
  Lane y = Lane(1.0f);
  if (power.whole > 0) {
    int digit = 0;
    while (power.whole >> (digit + 1)) ++digit;
    y = x;
    while (digit-- > 0) {
      y = y * y;
      if (power.whole >> digit & 1) y = y * x;
    }
  }
  if (power.half) y = power.whole > 0 ? y * sqrt(x) : sqrt(x);
  return power.negative ? Lane(1.0f) / y : y;
}

ISOBIT_CONTRACT_END
