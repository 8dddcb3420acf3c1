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

using ReduceKernel = void (*)(const kernels::ReduceShape&, const float*, float*);

[[nodiscard]] at::Tensor reduce_new(const ReductionPlan& plan, const at::Tensor& x, ReduceKernel kernel);
at::Tensor& reduce_out(const char* op, const ReductionPlan& plan, const at::Tensor& x, ReduceKernel kernel,
                       at::Tensor& out);

}  // namespace isobit::aten
