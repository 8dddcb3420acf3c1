// Sums, means, norms and variances over any dimensions (contract, section 4).
//
// The reduced index is row-major over the reduced dimensions; strides go to the kernel as they are.
#include "kernels/reduce.h"

#include <ATen/core/Tensor.h>
#include <ATen/ops/sum.h>
#include <ATen/ops/sum_cpu_dispatch.h>

#include <algorithm>
#include <limits>
#include <optional>
#include <string>
#include <tuple>
#include <type_traits>

#include "aten/certified/support/entry.h"
#include "aten/certified/support/reduction_plan.h"
#include "aten/device_work.h"
#include "aten/refusal.h"
#include "kernels/batch_norm.h"
#include "kernels/float_environment.h"

namespace isobit::aten {
namespace {

using at::IntArrayRef;
using at::OptionalIntArrayRef;
using at::Tensor;
using Type = std::optional<at::ScalarType>;

// ---- sum, mean

// Integers stay integers unless a floating result is asked for.
bool exact_sum(const Tensor& x, const Type& type) {
  return is_integral(x) && (!type || at::isIntegralType(*type, /*includeBool=*/true));
}
// Floats whose result is to be integers: converted first, as in torch.
bool becomes_integral_sum(const Tensor& x, const Type& type) {
  return !is_integral(x) && type && at::isIntegralType(*type, /*includeBool=*/true);
}
// In the type asked for, else in its own; converted first, as in torch.
Tensor as_computed(const char* op, const Tensor& x, const Type& type) {
  if (!is_integral(x) || !type) require_computed(op, x.scalar_type());
  return x.to(require_computed(op, type.value_or(x.scalar_type())));
}

Tensor sum_dim(const Tensor& x, OptionalIntArrayRef dims, bool keep, Type type) {
  if (exact_sum(x, type)) return at::cpu::sum(x, dims, keep, type);
  if (becomes_integral_sum(x, type)) return at::sum(x.to(*type), dims, keep, type);
  const Tensor input = as_computed("aten::sum", x, type);
  return reduce_new(plan_reduction("aten::sum", input, dims, keep), input, kSum);
}
Tensor& sum_out(const Tensor& x, OptionalIntArrayRef dims, bool keep, Type type, Tensor& out) {
  if (exact_sum(x, type) && is_integral(out)) return at::cpu::sum_out(out, x, dims, keep, type);
  const Type asked = type.value_or(out.scalar_type());
  if (becomes_integral_sum(x, asked)) return at::sum_out(out, x.to(*asked), dims, keep, type);
  const Tensor input = as_computed("aten::sum", x, asked);
  return reduce_out("aten::sum", plan_reduction("aten::sum", input, dims, keep), input, kSum, out);
}
Tensor sum(const Tensor& x, Type type) { return sum_dim(x, std::nullopt, false, type); }

Tensor mean_dim(const Tensor& x, OptionalIntArrayRef dims, bool keep, Type type) {
  const Tensor input = as_computed("aten::mean", x, type);
  return reduce_new(plan_reduction("aten::mean", input, dims, keep), input, kMean);
}
Tensor& mean_out(const Tensor& x, OptionalIntArrayRef dims, bool keep, Type type, Tensor& out) {
  const Tensor input = as_computed("aten::mean", x, type ? type : is_integral(x) ? Type() : Type(out.scalar_type()));
  return reduce_out("aten::mean", plan_reduction("aten::mean", input, dims, keep), input, kMean, out);
}
Tensor mean(const Tensor& x, Type type) { return mean_dim(x, std::nullopt, false, type); }

// ---- norms: of any order p (sum of |x|^p)^(1 / p), the powers of section 10; 0 counts what is not 0

Tensor norm_dim(const char* op, const Tensor& x, double order, OptionalIntArrayRef dims, bool keep) {
  require_computed(op, x.scalar_type());
  const ReductionPlan plan = plan_reduction(op, x, dims, keep);
  if (order == 2) return reduce_new(plan, x, kNorm2);
  const Tensor magnitudes = contiguous(x.abs());
  const ReductionPlan over = plan_reduction(op, magnitudes, dims, keep);
  if (order == 1) return reduce_new(over, magnitudes, kSum);
  if (order == std::numeric_limits<double>::infinity()) {
    require_elements(op, over);
    return reduce_new(over, magnitudes, kMaximum);
  }
  if (order == -std::numeric_limits<double>::infinity()) {
    require_elements(op, over);
    return reduce_new(over, magnitudes, kMinimum);
  }
  if (order == 0) return reduce_new(over, contiguous(magnitudes.ne(0).to(x.scalar_type())), kSum);
  if (order < 0) require_elements(op, over);
  const Tensor terms = contiguous(magnitudes.pow(order));
  return reduce_new(plan_reduction(op, terms, dims, keep), terms, kSum).pow_(1.0 / order);
}

Tensor vector_norm(const Tensor& x, const at::Scalar& order, OptionalIntArrayRef dims, bool keep, Type type) {
  constexpr const char* op = "aten::linalg_vector_norm";
  require_computed(op, x.scalar_type());
  return norm_dim(op, type ? x.to(require_computed(op, *type)) : x, order.toDouble(), dims, keep);
}
Tensor& vector_norm_out(const Tensor& x, const at::Scalar& order, OptionalIntArrayRef dims, bool keep, Type type,
                        Tensor& out) {
  return float_out("aten::linalg_vector_norm", vector_norm(x, order, dims, keep, type), out);
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
Tensor& norm_out(const Tensor& x, const std::optional<at::Scalar>& order, IntArrayRef dims, bool keep, Tensor& out) {
  return float_out("aten::norm", norm(x, order, dims, keep), out);
}

// ---- variances: leaf moments of each kept element's values

struct Moments {
  Tensor mean, variance;
};

Moments moments(const char* op, const Tensor& x, OptionalIntArrayRef dims, const std::optional<at::Scalar>& correction,
                bool keep) {
  const at::ScalarType type = require_computed(op, x.scalar_type());
  const ReductionPlan plan = plan_reduction(op, x, dims, keep);
  // The kernel wants rows: kept elements outermost, their values in row-major order inside.
  const kernels::ReduceShape& s = plan.shape;
  at::DimVector sizes(s.kept_size, s.kept_size + s.kept_rank), strides(s.kept_stride, s.kept_stride + s.kept_rank);
  sizes.append(s.reduced_size, s.reduced_size + s.reduced_rank);
  strides.append(s.reduced_stride, s.reduced_stride + s.reduced_rank);
  const Tensor rows = contiguous(x.as_strided(sizes, strides));
  const Moments result{new_tensor(plan.sizes, type), new_tensor(plan.sizes, type)};
  const std::int64_t kept = s.kept_count(), n = s.reduced_count();
  with_data(result.mean, [&](auto* mean) {
    using T = std::remove_pointer_t<decltype(mean)>;
    kernels::batch_moments({1, kept, n}, data_like(mean, rows), mean, result.variance.mutable_data_ptr<T>());
  });
  const double divisor = static_cast<double>(n) - (correction ? correction->toDouble() : 1.0);
  if (working_device() != nullptr) {
    result.variance.div_(static_cast<float>(std::max(divisor, 0.0)));
    return result;
  }
  const kernels::FloatEnvironment environment;
  with_data(result.variance, [&](auto* squares) {
    for (std::int64_t i = 0; i < kept; ++i) squares[i] /= like(squares, std::max(divisor, 0.0));
  });
  return result;
}

using Correction = std::optional<at::Scalar>;

Tensor variance(const Tensor& x, OptionalIntArrayRef dims, const Correction& correction, bool keep) {
  return moments("aten::var", x, dims, correction, keep).variance;
}
Tensor& variance_out(const Tensor& x, OptionalIntArrayRef dims, const Correction& correction, bool keep, Tensor& out) {
  return float_out("aten::var", variance(x, dims, correction, keep), out);
}
Tensor deviation(const Tensor& x, OptionalIntArrayRef dims, const Correction& correction, bool keep) {
  return moments("aten::std", x, dims, correction, keep).variance.sqrt_();
}
Tensor& deviation_out(const Tensor& x, OptionalIntArrayRef dims, const Correction& correction, bool keep, Tensor& out) {
  return float_out("aten::std", deviation(x, dims, correction, keep), out);
}
std::tuple<Tensor, Tensor> variance_and_mean(const Tensor& x, OptionalIntArrayRef dims, const Correction& correction,
                                             bool keep) {
  const Moments m = moments("aten::var_mean", x, dims, correction, keep);
  return {m.variance, m.mean};
}

}  // namespace

std::vector<Entry> reduce_operators() {
  constexpr std::string_view lanes = "4: 32 lanes in leaves of 512, fold, pairwise tree";
  constexpr std::string_view quotient = "4: sum / RN(n)";
  constexpr std::string_view norm_section =
      "4: sqrt of the fma-lane sum of squares; order 1 sum, inf maximum; others powers, sum, root";
  constexpr std::string_view moment_section = "4: leaf moments, M / RN(n - correction)";
  return {
      certify<sum, kIntegersByStock>("aten::sum", "", lanes),
      certify<sum_dim, kIntegersByStock>("aten::sum", "dim_IntList", lanes),
      certify<sum_out, kIntegersByStockAndOut>("aten::sum", "IntList_out", lanes),
      certify<mean>("aten::mean", "", quotient),
      certify<mean_dim>("aten::mean", "dim", quotient),
      certify<mean_out>("aten::mean", "out", quotient),
      certify<vector_norm>("aten::linalg_vector_norm", "", norm_section),
      certify<vector_norm_out>("aten::linalg_vector_norm", "out", norm_section),
      certify<norm_all>("aten::norm", "Scalar", norm_section),
      certify<norms>("aten::_foreach_norm", "Scalar", norm_section),
      certify<norm>("aten::norm", "ScalarOpt_dim", norm_section),
      certify<norm_out>("aten::norm", "out", norm_section),
      certify<variance>("aten::var", "correction", moment_section),
      certify<variance_out>("aten::var", "correction_out", moment_section),
      certify<deviation>("aten::std", "correction", moment_section),
      certify<deviation_out>("aten::std", "correction_out", moment_section),
      certify<variance_and_mean>("aten::var_mean", "correction", moment_section),
  };
}

}  // namespace isobit::aten
