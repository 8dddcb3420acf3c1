// Extrema over any dimensions and their indices (contract, section 1).
#include <ATen/core/Tensor.h>
#include <ATen/ops/amax_cpu_dispatch.h>
#include <ATen/ops/amin_cpu_dispatch.h>
#include <ATen/ops/aminmax_cpu_dispatch.h>
#include <ATen/ops/argmax_cpu_dispatch.h>
#include <ATen/ops/argmin_cpu_dispatch.h>
#include <ATen/ops/max_cpu_dispatch.h>
#include <ATen/ops/min_cpu_dispatch.h>

#include <optional>
#include <tuple>

#include "aten/certified/support/entry.h"
#include "aten/certified/support/reduction_plan.h"

namespace isobit::aten {
namespace {

using at::IntArrayRef;
using at::OptionalIntArrayRef;
using at::Tensor;

template <class Kernel>
Tensor extremum(const char* op, const Tensor& x, OptionalIntArrayRef dims, bool keep, Kernel kernel) {
  require_computed(op, x.scalar_type());
  const ReductionPlan plan = plan_reduction(op, x, dims, keep);
  require_elements(op, plan);
  return reduce_new(plan, x, kernel);
}

Tensor amax(const Tensor& x, IntArrayRef dims, bool keep) {
  if (is_integral(x)) return at::cpu::amax(x, dims, keep);
  return extremum("aten::amax", x, dims, keep, kMaximum);
}
Tensor& amax_out(const Tensor& x, IntArrayRef dims, bool keep, Tensor& out) {
  if (is_integral(x)) return at::cpu::amax_out(out, x, dims, keep);
  return float_out("aten::amax", extremum("aten::amax", x, dims, keep, kMaximum), out);
}
Tensor amin(const Tensor& x, IntArrayRef dims, bool keep) {
  if (is_integral(x)) return at::cpu::amin(x, dims, keep);
  return extremum("aten::amin", x, dims, keep, kMinimum);
}
Tensor& amin_out(const Tensor& x, IntArrayRef dims, bool keep, Tensor& out) {
  if (is_integral(x)) return at::cpu::amin_out(out, x, dims, keep);
  return float_out("aten::amin", extremum("aten::amin", x, dims, keep, kMinimum), out);
}
Tensor max(const Tensor& x) {
  if (is_integral(x)) return at::cpu::max(x);
  return extremum("aten::max", x, std::nullopt, false, kMaximum);
}
Tensor& max_out(const Tensor& x, Tensor& out) {
  copy_out(out, isobit::aten::max(x));
  return out;
}
Tensor min(const Tensor& x) {
  if (is_integral(x)) return at::cpu::min(x);
  return extremum("aten::min", x, std::nullopt, false, kMinimum);
}
Tensor& min_out(const Tensor& x, Tensor& out) {
  copy_out(out, isobit::aten::min(x));
  return out;
}

// ---- indices of extrema; the least is the greatest of -x (exact, and -0 equals +0)

Tensor index_of_greatest(const char* op, const Tensor& x, OptionalIntArrayRef dims, bool keep) {
  const bool wide = require_computed(op, x.scalar_type()) == at::kDouble;
  const ReductionPlan plan = plan_reduction(op, x, dims, keep);
  require_elements(op, plan);
  Tensor index = new_tensor(plan.sizes, at::kLong);
  std::int64_t* const found = index.mutable_data_ptr<std::int64_t>();
  wide ? kernels::argmax(plan.shape, x.const_data_ptr<double>(), found)
       : kernels::argmax(plan.shape, x.const_data_ptr<float>(), found);
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
  require_computed("aten::argmin", x.scalar_type());
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
std::tuple<Tensor&, Tensor&> max_dim_out(const Tensor& x, std::int64_t dim, bool keep, Tensor& value, Tensor& index) {
  const auto [v, i] = max_dim(x, dim, keep);
  copy_out(value, v);
  copy_out(index, i);
  return {value, index};
}
std::tuple<Tensor, Tensor> min_dim(const Tensor& x, std::int64_t dim, bool keep) {
  if (is_integral(x)) return at::cpu::min(x, dim, keep);
  require_computed("aten::min.dim", x.scalar_type());
  const OneDimension along(dim);
  return element_at(x, index_of_greatest("aten::min.dim", x.neg(), along.list, true), dim, keep);
}
std::tuple<Tensor&, Tensor&> min_dim_out(const Tensor& x, std::int64_t dim, bool keep, Tensor& value, Tensor& index) {
  const auto [v, i] = min_dim(x, dim, keep);
  copy_out(value, v);
  copy_out(index, i);
  return {value, index};
}

std::tuple<Tensor, Tensor> both(const Tensor& x, std::optional<std::int64_t> dim, bool keep) {
  if (is_integral(x)) return at::cpu::aminmax(x, dim, keep);
  const OneDimension along(dim);
  return {extremum("aten::aminmax", x, along.list, keep, kMinimum),
          extremum("aten::aminmax", x, along.list, keep, kMaximum)};
}

}  // namespace

std::vector<Entry> extremum_operators() {
  constexpr std::string_view value = "1: a zero is +0, any NaN makes it NaN";
  constexpr std::string_view index = "1: the first NaN, else the lowest index among equals";
  constexpr DeviceRules kWithDoubles{DeviceIntegers::stock, false, false, false, true};
  return {
      certify<amax, kIntegersByStock>("aten::amax", "", value),
      certify<amax_out, kIntegersByStock>("aten::amax", "out", value),
      certify<amin, kIntegersByStock>("aten::amin", "", value),
      certify<amin_out, kIntegersByStock>("aten::amin", "out", value),
      certify<both, kIntegersByStock>("aten::aminmax", "", value),
      certify<isobit::aten::max, kWithDoubles>("aten::max", "", value),
      certify<max_out, kIntegersByStock>("aten::max", "unary_out", value),
      certify<isobit::aten::min, kWithDoubles>("aten::min", "", value),
      certify<min_out, kIntegersByStock>("aten::min", "unary_out", value),
      certify<argmax, kIntegersByStock>("aten::argmax", "", index),
      certify<argmax_out, kIntegersByStock>("aten::argmax", "out", index),
      certify<argmin, kIntegersByStock>("aten::argmin", "", index),
      certify<argmin_out, kIntegersByStock>("aten::argmin", "out", index),
      certify<max_dim, kIntegersByStock>("aten::max", "dim", index),
      certify<max_dim_out, kIntegersByStock>("aten::max", "dim_max", index),
      certify<min_dim, kIntegersByStock>("aten::min", "dim", index),
      certify<min_dim_out, kIntegersByStock>("aten::min", "dim_min", index),
  };
}

}  // namespace isobit::aten
