// The three kernels of conv2d.h in this vector build, a file each.
#pragma once

#include "kernels/conv2d.h"

namespace isobit::kernels::ISOBIT_ISA {

void conv2d_forward(const Conv2dShape& s, const float* x, const float* weight, const float* bias, float* y);
void conv2d_input_gradient(const Conv2dShape& s, const float* dy, const float* weight, float* dx);
void conv2d_weight_gradient(const Conv2dShape& s, const float* x, const float* dy, float* dweight);

}  // namespace isobit::kernels::ISOBIT_ISA
