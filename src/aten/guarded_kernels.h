// The boxed kernels that the guard puts before stock's: refuse, or check the rule of an exact operator first.
//
// They sit at DispatchKey::BackendSelect, which every call passes after autograd and before any backend, so that
// one registration covers CPU, sparse, quantized, mkldnn and nested tensors alike. Thread-safe.
#pragma once

#include <ATen/core/boxing/KernelFunction.h>

#include "aten/exact_operators.h"
#include "aten/library_operators.h"

namespace isobit::aten {

// Throws "isobit: aten::special_bessel_j0 is not certified ...".
[[nodiscard]] c10::KernelFunction refusing_kernel();

// Refuses tensors that are neither dense CPU nor CUDA tensors, for operators that are otherwise allowed.
[[nodiscard]] c10::KernelFunction refusing_layout_kernel();

// Refuses CUDA tensors, for operators that are allowed on the CPU.
[[nodiscard]] c10::KernelFunction refusing_device_kernel();

// Takes the way of CPU tensors: for operators that only call others there.
[[nodiscard]] c10::KernelFunction cpu_way_kernel();

// Ours for tensors with values; those on the device "meta" get what the library says of their shapes.
[[nodiscard]] c10::KernelFunction library_kernel(const LibraryOperator& op);

// For `op`: checks the rule, then calls on; an invalid kernel for ExactRule::moves, which needs none.
[[nodiscard]] c10::KernelFunction checking_kernel(ExactRule rule, std::string_view op);

}  // namespace isobit::aten
