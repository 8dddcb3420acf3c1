// Activations with parameters, terms of losses and their gradients on contiguous arrays (contract, section 10).
//
// One written formula each (contract/activations.h). Parameters are binary64 rounded to binary32 by the caller.
// y may be one of the inputs. Thread-safe; uses the pool.
#pragma once

#include <cstdint>

namespace isobit::kernels {

// What an operator takes beside arrays; those it does not name are not read.
struct Parameters {
  float a = 0.0f, b = 0.0f, c = 0.0f;
};

enum class UnaryWith {
  elu,          // a = alpha * scale, b = scale, c = input_scale
  mish,
  softplus,     // a = beta, b = threshold
  hardsigmoid,
  hardswish,
  softshrink,   // a = lambda
  hardshrink,   // a = lambda
  log_sigmoid,
};
void unary_with(UnaryWith op, const Parameters& parameters, const float* x, float* y, std::int64_t n);

enum class BinaryWith {
  elu_backward,            // (dy, x), as elu
  elu_backward_of_result,  // (dy, y), as elu
  mish_backward,           // (dy, x), and so on
  softplus_backward,
  hardsigmoid_backward,
  hardswish_backward,
  shrink_backward,         // of softshrink and hardshrink; a = lambda
  log_sigmoid_backward,
  prelu,                   // (x, slope)
  prelu_slope_backward,    // (dy, x): the slope's gradient, element by element
  smooth_l1,               // (x, target), a = beta
  huber,                   // (x, target), a = delta
  binary_cross_entropy,    // (x, target)
  xlogy,                   // (x, y)
};
void binary_with(BinaryWith op, const Parameters& parameters, const float* u, const float* v, float* y, std::int64_t n);

enum class TernaryWith {
  prelu_backward,                 // (dy, x, slope)
  smooth_l1_backward,             // (dy, x, target), a = beta, b = share: 1, or RN(1 / n) under a mean
  huber_backward,                 // (dy, x, target), a = delta, b = share
  binary_cross_entropy_backward,  // (dy, x, target), b = share
};
void ternary_with(TernaryWith op, const Parameters& parameters, const float* u, const float* v, const float* w, float* y,
                  std::int64_t n);

}  // namespace isobit::kernels
