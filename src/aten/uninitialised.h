// torch.empty under the switch: memory that the program asks for and has not written holds NaN (the largest value of an
// integer type, true of bool), as PyTorch's own fill_uninitialized_memory does it, so that what reads it is found at
// once and repeats. Memory that an operator allocates for itself is its own to write and stays as it is.
//
// Thread-safe.
#pragma once

#include <cstdint>
#include <string_view>

#include <ATen/core/boxing/KernelFunction.h>

namespace isobit::aten {

// Calls stock's allocation, then fills what it gave, where the program called and no operator that says so.
[[nodiscard]] c10::KernelFunction filling_kernel(std::string_view full_name);

// The calling thread is within an operator of stock's, which writes what it allocates. Operators that do not say so, as
// dropout, cost a filling, no more.
class WithinOperator {
 public:
  WithinOperator();
  ~WithinOperator();
  WithinOperator(const WithinOperator&) = delete;
  WithinOperator& operator=(const WithinOperator&) = delete;
};
// For operators that have no kernel of the guard's and allocate through others: says so and calls stock's, of small
// tensors on this thread alone (stock_threads.h); an invalid kernel for all others.
[[nodiscard]] c10::KernelFunction allocating_kernel(std::string_view full_name);

// How many tensors the calling thread has filled.
[[nodiscard]] std::int64_t fillings();

}  // namespace isobit::aten
