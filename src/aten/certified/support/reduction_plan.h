// What reductions share: which dimensions are kept and which reduced, and how a kernel's result is placed.
// Private to this folder. Thread-safe.
#pragma once

#include "aten/certified/support/tensors.h"
#include "kernels/reduce.h"

namespace isobit::aten {

struct ReductionPlan {
  kernels::ReduceShape shape;
  at::DimVector sizes;  // of the result
};

// Dimensions absent or empty: all of them.
[[nodiscard]] ReductionPlan plan_reduction(const char* op, const at::Tensor& x, at::OptionalIntArrayRef dims,
                                           bool keep);
// Throws where an extremum would be taken over no elements.
void require_elements(const char* op, const ReductionPlan& plan);

// kernel(const kernels::ReduceShape&, const T*, T*) of float and double: the result has x's type.
template <class Kernel>
[[nodiscard]] at::Tensor reduce_new(const ReductionPlan& plan, const at::Tensor& x, Kernel kernel) {
  return write_new(plan.sizes, x.scalar_type(), [&](auto* y) { kernel(plan.shape, data_like(y, x), y); });
}
template <class Kernel>
at::Tensor& reduce_out(const char* op, const ReductionPlan& plan, const at::Tensor& x, Kernel kernel, at::Tensor& out) {
  return write_out(op, out, plan.sizes, x.scalar_type(), {&x},
                   [&](auto* y) { kernel(plan.shape, data_like(y, x), y); });
}
// The kernels, of both types.
inline constexpr auto kSum = [](const auto& shape, const auto* x, auto* y) { kernels::sum(shape, x, y); };
inline constexpr auto kMean = [](const auto& shape, const auto* x, auto* y) { kernels::mean(shape, x, y); };
inline constexpr auto kNorm2 = [](const auto& shape, const auto* x, auto* y) { kernels::norm2(shape, x, y); };
inline constexpr auto kMaximum = [](const auto& shape, const auto* x, auto* y) { kernels::maximum(shape, x, y); };
inline constexpr auto kMinimum = [](const auto& shape, const auto* x, auto* y) { kernels::minimum(shape, x, y); };

}  // namespace isobit::aten
