// Sums, means, norms and extrema over any dimensions (contract, section 4; extrema section 1).
//
// The reduced index is row-major over the reduced dimensions; strides go to the kernel as they are.
#include "kernels/reduce.h"

#include <optional>
#include <tuple>

#include <ATen/WrapDimUtilsMulti.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/amax_cpu_dispatch.h>
#include <ATen/ops/amin_cpu_dispatch.h>
#include <ATen/ops/argmax_cpu_dispatch.h>
#include <ATen/ops/argmin_cpu_dispatch.h>
#include <ATen/ops/max_cpu_dispatch.h>
#include <ATen/ops/min_cpu_dispatch.h>
#include <ATen/ops/sum_cpu_dispatch.h>

#include "aten/certified/entry.h"
#include "aten/certified/tensors.h"
#include "aten/refusal.h"

namespace isobit::aten {
namespace {

using at::IntArrayRef;
using at::OptionalIntArrayRef;
using at::Tensor;
using kernels::ReduceShape;
using Type = std::optional<at::ScalarType>;

struct Plan {
  ReduceShape shape;
  at::DimVector sizes;  // of the result
};

// Dimensions absent or empty: all of them.
Plan plan_of(const char* op, const Tensor& x, OptionalIntArrayRef dims, bool keep) {
  if (x.dim() > kernels::kMaxReduceRank) refuse(op, "takes at most 16 dimensions");
  const bool all = !dims || dims->empty();
  const auto reduced = all ? std::bitset<at::dim_bitset_size>().set() : at::dim_list_to_bitset(dims, x.dim());
  Plan plan;
  ReduceShape& s = plan.shape;
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

using Kernel = void (*)(const ReduceShape&, const float*, float*);

Tensor reduce_new(const Plan& plan, const Tensor& x, Kernel kernel) {
  return write_new(plan.sizes, [&](float* out) { kernel(plan.shape, x.const_data_ptr<float>(), out); });
}
Tensor& reduce_out(const char* op, const Plan& plan, const Tensor& x, Kernel kernel, Tensor& out) {
  return write_out(op, out, plan.sizes, {&x},
                   [&](float* y) { kernel(plan.shape, x.const_data_ptr<float>(), y); });
}

void require_elements(const char* op, const Plan& plan) {
  TORCH_CHECK_INDEX(plan.shape.reduced_count() > 0 || plan.shape.kept_count() == 0, op,
                    ": can not reduce over no elements");
}

// ---- sum, mean

// Integers stay integers unless a floating result is asked for.
bool exact_sum(const Tensor& x, const Type& type) {
  return is_integral(x) && (!type || at::isIntegralType(*type, /*includeBool=*/true));
}
Tensor as_float(const char* op, const Tensor& x, const Type& type) {
  if (type && *type != at::kFloat) refuse_type(op, *type);
  if (is_float(x)) return x;
  if (!is_integral(x) || !type) refuse_type(op, x.scalar_type());
  return x.to(at::kFloat);
}

Tensor sum_dim(const Tensor& x, OptionalIntArrayRef dims, bool keep, Type type) {
  if (exact_sum(x, type)) return at::cpu::sum(x, dims, keep, type);
  const Tensor input = as_float("aten::sum", x, type);
  return reduce_new(plan_of("aten::sum", input, dims, keep), input, &kernels::sum);
}
Tensor& sum_out(const Tensor& x, OptionalIntArrayRef dims, bool keep, Type type, Tensor& out) {
  if (exact_sum(x, type) && is_integral(out)) return at::cpu::sum_out(out, x, dims, keep, type);
  const Tensor input = as_float("aten::sum", x, at::kFloat);
  return reduce_out("aten::sum", plan_of("aten::sum", input, dims, keep), input, &kernels::sum, out);
}
Tensor sum(const Tensor& x, Type type) { return sum_dim(x, std::nullopt, false, type); }

Tensor mean_dim(const Tensor& x, OptionalIntArrayRef dims, bool keep, Type type) {
  const Tensor input = as_float("aten::mean", x, type);
  return reduce_new(plan_of("aten::mean", input, dims, keep), input, &kernels::mean);
}
Tensor& mean_out(const Tensor& x, OptionalIntArrayRef dims, bool keep, Type type, Tensor& out) {
  const Tensor input = as_float("aten::mean", x, type);
  return reduce_out("aten::mean", plan_of("aten::mean", input, dims, keep), input, &kernels::mean, out);
}
Tensor mean(const Tensor& x, Type type) { return mean_dim(x, std::nullopt, false, type); }

// ---- norms of order 2, 1 and infinity

Tensor norm_dim(const char* op, const Tensor& x, double order, OptionalIntArrayRef dims, bool keep) {
  require_float(op, x);
  const Plan plan = plan_of(op, x, dims, keep);
  if (order == 2) return reduce_new(plan, x, &kernels::norm2);
  const Tensor magnitudes = contiguous(x.abs());
  const Plan over = plan_of(op, magnitudes, dims, keep);
  if (order == 1) return reduce_new(over, magnitudes, &kernels::sum);
  if (order == std::numeric_limits<double>::infinity()) {
    require_elements(op, over);
    return reduce_new(over, magnitudes, &kernels::maximum);
  }
  refuse(op, "is certified for the orders 1, 2 and infinity only, got " + std::to_string(order));
}

Tensor vector_norm(const Tensor& x, const at::Scalar& order, OptionalIntArrayRef dims, bool keep, Type type) {
  if (type && *type != at::kFloat) refuse_type("aten::linalg_vector_norm", *type);
  return norm_dim("aten::linalg_vector_norm", x, order.toDouble(), dims, keep);
}
Tensor& vector_norm_out(const Tensor& x, const at::Scalar& order, OptionalIntArrayRef dims, bool keep,
                        Type type, Tensor& out) {
  require_float("aten::linalg_vector_norm", out);
  copy_out(out, vector_norm(x, order, dims, keep, type));
  return out;
}
Tensor norm(const Tensor& x, const std::optional<at::Scalar>& order, IntArrayRef dims, bool keep) {
  return norm_dim("aten::norm", x, order ? order->toDouble() : 2.0, dims, keep);
}
Tensor norm_all(const Tensor& x, const at::Scalar& order) {
  return norm_dim("aten::norm", x, order.toDouble(), std::nullopt, false);
}
std::vector<Tensor> norms(at::TensorList list, const at::Scalar& order, Type type) {  // clip_grad_norm_
  std::vector<Tensor> results;
  for (const Tensor& x : list) results.push_back(vector_norm(x, order, std::nullopt, false, type));
  return results;
}
Tensor& norm_out(const Tensor& x, const std::optional<at::Scalar>& order, IntArrayRef dims, bool keep,
                 Tensor& out) {
  require_float("aten::norm", out);
  copy_out(out, norm(x, order, dims, keep));
  return out;
}

// ---- extrema

Tensor extremum(const char* op, const Tensor& x, OptionalIntArrayRef dims, bool keep, Kernel kernel) {
  require_float(op, x);
  const Plan plan = plan_of(op, x, dims, keep);
  require_elements(op, plan);
  return reduce_new(plan, x, kernel);
}

Tensor amax(const Tensor& x, IntArrayRef dims, bool keep) {
  if (is_integral(x)) return at::cpu::amax(x, dims, keep);
  return extremum("aten::amax", x, dims, keep, &kernels::maximum);
}
Tensor& amax_out(const Tensor& x, IntArrayRef dims, bool keep, Tensor& out) {
  if (is_integral(x)) return at::cpu::amax_out(out, x, dims, keep);
  require_float("aten::amax", out);
  copy_out(out, extremum("aten::amax", x, dims, keep, &kernels::maximum));
  return out;
}
Tensor amin(const Tensor& x, IntArrayRef dims, bool keep) {
  if (is_integral(x)) return at::cpu::amin(x, dims, keep);
  return extremum("aten::amin", x, dims, keep, &kernels::minimum);
}
Tensor& amin_out(const Tensor& x, IntArrayRef dims, bool keep, Tensor& out) {
  if (is_integral(x)) return at::cpu::amin_out(out, x, dims, keep);
  require_float("aten::amin", out);
  copy_out(out, extremum("aten::amin", x, dims, keep, &kernels::minimum));
  return out;
}
Tensor max(const Tensor& x) {
  if (is_integral(x)) return at::cpu::max(x);
  return extremum("aten::max", x, std::nullopt, false, &kernels::maximum);
}
Tensor& max_out(const Tensor& x, Tensor& out) {
  copy_out(out, isobit::aten::max(x));
  return out;
}
Tensor min(const Tensor& x) {
  if (is_integral(x)) return at::cpu::min(x);
  return extremum("aten::min", x, std::nullopt, false, &kernels::minimum);
}
Tensor& min_out(const Tensor& x, Tensor& out) {
  copy_out(out, isobit::aten::min(x));
  return out;
}

// ---- indices of extrema; the least is the greatest of -x (exact, and -0 equals +0)

Tensor index_of_greatest(const char* op, const Tensor& x, OptionalIntArrayRef dims, bool keep) {
  require_float(op, x);
  const Plan plan = plan_of(op, x, dims, keep);
  require_elements(op, plan);
  Tensor index = new_tensor(plan.sizes, at::kLong);
  kernels::argmax(plan.shape, x.const_data_ptr<float>(), index.mutable_data_ptr<std::int64_t>());
  return index;
}

struct OneDimension {  // as the optional list that plan_of takes; absent is all
  explicit OneDimension(std::optional<std::int64_t> dim) : value(dim.value_or(0)) {
    if (dim) list = IntArrayRef(&value, 1);
  }
  OneDimension(const OneDimension&) = delete;
  OneDimension& operator=(const OneDimension&) = delete;
  std::int64_t value;
  OptionalIntArrayRef list;
};

Tensor argmax(const Tensor& x, std::optional<std::int64_t> dim, bool keep) {
  if (is_integral(x)) return at::cpu::argmax(x, dim, keep);
  const OneDimension along(dim);
  return index_of_greatest("aten::argmax", x, along.list, keep);
}
Tensor& argmax_out(const Tensor& x, std::optional<std::int64_t> dim, bool keep, Tensor& out) {
  copy_out(out, isobit::aten::argmax(x, dim, keep));
  return out;
}
Tensor argmin(const Tensor& x, std::optional<std::int64_t> dim, bool keep) {
  if (is_integral(x)) return at::cpu::argmin(x, dim, keep);
  require_float("aten::argmin", x);
  const OneDimension along(dim);
  return index_of_greatest("aten::argmin", x.neg(), along.list, keep);
}
Tensor& argmin_out(const Tensor& x, std::optional<std::int64_t> dim, bool keep, Tensor& out) {
  copy_out(out, isobit::aten::argmin(x, dim, keep));
  return out;
}

// The value is the element at the index: a zero keeps its sign.
std::tuple<Tensor, Tensor> element_at(const Tensor& x, Tensor index, std::int64_t dim, bool keep) {
  if (x.dim() == 0) return {x.clone(), index};
  Tensor value = x.gather(dim, index);
  if (keep) return {value, index};
  return {value.squeeze(dim), index.squeeze(dim)};
}

std::tuple<Tensor, Tensor> max_dim(const Tensor& x, std::int64_t dim, bool keep) {
  if (is_integral(x)) return at::cpu::max(x, dim, keep);
  const OneDimension along(dim);
  return element_at(x, index_of_greatest("aten::max.dim", x, along.list, true), dim, keep);
}
std::tuple<Tensor&, Tensor&> max_dim_out(const Tensor& x, std::int64_t dim, bool keep, Tensor& value,
                                         Tensor& index) {
  const auto [v, i] = max_dim(x, dim, keep);
  copy_out(value, v);
  copy_out(index, i);
  return {value, index};
}
std::tuple<Tensor, Tensor> min_dim(const Tensor& x, std::int64_t dim, bool keep) {
  if (is_integral(x)) return at::cpu::min(x, dim, keep);
  require_float("aten::min.dim", x);
  const OneDimension along(dim);
  return element_at(x, index_of_greatest("aten::min.dim", x.neg(), along.list, true), dim, keep);
}
std::tuple<Tensor&, Tensor&> min_dim_out(const Tensor& x, std::int64_t dim, bool keep, Tensor& value,
                                         Tensor& index) {
  const auto [v, i] = min_dim(x, dim, keep);
  copy_out(value, v);
  copy_out(index, i);
  return {value, index};
}

}  // namespace

std::vector<Entry> reduce_operators() {
  constexpr std::string_view lanes = "4: 32 lanes in leaves of 512, fold, pairwise tree";
  constexpr std::string_view quotient = "4: sum / RN(n)";
  constexpr std::string_view norm_section = "4: sqrt of the fma-lane sum of squares; order 1 sum, inf maximum";
  constexpr std::string_view value = "1: a zero is +0, any NaN makes it NaN";
  constexpr std::string_view index = "1: the first NaN, else the lowest index among equals";
  return {
      certify<sum>("aten::sum", "", lanes),
      certify<sum_dim>("aten::sum", "dim_IntList", lanes),
      certify<sum_out>("aten::sum", "IntList_out", lanes),
      certify<mean>("aten::mean", "", quotient),
      certify<mean_dim>("aten::mean", "dim", quotient),
      certify<mean_out>("aten::mean", "out", quotient),
      certify<vector_norm>("aten::linalg_vector_norm", "", norm_section),
      certify<vector_norm_out>("aten::linalg_vector_norm", "out", norm_section),
      certify<norm_all>("aten::norm", "Scalar", norm_section),
      certify<norms>("aten::_foreach_norm", "Scalar", norm_section),
      certify<norm>("aten::norm", "ScalarOpt_dim", norm_section),
      certify<norm_out>("aten::norm", "out", norm_section),
      certify<amax>("aten::amax", "", value),
      certify<amax_out>("aten::amax", "out", value),
      certify<amin>("aten::amin", "", value),
      certify<amin_out>("aten::amin", "out", value),
      certify<isobit::aten::max>("aten::max", "", value),
      certify<max_out>("aten::max", "unary_out", value),
      certify<isobit::aten::min>("aten::min", "", value),
      certify<min_out>("aten::min", "unary_out", value),
      certify<argmax>("aten::argmax", "", index),
      certify<argmax_out>("aten::argmax", "out", index),
      certify<argmin>("aten::argmin", "", index),
      certify<argmin_out>("aten::argmin", "out", index),
      certify<max_dim>("aten::max", "dim", index),
      certify<max_dim_out>("aten::max", "dim_max", index),
      certify<min_dim>("aten::min", "dim", index),
      certify<min_dim_out>("aten::min", "dim_min", index),
  };
}

}  // namespace isobit::aten
