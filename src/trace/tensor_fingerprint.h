// Fingerprints of torch tensors and lists of them (contract, section 9).
//
// Dense CPU tensors of float32, float64, float16, bfloat16, int64, uint8 or bool with any strides; elements in logical
// order. Reads only. Throws std::invalid_argument for other types. Thread-safe; uses the kernels' pool.
#pragma once

#include <ATen/core/Tensor.h>

#include <string>
#include <vector>

#include "kernels/fingerprint.h"

namespace isobit::trace {

struct NamedTensor {
  std::string name;
  at::Tensor tensor;
};

[[nodiscard]] std::vector<NamedTensor> sorted_by_name(std::vector<NamedTensor> tensors);  // by UTF-8 bytes

[[nodiscard]] kernels::Fingerprint fingerprint(const at::Tensor& tensor);
// Of the list, whatever its order: sorted by UTF-8 name first.
[[nodiscard]] kernels::Fingerprint fingerprint(std::vector<NamedTensor> tensors);

// "float32", "float64", "float16", "bfloat16", "int64", "uint8", "bool".
[[nodiscard]] const char* dtype_name(const at::Tensor& tensor);

}  // namespace isobit::trace
