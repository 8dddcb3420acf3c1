// Stock's element-wise kernels on isobit's threads.
//
// What stock computes exactly (one operation per element, copies, comparisons) stays stock's. But its threads are
// OpenMP's, which wait awake for a while after each operator, on the cores that the next kernel of isobit needs. So
// large operands, also stretched ones (a row added to all), are cut into pieces, and isobit's threads take them. No
// element depends on another: the bits are those of one call.
#pragma once

#include <ATen/core/boxing/KernelFunction.h>
#include <ATen/core/dispatch/Dispatcher.h>

#include <cstdint>

namespace isobit::aten {

inline constexpr std::int64_t kWorthSeveralThreads = 65536;  // elements, of an operation that takes no time

// Calls the CPU kernel of `op` piece by piece, with the stack's arguments replaced by its result, and says so; false,
// with nothing done, where the operator is not one of those, the result is small or overlaps an operand, its layout is
// not certain, or one thread computes. Throws what stock throws. Thread-safe.
[[nodiscard]] bool call_in_pieces(const c10::OperatorHandle& op, c10::DispatchKeySet keys, torch::jit::Stack* stack);

}  // namespace isobit::aten
