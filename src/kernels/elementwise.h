// Operators of one IEEE operation per element over broadcast, strided inputs (contract, section 1).
//
// The bits are those of torch's CPU operators of the same names; the CPU itself keeps stock's. y is contiguous
// in the shape's order and may be the data of an operand that is contiguous, too. Thread-safe; uses the pool.
#pragma once

#include <cstdint>

#include "kernels/elementwise_list.h"
#include "kernels/operators.h"

namespace isobit::kernels {

inline constexpr int kMostDimensions = 16;

struct ElementShape {
  int rank = 0;  // 0: one element
  std::int64_t size[kMostDimensions] = {};
};

// An array seen through the shape or, where data is null, one value for every element.
struct Operand {
  const float* data = nullptr;
  float value = 0.0f;                         // a scalar, rounded to binary32 before it comes here
  std::int64_t stride[kMostDimensions] = {};  // in elements; 0 repeats the dimension, negative ones are allowed
};

ISOBIT_OPERATORS(ExactBinary, ISOBIT_EXACT_BINARY)
void exact_binary(ExactBinary op, const ElementShape& shape, const Operand& a, const Operand& b, float* y);

ISOBIT_OPERATORS(ExactUnary, ISOBIT_EXACT_UNARY)
void exact_unary(ExactUnary op, const ElementShape& shape, const Operand& x, float* y);

// x <= limit ? value : x (NaN stays)
void threshold(const ElementShape& shape, const Operand& x, float limit, float value, float* y);

// y[0] .. y[n - 1] = value
void fill(float value, float* y, std::int64_t n);

}  // namespace isobit::kernels
