// torch.empty under the switch: memory that the program asks for and has not written holds NaN (the largest value of an
// integer type, true of bool), as PyTorch's own fill_uninitialized_memory does it, so that what reads it is found at
// once and repeats. Memory that an operator allocates for itself is its own to write and stays as it is.
//
// Thread-safe; no state of its own.
#pragma once

#include <string_view>

#include <ATen/core/boxing/KernelFunction.h>

namespace isobit::aten {

// Calls stock's allocation, then fills what it gave, where the program called and no other operator.
[[nodiscard]] c10::KernelFunction filling_kernel(std::string_view full_name);

}  // namespace isobit::aten
