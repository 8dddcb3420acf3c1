// Whether a call may be computed as a whole where PyTorch would call a sequence of operators: the bits are the same,
// but who watches operators, or gives them another meaning, would see it.
#pragma once

#include <ATen/core/Tensor.h>

namespace isobit::aten {

// Nobody observes the calling thread's operators (profilers, traces), no mode stands before them, and the switch is on.
[[nodiscard]] bool unobserved();

// Dense, of binary32, on the CPU, with memory of its own: nothing that a dispatch key stands for (a subclass, a
// transform, a lazy conjugate), no inference tensor, no derivative forwards.
[[nodiscard]] bool is_plain_float(const at::Tensor& tensor);

}  // namespace isobit::aten
