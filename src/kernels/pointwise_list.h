// The operators of pointwise.h that are a formula of one or two numbers: a line each makes enum, implementations,
// certified operators, tests and golden values.
//
// Columns:
//   name
//   formula     of v, or of u and v, over the lane type (kernels/formulas/pointwise_formulas.h)
//   operator    PyTorch's, without aten::
// and of one argument
//   overloads   in_place: a new result, out and in place; by_hand: another signature or integers of its own, written in
//               aten/certified/unary.cpp; none: used by other operators only
//   section     the contract's, in words; `function`: "2: fixed binary32 formula"
// Of two arguments: relu_backward (dy, x or y): x <= 0 ? +0 : dy, of a NaN dy; sigmoid_backward (dy, y): dy * (y * (1 -
// y)); tanh_backward (dy, y): dy * (1 - y * y), y * y rounded; silu_backward (dy, x): s = sigmoid(x); dy * (s * fma(x,
// 1 - s, 1)); gelu's (dy, x): docs/contract.md, section 10; maximum and minimum: section 1's.
#pragma once

// clang-format off
#define ISOBIT_UNARY(f) \
  f(exp,        contract::exp(v),        exp,         in_place,  function) \
  f(expm1,      contract::expm1(v),      expm1,       in_place,  function) \
  f(log,        contract::log(v),        log,         in_place,  function) \
  f(log1p,      contract::log1p(v),      log1p,       in_place,  function) \
  f(tanh,       contract::tanh(v),       tanh,        in_place,  function) \
  f(sigmoid,    contract::sigmoid(v),    sigmoid,     in_place,  function) \
  f(erf,        contract::erf(v),        erf,         in_place,  function) \
  f(sin,        contract::sin(v),        sin,         in_place,  function) \
  f(cos,        contract::cos(v),        cos,         in_place,  function) \
  f(sinpi,      contract::sinpi(v),      sinpi,       none,      function) \
  f(cospi,      contract::cospi(v),      cospi,       none,      function) \
  f(relu,       contract::relu(v),       relu,        by_hand,   "1: x < 0 ? +0 : x")     /* NaN stays NaN, -0 stays -0 */ \
  f(rsqrt,      contract::rsqrt(v),      rsqrt,       in_place,  "2: 1 / sqrt(x)") \
  f(silu,       contract::silu(v),       silu,        in_place,  "2: x * sigmoid(x)") \
  f(gelu,       contract::gelu(v),       gelu,        by_hand,   "2: (0.5 * x) * (1 + erf(x * RN(sqrt(1/2))))") \
  f(gelu_tanh,  contract::gelu_tanh(v),  gelu,        by_hand,   "10: gelu by tanh") \
  f(square,     v * v,                   square,      none,      "2: x * x") \
  f(reciprocal, Lane(1.0f) / v,          reciprocal,  in_place,  "2: 1 / x") \
  /* Stock takes MKL's vector square root, which is not correctly rounded (a sixth of all results on AVX-512). */ \
  f(sqrt,       sqrt(v),                 sqrt,        in_place,  "2: IEEE square root")

#define ISOBIT_BINARY(f) \
  f(maximum,            contract::maximum(u, v),             maximum) \
  f(minimum,            contract::minimum(u, v),             minimum) \
  f(relu_backward,      contract::relu_backward(u, v),       threshold_backward) \
  f(sigmoid_backward,   contract::sigmoid_backward(u, v),    sigmoid_backward) \
  f(tanh_backward,      contract::tanh_backward(u, v),       tanh_backward) \
  f(silu_backward,      contract::silu_backward(u, v),       silu_backward) \
  f(gelu_backward,      contract::gelu_backward(u, v),       gelu_backward) \
  f(gelu_tanh_backward, contract::gelu_tanh_backward(u, v),  gelu_backward)
// clang-format on
