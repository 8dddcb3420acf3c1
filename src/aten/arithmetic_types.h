// What kernels may compute with: the contract defines arithmetic on binary32 and binary64, and integers are exact.
// 16-bit floats are widened before (aten/reduced_floats.h); complex numbers and smaller floats are moved, converted and
// compared, never computed with (docs/guard.md, "Types"). Thread-safe; no state.
#pragma once

#include <initializer_list>
#include <string_view>

#include <ATen/core/Tensor.h>
#include <c10/core/ScalarType.h>

#include "aten/refusal.h"

namespace isobit::aten {

inline bool has_arithmetic(c10::ScalarType type) {
  return c10::isIntegralType(type, true) || type == c10::ScalarType::Float || type == c10::ScalarType::Double;
}

[[noreturn]] inline void refuse_arithmetic(std::string_view op) {
  refuse(op, "takes only float32, float64, integers and bool",
         "convert the tensors first; keep real and imaginary parts of complex numbers in two tensors");
}

inline void require_arithmetic(std::string_view op, std::initializer_list<const at::Tensor*> tensors) {
  for (const at::Tensor* tensor : tensors) {
    if (!has_arithmetic(tensor->scalar_type())) refuse_arithmetic(op);
  }
}

}  // namespace isobit::aten
