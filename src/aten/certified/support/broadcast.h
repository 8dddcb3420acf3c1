// One IEEE operation per element over broadcast tensors on a device (kernels/elementwise.h): strides and numbers go to
// the kernel as they are, nothing is copied. Private to this folder. Thread-safe.
#pragma once

#include "aten/certified/support/tensors.h"
#include "kernels/elementwise.h"

namespace isobit::aten {

// Results are contiguous. Types are promoted as in pointwise.h.
[[nodiscard]] at::Tensor exact_new(std::string_view op, kernels::ExactBinary kind, const at::Tensor& a,
                                   const at::Tensor& b);
at::Tensor& exact_out(std::string_view op, kernels::ExactBinary kind, const at::Tensor& a, const at::Tensor& b,
                      at::Tensor& out);
at::Tensor& exact_in_place(std::string_view op, kernels::ExactBinary kind, at::Tensor& a, const at::Tensor& b);

// kernel(shape, operand, y)
using ExactKernel = void (*)(const kernels::ElementShape&, const kernels::Operand&, float*, const void* context);
[[nodiscard]] at::Tensor exact_new(std::string_view op, const at::Tensor& x, ExactKernel kernel,
                                   const void* context = nullptr);
at::Tensor& exact_out(std::string_view op, const at::Tensor& x, at::Tensor& out, ExactKernel kernel,
                      const void* context = nullptr);

}  // namespace isobit::aten
