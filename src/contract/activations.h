// Activations with parameters, the terms of losses, and their gradients (contract, section 10).
//
// Templates over the lane type like pointwise.h: every operation is one IEEE operation in the order written here,
// scalars come rounded to the tensors' type, and a NaN input gives NaN. Host and device; no state.
#pragma once

#include <type_traits>

#include "contract/functions.h"

ISOBIT_CONTRACT_BEGIN

// elu: positive inputs times `scale`, others expm1(x * inner) * below; below = alpha * scale. selu and celu are elu.
template <class Lane>
ISOBIT_FORMULA Lane elu(Lane x, Lane below, Lane scale, Lane inner) {
  return select(x > Lane(0.0f), x * scale, expm1(x * inner) * below);
}
template <class Lane>
ISOBIT_FORMULA Lane elu_backward(Lane dy, Lane x, Lane below, Lane scale, Lane inner) {
  return select(x > Lane(0.0f), dy * scale, dy * (inner * (below * exp(x * inner))));
}
// From the result y, as after elu in place.
template <class Lane>
ISOBIT_FORMULA Lane elu_backward_of_result(Lane dy, Lane y, Lane below, Lane scale, Lane inner) {
  return select(y > Lane(0.0f), dy * scale, dy * (inner * (y + below)));
}

template <class Lane>
ISOBIT_FORMULA Lane mish(Lane x) {
  return x * tanh(log1p(exp(x)));
}
template <class Lane>
ISOBIT_FORMULA Lane mish_backward(Lane dy, Lane x) {
  const Lane t = tanh(log1p(exp(x)));
  return dy * fma(x * sigmoid(x), Lane(1.0f) - t * t, t);
}

template <class Lane>
ISOBIT_FORMULA Lane softplus(Lane x, Lane beta, Lane threshold) {
  const Lane scaled = x * beta;
  return select(scaled > threshold, x, log1p(exp(scaled)) / beta);
}
template <class Lane>
ISOBIT_FORMULA Lane softplus_backward(Lane dy, Lane x, Lane beta, Lane threshold) {
  const Lane scaled = x * beta;
  return select(scaled > threshold, dy, dy * sigmoid(scaled));
}

// clamp(x + 3, 0, 6)
template <class Lane>
ISOBIT_FORMULA Lane raised_clamp6(Lane x) {
  const Lane t = x + Lane(3.0f);
  const Lane raised = select(t < Lane(0.0f), Lane(0.0f), t);
  return select(raised > Lane(6.0f), Lane(6.0f), raised);
}
template <class Lane>
ISOBIT_FORMULA Lane hardsigmoid(Lane x) {
  return raised_clamp6(x) / Lane(6.0f);
}
template <class Lane>
ISOBIT_FORMULA Lane hardsigmoid_backward(Lane dy, Lane x) {
  return select((x <= Lane(-3.0f)) | (x >= Lane(3.0f)), Lane(0.0f), dy / Lane(6.0f));
}
template <class Lane>
ISOBIT_FORMULA Lane hardswish(Lane x) {
  return (x * raised_clamp6(x)) / Lane(6.0f);
}
template <class Lane>
ISOBIT_FORMULA Lane hardswish_backward(Lane dy, Lane x) {
  const Lane inside = select(x < Lane(3.0f), dy * (x / Lane(3.0f) + Lane(0.5f)), dy);
  return select(x <= Lane(-3.0f), Lane(0.0f), inside);
}

template <class Lane>
ISOBIT_FORMULA Lane softshrink(Lane x, Lane lambda) {
  const Lane inside = select(x != x, x, Lane(0.0f));
  return select(x > lambda, x - lambda, select(x < -lambda, x + lambda, inside));
}
// With v = x hardshrink, with v = dy its gradient and softshrink's.
template <class Lane>
ISOBIT_FORMULA Lane shrink(Lane v, Lane x, Lane lambda) {
  return select((x >= -lambda) & (x <= lambda), Lane(0.0f), v);
}

