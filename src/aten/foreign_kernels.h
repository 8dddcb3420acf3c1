// Kernels that another library put in front of PyTorch's own, for operators that PyTorch defined: its arithmetic is not
// stock's, and in front of autograd it is reached before any kernel of isobit's.
//
// The dispatcher keeps with each kernel the source file that registered it. PyTorch's own are those of the tree that
// defined the operator (so whoever built it), and of the Python package. Where the dispatcher does not know the tree of
// an operator, nothing is said of it. Kernels of other devices than the CPU are none of this: refused, or not looked at
// (CUDA). Call while no other thread registers kernels.
#pragma once

#include <string>
#include <vector>

#include <ATen/core/boxing/KernelFunction.h>
#include <ATen/core/dispatch/Dispatcher.h>

namespace isobit::aten {

struct ForeignKernel {
  c10::DispatchKey key;  // an alias, too
  std::string place;     // "/site-packages/fast/ops.py:12"
};

// Those that calls meet: of several at a key, the newest.
[[nodiscard]] std::vector<ForeignKernel> foreign_kernels(const c10::OperatorHandle& op);

// Throws "isobit: aten::mm is computed by another library (PLACE) and is not certified ...".
[[nodiscard]] c10::KernelFunction refusing_foreign_kernel(std::string place);

// Whether the kernel at this very key was registered by a Python module of the torch that is loaded.
[[nodiscard]] bool is_torchs(const c10::OperatorHandle& op, c10::DispatchKey key);

}  // namespace isobit::aten
