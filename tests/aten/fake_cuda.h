// A CUDA device for a PyTorch without CUDA: cuda:0, whose memory is the host's, whose stock kernels are the CPU's and
// whose isobit kernels are the emulated device's (tests/cuda).
//
// Bits are right, speed means nothing. Device memory starts as NaN. Lasts as long as the process. Tests only.
#pragma once

#include <cstddef>
#include <set>
#include <string>

// nullptr, or why there is none: this PyTorch has CUDA devices of its own. Before the operator switch is on and before
// the process's first backward (autograd counts the devices once); not beside other threads. With C linkage for
// Python's ctypes.
extern "C" const char* isobit_install_fake_cuda();
// From now on PyTorch's code is told that cuDNN is there (which it is not: what is handed to it fails). Off at first.
extern "C" void isobit_fake_cuda_claims_cudnn(int claims);
// take_stock_arithmetic() in one line; valid until the next call.
extern "C" const char* isobit_take_fake_cuda_arithmetic();

namespace isobit::test {

// The device is there; false: the test should be skipped.
[[nodiscard]] inline bool fake_cuda() { return isobit_install_fake_cuda() == nullptr; }

// Bytes that can be allocated at once; 0: any. What asks for more meets c10::OutOfMemoryError as PyTorch words it.
void limit_fake_cuda_memory(std::size_t bytes);
[[nodiscard]] std::size_t fake_cuda_memory_in_use();

// Stock kernels of the device that were called with floating tensors since the last call of this: "aten::mul.Tensor".
[[nodiscard]] std::set<std::string> take_stock_calls();
// Those of them that do more than move, compare and select.
[[nodiscard]] std::set<std::string> take_stock_arithmetic();

}  // namespace isobit::test