// log(sigmoid(x)) = min(x, 0) - log1p(exp(-|x|))
template <class Lane>
ISOBIT_FORMULA Lane log_sigmoid(Lane x) {
  return select(x > Lane(0.0f), Lane(0.0f), x) - log1p(exp(-magnitude(x)));
}
template <class Lane>
ISOBIT_FORMULA Lane log_sigmoid_backward(Lane dy, Lane x) {
  return dy * sigmoid(-x);
}

// prelu and rrelu: the slope is an element of its own.
template <class Lane>
ISOBIT_FORMULA Lane prelu(Lane x, Lane slope) {
  return select(x > Lane(0.0f), x, slope * x);
}
template <class Lane>
ISOBIT_FORMULA Lane prelu_backward(Lane dy, Lane x, Lane slope) {
  return select(x > Lane(0.0f), dy, slope * dy);
}
template <class Lane>
ISOBIT_FORMULA Lane prelu_slope_backward(Lane dy, Lane x) {
  return select(x > Lane(0.0f), Lane(0.0f), x * dy);
}

// ---- terms of losses, x the input, t the target

template <class Lane>
ISOBIT_FORMULA Lane squared_error(Lane x, Lane t) {
  const Lane d = x - t;
  return d * d;
}
// `twice` is 2, or RN(2 / n) under a mean.
template <class Lane>
ISOBIT_FORMULA Lane squared_error_backward(Lane x, Lane t, Lane twice, Lane dy) {
  return ((x - t) * twice) * dy;
}

template <class Lane>
ISOBIT_FORMULA Lane smooth_l1(Lane x, Lane t, Lane beta) {
  const Lane z = magnitude(x - t);
  return select(z < beta, ((Lane(0.5f) * z) * z) / beta, z - Lane(0.5f) * beta);
}
// `share` is 1, or RN(1 / n) under a mean.
template <class Lane>
ISOBIT_FORMULA Lane smooth_l1_backward(Lane dy, Lane x, Lane t, Lane beta, Lane share) {
  const Lane d = x - t;
  const Lane slope = select(d <= -beta, Lane(-1.0f), select(d >= beta, Lane(1.0f), d / beta));
  return (slope * share) * dy;
}
template <class Lane>
ISOBIT_FORMULA Lane huber(Lane x, Lane t, Lane delta) {
  const Lane z = magnitude(x - t);
  return select(z <= delta, (Lane(0.5f) * z) * z, delta * (z - Lane(0.5f) * delta));
}
template <class Lane>
ISOBIT_FORMULA Lane huber_backward(Lane dy, Lane x, Lane t, Lane delta, Lane share) {
  const Lane d = x - t;
  const Lane slope = select(d <= -delta, -delta, select(d >= delta, delta, d));
  return (slope * share) * dy;
}

// Logarithms below -100 count as -100, as in torch.
template <class Lane>
ISOBIT_FORMULA Lane binary_cross_entropy(Lane x, Lane t) {
  const Lane of_one = log(x), of_zero = log1p(-x);
  const Lane lowest(-100.0f);
  const Lane one = select(of_one < lowest, lowest, of_one), zero = select(of_zero < lowest, lowest, of_zero);
  return (t - Lane(1.0f)) * zero - t * one;
}
// RN(1e-12)
template <class Lane>
ISOBIT_HOST_DEVICE constexpr auto least_variance() {
  if constexpr (std::is_same_v<Lane, double>) {
    return 0x1.19799812dea11p-40;
  } else {
    return 0x1.197998p-40f;
  }
}
template <class Lane>
ISOBIT_FORMULA Lane binary_cross_entropy_backward(Lane dy, Lane x, Lane t, Lane share) {
  const Lane variance = (Lane(1.0f) - x) * x, least(least_variance<Lane>());
  const Lane below = select(variance < least, least, variance);
  return ((dy * (x - t)) / below) * share;
}

// x * log(y), +0 where x is a zero and y no NaN.
template <class Lane>
ISOBIT_FORMULA Lane xlogy(Lane x, Lane y) {
  return select((x == Lane(0.0f)) & (y == y), Lane(0.0f), x * log(y));
}

ISOBIT_CONTRACT_END
