// Reductions made of other certified operators: nansum, trace, std_mean, renorm, weight norm, cross (contract, sections
// 4 and 10).
#include <ATen/WrapDimUtils.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/linalg_vector_norm.h>
#include <ATen/ops/mean.h>
#include <ATen/ops/std.h>
#include <ATen/ops/where.h>

#include <optional>
#include <tuple>

#include "aten/certified/support/entry.h"
#include "aten/certified/support/tensors.h"
#include "aten/plain_memory.h"
#include "aten/refusal.h"
#include "kernels/reduce.h"

namespace isobit::aten {
namespace {

using at::Scalar;
using at::Tensor;
using Type = std::optional<at::ScalarType>;
using Pair = std::tuple<Tensor, Tensor>;

// Whether x is floats of the host that lie in order, none of them NaN: most have none, and are summed as they are.
bool is_without_nan(const Tensor& x) {
  if (!x.is_cpu() || x.scalar_type() != at::kFloat || !x.is_contiguous() || !is_plain_memory(x)) return false;
  if (x.numel() == 0) return true;
  kernels::ReduceShape all;
  all.reduced_rank = 1, all.reduced_size[0] = x.numel(), all.reduced_stride[0] = 1;
  float largest = 0.0f;
  kernels::maximum(all, x.const_data_ptr<float>(), &largest);
  return largest == largest;
}
Tensor nansum(const Tensor& x, at::OptionalIntArrayRef dims, bool keep, Type type) {
  if (is_integral(x)) return x.sum(dims, keep, type);
  require_computed("aten::nansum", x.scalar_type());
  if (is_without_nan(x)) return x.sum(dims, keep, type);
  return at::where(x.isnan(), new_tensor({}, x.scalar_type()).zero_(), x).sum(dims, keep, type);
}
Tensor& nansum_out(const Tensor& x, at::OptionalIntArrayRef dims, bool keep, Type type, Tensor& out) {
  copy_out(out, nansum(x, dims, keep, type));
  return out;
}
Tensor trace(const Tensor& x) {
  TORCH_CHECK(x.dim() == 2, "aten::trace: a matrix expected, got ", x.sizes());
  return x.diagonal().sum();
}
Pair std_mean(const Tensor& x, at::OptionalIntArrayRef dims, const std::optional<Scalar>& correction, bool keep) {
  require_computed("aten::std_mean", x.scalar_type());
  return {at::std(x, dims, correction, keep), at::mean(x, dims, keep)};
}

// x scaled by RN(maxnorm / RN(norm + 1e-7)) where its norm is above maxnorm.
Tensor renorm(const Tensor& x, const Scalar& p, std::int64_t dim, const Scalar& most) {
  const at::ScalarType type = require_computed("aten::renorm", x.scalar_type());
  if (x.is_cuda() && x.requires_grad() && at::GradMode::is_enabled()) {
    refuse("aten::renorm",
           "has no gradient on a GPU: PyTorch's formula takes norms there in float32, on the CPU in float64",
           "compute this part on the CPU");
  }
  dim = at::maybe_wrap_dim(dim, x.dim());
  at::DimVector others;
  for (std::int64_t d = 0; d < x.dim(); ++d) {
    if (d != dim) others.push_back(d);
  }
  const Tensor norm = at::linalg_vector_norm(x, p, at::IntArrayRef(others), /*keepdim=*/true);
  const Tensor one = new_tensor({}, type).fill_(1.0), factor = norm.add(1e-7).reciprocal_().mul_(most);
  return x.mul(at::where(norm.gt(most), factor, one));
}
Tensor& renorm_out(const Tensor& x, const Scalar& p, std::int64_t dim, const Scalar& most, Tensor& out) {
  return float_out("aten::renorm", renorm(x, p, dim, most), out);
}
Tensor& renorm_(Tensor& x, const Scalar& p, std::int64_t dim, const Scalar& most) {
  return x.copy_(renorm(x, p, dim, most));
}

// w = v * (g / norm), the norm over all but one dimension.
at::DimVector all_but(const Tensor& v, std::int64_t dim) {
  dim = at::maybe_wrap_dim(dim, v.dim());
  at::DimVector others;
  for (std::int64_t d = 0; d < v.dim(); ++d) {
    if (d != dim) others.push_back(d);
  }
  return others;
}
Pair weight_norm(const Tensor& v, const Tensor& g, std::int64_t dim) {
  require_computed("aten::_weight_norm_interface", {&v, &g});
  const Tensor norm = at::linalg_vector_norm(v, 2, at::IntArrayRef(all_but(v, dim)), /*keepdim=*/true);
  return {v.mul(g.div(norm)), norm};
}
// s = sum of dw * v: dg = s / norm, dv = (g / norm) * (dw - v * (s / (norm * norm))).
Pair weight_norm_backward(const Tensor& dw, const Tensor& v, const Tensor& g, const Tensor& norm, std::int64_t dim) {
  require_computed("aten::_weight_norm_interface_backward", {&dw, &v, &g, &norm});
  const Tensor s = dw.mul(v).sum(at::IntArrayRef(all_but(v, dim)), /*keepdim=*/true);
  const Tensor dv = g.div(norm).mul(dw.sub(v.mul(s.div(norm.mul(norm)))));
  return {dv, s.div(norm)};
}

// RN(RN(a1 b2) - RN(a2 b1)), and so on around.
Tensor cross(const Tensor& a, const Tensor& b, std::int64_t dim) {
  require_computed("aten::linalg_cross", {&a, &b});
  TORCH_CHECK(a.dim() == b.dim() && a.size(dim) == 3 && b.size(dim) == 3,
              "aten::linalg_cross: three numbers along dimension ", dim, " expected, got ", a.sizes(), " and ",
              b.sizes());
  return a.roll(-1, dim).mul(b.roll(-2, dim)).sub(a.roll(-2, dim).mul(b.roll(-1, dim)));
}
Tensor& cross_out(const Tensor& a, const Tensor& b, std::int64_t dim, Tensor& out) {
  return float_out("aten::linalg_cross", cross(a, b, dim), out);
}

}  // namespace

std::vector<Entry> composed_reduction_operators() {
  constexpr std::string_view sums = "4: the sum of what is not NaN";
  constexpr std::string_view scaled = "10: x * (maxnorm / (norm + 1e-7)) where the norm is above";
  constexpr std::string_view around = "10: a1 * b2 - a2 * b1, products rounded";
  return {
      certify<nansum, kIntegersByStock>("aten::nansum", "", sums),
      certify<nansum_out, kIntegersByStockAndOut>("aten::nansum", "out", sums),
      certify<trace, kIntegersByStock>("aten::trace", "", "4: the sum of the diagonal"),
      certify<std_mean>("aten::std_mean", "correction", "4: leaf moments; sum / RN(n)"),
      certify<renorm>("aten::renorm", "", scaled),
      certify<renorm_out>("aten::renorm", "out", scaled),
      certify<renorm_>("aten::renorm_", "", scaled),
      certify<weight_norm>("aten::_weight_norm_interface", "", "10: v * (g / norm)"),
      certify<weight_norm_backward>("aten::_weight_norm_interface_backward", "", "10: of v * (g / norm)"),
      certify<cross>("aten::linalg_cross", "", around),
      certify<cross_out>("aten::linalg_cross", "out", around),
  };
}

}  // namespace isobit::aten
