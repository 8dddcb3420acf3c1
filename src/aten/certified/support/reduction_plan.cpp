#include "aten/certified/support/reduction_plan.h"

#include <ATen/WrapDimUtilsMulti.h>

#include <bitset>

#include "aten/refusal.h"

namespace isobit::aten {

ReductionPlan plan_reduction(const char* op, const at::Tensor& x, at::OptionalIntArrayRef dims, bool keep) {
  if (x.dim() > kernels::kMaxReduceRank) refuse(op, "takes at most 16 dimensions");
  const bool all = !dims || dims->empty();
  const auto reduced = all ? std::bitset<at::dim_bitset_size>().set() : at::dim_list_to_bitset(dims, x.dim());
  ReductionPlan plan;
  kernels::ReduceShape& s = plan.shape;
  for (std::int64_t d = 0; d < x.dim(); ++d) {
    if (reduced[d]) {
      s.reduced_size[s.reduced_rank] = x.size(d);
      s.reduced_stride[s.reduced_rank++] = x.stride(d);
      if (keep) plan.sizes.push_back(1);
    } else {
      s.kept_size[s.kept_rank] = x.size(d);
      s.kept_stride[s.kept_rank++] = x.stride(d);
      plan.sizes.push_back(x.size(d));
    }
  }
  return plan;
}

void require_elements(const char* op, const ReductionPlan& plan) {
  TORCH_CHECK_INDEX(plan.shape.reduced_count() > 0 || plan.shape.kept_count() == 0, op,
                    ": cannot reduce over no elements");
}

}  // namespace isobit::aten
