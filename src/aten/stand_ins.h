// Kernels of the check (check_mode.h): what the guard would refuse is noted, and stock's kernel is called in its place.
//
// They are put in front of the kernels that refuse, at the same keys. Thread-safe.
#pragma once

#include <ATen/core/boxing/KernelFunction.h>
#include <ATen/core/dispatch/Dispatcher.h>

namespace isobit::aten {

// How registrations of the guard's are known among an operator's kernels.
constexpr const char* kGuardsKernel = "isobit guard";

// And of the check's, in front of them.
constexpr const char* kNotingKernel = "isobit check";

// Whether the switch or the guard has put a kernel of an operator at a key.
[[nodiscard]] bool is_ours_at(const c10::OperatorHandle& op, c10::DispatchKey key);

// Calls the kernel behind it; where that is refused, notes it and calls stock's.
[[nodiscard]] c10::KernelFunction noting_kernel();

}  // namespace isobit::aten
