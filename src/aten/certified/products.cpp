// Products, and reductions made of others: prod, logcumsumexp, nansum, trace, std_mean, renorm, weight norm, cross (contract,
// sections 4 and 10).
#include <ATen/WrapDimUtils.h>
#include <ATen/ops/_cummax_helper.h>
#include <ATen/ops/_cummin_helper.h>
#include <ATen/ops/linalg_vector_norm.h>
#include <ATen/ops/mean.h>
#include <ATen/ops/prod_cpu_dispatch.h>
#include <ATen/ops/prod_native.h>
#include <ATen/ops/std.h>
#include <ATen/ops/where.h>

#include <optional>
#include <tuple>

#include "aten/certified/entry.h"
#include "aten/certified/tensors.h"
#include "aten/device_work.h"
#include "kernels/scan.h"

namespace isobit::aten {
namespace {

using at::Scalar;
using at::Tensor;
using Type = std::optional<at::ScalarType>;
using Pair = std::tuple<Tensor, Tensor>;

// A dimension of a tensor: [outer, size, inner].
struct Line {
  std::int64_t outer = 1, size = 1, inner = 1;
  Line(const Tensor& x, std::int64_t dim) {
    if (x.dim() > 0) size = x.size(dim);
    for (std::int64_t d = 0; d < dim; ++d) outer *= x.size(d);
    for (std::int64_t d = dim + 1; d < x.dim(); ++d) inner *= x.size(d);
  }
};

// ---- prod: leaves of 512, chains from 1, and the tree of their products

bool exact_product(const Tensor& x, const Type& type) {
  return is_integral(x) && (!type || at::isIntegralType(*type, /*includeBool=*/true));
}
Tensor factors(const Tensor& x, const Type& type) {
  constexpr const char* op = "aten::prod";
  if (type && *type != at::kFloat) refuse_type(op, *type);
  if (!is_integral(x)) require_float(op, x);
  return contiguous(x.to(at::kFloat));
}
Tensor prod_dim(const Tensor& given, std::int64_t dim, bool keep, Type type) {
  if (exact_product(given, type)) return at::cpu::prod(given, dim, keep, type);
  const Tensor x = factors(given, type);
  dim = at::maybe_wrap_dim(dim, x.dim());
  if (x.dim() == 0) return x.clone();
  const Line line(x, dim);
  at::DimVector sizes(x.sizes());
  if (keep) {
    sizes[dim] = 1;
  } else {
    sizes.erase(sizes.begin() + dim);
  }
  return write_new(sizes, [&](float* y) { kernels::product(line.outer, line.size, line.inner, x.const_data_ptr<float>(), y); });
}
Tensor prod(const Tensor& x, Type type) {
  if (exact_product(x, type)) return at::native::prod(x, type);
  return prod_dim(x.is_contiguous() ? x.view({-1}) : x.contiguous().view({-1}), 0, false, type);
}
Tensor& prod_out(const Tensor& x, std::int64_t dim, bool keep, Type type, Tensor& out) {
  if (exact_product(x, type) && is_integral(out)) return at::cpu::prod_out(out, x, dim, keep, type);
  return float_out("aten::prod", prod_dim(x, dim, keep, at::kFloat), out);
}

// ---- logcumsumexp: one chain along the dimension, carried in binary64

constexpr const char* kLogSums = "aten::_logcumsumexp";
Tensor logcumsumexp(const Tensor& given, std::int64_t dim) {
  require_float(kLogSums, given);
  const Tensor x = contiguous(given);
  dim = at::maybe_wrap_dim(dim, x.dim());
  const Line line(x, dim);
  return write_new(x.sizes(), [&](float* y) {
    kernels::running_log_sum(line.outer, line.size, line.inner, x.const_data_ptr<float>(), y);
  });
}
Tensor& logcumsumexp_out(const Tensor& x, std::int64_t dim, Tensor& out) { return float_out(kLogSums, logcumsumexp(x, dim), out); }

// ---- cummax, cummin: PyTorch's selection, the last NaN so far, else the last of the largest. A device's integers go by way
// of the host: which of equal ones stock's kernel takes there is not known to be the CPU's choice.

template <bool largest>
Pair running_extremum(const Tensor& x, std::int64_t dim) {
  if (!is_integral(x)) require_float(largest ? "aten::cummax" : "aten::cummin", x);
  dim = at::maybe_wrap_dim(dim, x.dim());
  const Tensor from = contiguous(x);
  Tensor values = new_tensor(x.sizes(), x.scalar_type()), index = new_tensor(x.sizes(), at::kLong);
  if (x.dim() == 0) return {values.copy_(x), index.zero_()};
  if (x.numel() == 0) return {values, index};
  if (is_integral(x) && working_device() != nullptr) return ByHost<running_extremum<largest>>::call(x, dim);
  if (is_integral(x)) {
    largest ? at::_cummax_helper(from, values, index, dim) : at::_cummin_helper(from, values, index, dim);
  } else {
    const Line line(x, dim);
    kernels::running_extremum(largest, line.outer, line.size, line.inner, from.const_data_ptr<float>(),
                              values.mutable_data_ptr<float>(), index.mutable_data_ptr<std::int64_t>());
  }
  return {values, index};
}
template <bool largest>
std::tuple<Tensor&, Tensor&> running_extremum_out(const Tensor& x, std::int64_t dim, Tensor& values, Tensor& index) {
  const Pair results = running_extremum<largest>(x, dim);
  copy_out(values, std::get<0>(results));
  copy_out(index, std::get<1>(results));
  return {values, index};
}

// ---- made of other operators

Tensor nansum(const Tensor& x, at::OptionalIntArrayRef dims, bool keep, Type type) {
  if (is_integral(x)) return x.sum(dims, keep, type);
  require_float("aten::nansum", x);
  return at::where(x.isnan(), new_tensor({}).zero_(), x).sum(dims, keep, type);
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
  require_float("aten::std_mean", x);
  return {at::std(x, dims, correction, keep), at::mean(x, dims, keep)};
}

// x scaled by RN(maxnorm / RN(norm + 1e-7)) where its norm is above maxnorm.
Tensor renorm(const Tensor& x, const Scalar& p, std::int64_t dim, const Scalar& most) {
  require_float("aten::renorm", x);
  dim = at::maybe_wrap_dim(dim, x.dim());
  at::DimVector others;
  for (std::int64_t d = 0; d < x.dim(); ++d) {
    if (d != dim) others.push_back(d);
  }
  const Tensor norm = at::linalg_vector_norm(x, p, at::IntArrayRef(others), /*keepdim=*/true);
  const Tensor one = new_tensor({}).fill_(1.0), factor = norm.add(1e-7).reciprocal_().mul_(most);
  return x.mul(at::where(norm.gt(most), factor, one));
}
Tensor& renorm_out(const Tensor& x, const Scalar& p, std::int64_t dim, const Scalar& most, Tensor& out) {
  return float_out("aten::renorm", renorm(x, p, dim, most), out);
}
Tensor& renorm_(Tensor& x, const Scalar& p, std::int64_t dim, const Scalar& most) { return x.copy_(renorm(x, p, dim, most)); }

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
  require_float("aten::_weight_norm_interface", {&v, &g});
  const Tensor norm = at::linalg_vector_norm(v, 2, at::IntArrayRef(all_but(v, dim)), /*keepdim=*/true);
  return {v.mul(g.div(norm)), norm};
}
// s = sum of dw * v: dg = s / norm, dv = (g / norm) * (dw - v * (s / (norm * norm))).
Pair weight_norm_backward(const Tensor& dw, const Tensor& v, const Tensor& g, const Tensor& norm, std::int64_t dim) {
  require_float("aten::_weight_norm_interface_backward", {&dw, &v, &g, &norm});
  const Tensor s = dw.mul(v).sum(at::IntArrayRef(all_but(v, dim)), /*keepdim=*/true);
  const Tensor dv = g.div(norm).mul(dw.sub(v.mul(s.div(norm.mul(norm)))));
  return {dv, s.div(norm)};
}

// RN(RN(a1 b2) - RN(a2 b1)), and so on around.
Tensor cross(const Tensor& a, const Tensor& b, std::int64_t dim) {
  require_float("aten::linalg_cross", {&a, &b});
  TORCH_CHECK(a.dim() == b.dim() && a.size(dim) == 3 && b.size(dim) == 3, "aten::linalg_cross: three numbers along dimension ", dim,
              " expected, got ", a.sizes(), " and ", b.sizes());
  return a.roll(-1, dim).mul(b.roll(-2, dim)).sub(a.roll(-2, dim).mul(b.roll(-1, dim)));
}
Tensor& cross_out(const Tensor& a, const Tensor& b, std::int64_t dim, Tensor& out) {
  return float_out("aten::linalg_cross", cross(a, b, dim), out);
}

}  // namespace

std::vector<Entry> product_operators() {
  constexpr std::string_view products = "4: products of leaves of 512, pairwise tree";
  constexpr std::string_view sums = "4: the sum of what is not NaN";
  constexpr std::string_view logs = "10: one chain along the dimension in binary64";
  constexpr std::string_view running = "1: a selection: the last NaN, else the last of the largest";
  constexpr std::string_view scaled = "10: x * (maxnorm / (norm + 1e-7)) where the norm is above";
  constexpr std::string_view around = "10: a1 * b2 - a2 * b1, products rounded";
  return {
      certify<prod, kIntegersByStock>("aten::prod", "", products),
      certify<prod_dim, kIntegersByStock>("aten::prod", "dim_int", products),
      certify<prod_out, kIntegersByStockAndOut>("aten::prod", "int_out", products),
      certify<logcumsumexp>(kLogSums, "", logs),
      certify<logcumsumexp_out>(kLogSums, "out", logs),
      certify<running_extremum<true>>("aten::cummax", "", running),
      certify<running_extremum_out<true>>("aten::cummax", "out", running),
      certify<running_extremum<false>>("aten::cummin", "", running),
      certify<running_extremum_out<false>>("aten::cummin", "out", running),
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
