// Products of the exact tier (contract, section 17): sums of integers, so that no order, tile or thread decides a bit.
//
// Shapes, strides, alpha, beta, addend and bias are those of matmul.h and conv2d.h; what those call the tree is here
// the product rounded once. Any magnitude is taken; a row that is not finite makes its outputs NaN. On hosts and
// devices. Outputs must not overlap inputs. Thread-safe; uses the pool.
#pragma once

#include "kernels/conv2d.h"
#include "kernels/matmul.h"

namespace isobit::kernels {

void exact3_matmul(const MatmulProblem& problem);

// bias: [co] or nullptr.
void exact3_conv2d_forward(const Conv2dShape& shape, const float* x, const float* weight, const float* bias, float* y);
void exact3_conv2d_input_gradient(const Conv2dShape& shape, const float* dy, const float* weight, float* dx);
void exact3_conv2d_weight_gradient(const Conv2dShape& shape, const float* x, const float* dy, float* dweight);

}  // namespace isobit::kernels
