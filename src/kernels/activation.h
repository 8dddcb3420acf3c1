// Activations with parameters, terms of losses and their gradients on contiguous arrays (contract, section 10).
//
// One written formula each (contract/activations.h). Parameters are binary64 rounded to binary32 by the caller.
// y may be one of the inputs. Thread-safe; uses the pool.
#pragma once

#include <cstdint>

#include "kernels/activation_list.h"
#include "kernels/operators.h"

namespace isobit::kernels {

// What an operator takes beside arrays; those it does not name are not read.
template <class T>
struct ParametersOf {
  T a = T(0), b = T(0), c = T(0);
};
using Parameters = ParametersOf<float>;

ISOBIT_OPERATORS(UnaryWith, ISOBIT_UNARY_WITH)
void unary_with(UnaryWith op, const Parameters& parameters, const float* x, float* y, std::int64_t n);
void unary_with(UnaryWith op, const ParametersOf<double>& parameters, const double* x, double* y, std::int64_t n);

ISOBIT_OPERATORS(BinaryWith, ISOBIT_BINARY_WITH)
void binary_with(BinaryWith op, const Parameters& parameters, const float* u, const float* v, float* y, std::int64_t n);
void binary_with(BinaryWith op, const ParametersOf<double>& parameters, const double* u, const double* v, double* y,
                 std::int64_t n);

ISOBIT_OPERATORS(TernaryWith, ISOBIT_TERNARY_WITH)
void ternary_with(TernaryWith op, const Parameters& parameters, const float* u, const float* v, const float* w,
                  float* y, std::int64_t n);
void ternary_with(TernaryWith op, const ParametersOf<double>& parameters, const double* u, const double* v,
                  const double* w, double* y, std::int64_t n);

}  // namespace isobit::kernels
