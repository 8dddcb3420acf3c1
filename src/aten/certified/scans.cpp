// Along one dimension: products, running sums, products, extrema and logarithms of sums (contract, sections 1, 4 and
// 10).
#include <ATen/WrapDimUtils.h>
#include <ATen/ops/_cummax_helper.h>
#include <ATen/ops/_cummin_helper.h>
#include <ATen/ops/cumprod.h>
#include <ATen/ops/cumprod_cpu_dispatch.h>
#include <ATen/ops/cumsum.h>
#include <ATen/ops/cumsum_cpu_dispatch.h>
#include <ATen/ops/prod.h>
#include <ATen/ops/prod_cpu_dispatch.h>
#include <ATen/ops/prod_native.h>

#include <optional>
#include <tuple>

#include "aten/certified/support/entry.h"
#include "aten/certified/support/tensors.h"
#include "aten/device_work.h"
#include "kernels/indexed.h"
#include "kernels/scan.h"

namespace isobit::aten {
namespace {

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
// Integers whose result is one too: stock's kernels are exact on them.
bool stays_integral(const Tensor& x, const Type& type) {
  return is_integral(x) && (!type || at::isIntegralType(*type, /*includeBool=*/true));
}
// Floats whose result is to be integers: converted first, as in torch.
bool becomes_integral(const Tensor& x, const Type& type) {
  return !is_integral(x) && type && at::isIntegralType(*type, /*includeBool=*/true);
}

// ---- prod: leaves of 512, chains from 1, and the tree of their products

Tensor factors(const Tensor& x, const Type& type) {
  constexpr const char* op = "aten::prod";
  if (!is_integral(x)) require_computed(op, x.scalar_type());
  return contiguous(x.to(require_computed(op, type.value_or(is_integral(x) ? at::kFloat : x.scalar_type()))));
}
Tensor prod_dim(const Tensor& given, std::int64_t dim, bool keep, Type type) {
  if (stays_integral(given, type)) return at::cpu::prod(given, dim, keep, type);
  if (becomes_integral(given, type)) return at::prod(given.to(*type), dim, keep, type);
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
  return write_new(sizes, x.scalar_type(),
                   [&](auto* y) { kernels::product(line.outer, line.size, line.inner, data_like(y, x), y); });
}
Tensor prod(const Tensor& x, Type type) {
  if (stays_integral(x, type)) return at::native::prod(x, type);
  if (becomes_integral(x, type)) return at::prod(x.to(*type), type);
  return prod_dim(x.is_contiguous() ? x.view({-1}) : x.contiguous().view({-1}), 0, false, type);
}
Tensor& prod_out(const Tensor& x, std::int64_t dim, bool keep, Type type, Tensor& out) {
  if (stays_integral(x, type) && is_integral(out)) return at::cpu::prod_out(out, x, dim, keep, type);
  const Type asked = type.value_or(out.scalar_type());
  if (becomes_integral(x, asked)) return at::prod_out(out, x.to(*asked), dim, keep, type);
  return float_out("aten::prod", prod_dim(x, dim, keep, asked), out);
}

// ---- cumsum, cumprod

using kernels::Cumulative;

Tensor scan(const char* op, Cumulative kind, const Tensor& given, std::int64_t dim, const Type& type) {
  if (!type || !is_integral(given)) require_computed(op, given.scalar_type());
  const Tensor x = contiguous(given.to(require_computed(op, type.value_or(given.scalar_type()))));
  dim = at::maybe_wrap_dim(dim, x.dim());
  const Line line(x, dim);
  return write_new(x.sizes(), x.scalar_type(),
                   [&](auto* y) { kernels::cumulative(kind, line.outer, line.size, line.inner, data_like(y, x), y); });
}
Tensor cumsum(const Tensor& x, std::int64_t dim, Type type) {
  if (becomes_integral(x, type)) return at::cumsum(x.to(*type), dim, type);
  return stays_integral(x, type) ? at::cpu::cumsum(x, dim, type) : scan("aten::cumsum", Cumulative::sum, x, dim, type);
}
Tensor& cumsum_out(const Tensor& x, std::int64_t dim, Type type, Tensor& out) {
  if (stays_integral(x, type) && is_integral(out)) return at::cpu::cumsum_out(out, x, dim, type);
  const Type asked = type.value_or(out.scalar_type());
  if (becomes_integral(x, asked)) return at::cumsum_out(out, x.to(*asked), dim, type);
  return float_out("aten::cumsum", scan("aten::cumsum", Cumulative::sum, x, dim, asked), out);
}
Tensor& cumsum_(Tensor& x, std::int64_t dim, Type type) {
  return is_integral(x) ? at::cpu::cumsum_(x, dim, type) : x.copy_(scan("aten::cumsum", Cumulative::sum, x, dim, type));
}
Tensor cumprod(const Tensor& x, std::int64_t dim, Type type) {
  if (becomes_integral(x, type)) return at::cumprod(x.to(*type), dim, type);
  return stays_integral(x, type) ? at::cpu::cumprod(x, dim, type)
                                 : scan("aten::cumprod", Cumulative::product, x, dim, type);
}
Tensor& cumprod_out(const Tensor& x, std::int64_t dim, Type type, Tensor& out) {
  if (stays_integral(x, type) && is_integral(out)) return at::cpu::cumprod_out(out, x, dim, type);
  const Type asked = type.value_or(out.scalar_type());
  if (becomes_integral(x, asked)) return at::cumprod_out(out, x.to(*asked), dim, type);
  return float_out("aten::cumprod", scan("aten::cumprod", Cumulative::product, x, dim, asked), out);
}
Tensor& cumprod_(Tensor& x, std::int64_t dim, Type type) {
  return is_integral(x) ? at::cpu::cumprod_(x, dim, type)
                        : x.copy_(scan("aten::cumprod", Cumulative::product, x, dim, type));
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
Tensor& logcumsumexp_out(const Tensor& x, std::int64_t dim, Tensor& out) {
  return float_out(kLogSums, logcumsumexp(x, dim), out);
}

// ---- cummax, cummin: PyTorch's selection, the last NaN so far, else the last of the largest. A device's integers
// use the CPU fallback: which of equal ones stock's kernel takes there is not known to be the CPU's choice.

template <bool largest>
Pair running_extremum(const Tensor& x, std::int64_t dim) {
  if (!is_integral(x)) require_computed(largest ? "aten::cummax" : "aten::cummin", x.scalar_type());
  dim = at::maybe_wrap_dim(dim, x.dim());
  const Tensor from = contiguous(x);
  Tensor values = new_tensor(x.sizes(), x.scalar_type()), index = new_tensor(x.sizes(), at::kLong);
  if (x.dim() == 0) return {values.copy_(x), index.zero_()};
  if (x.numel() == 0) return {values, index};
  if (is_integral(x) && working_device() != nullptr) return computed_by_host(&running_extremum<largest>, x, dim);
  if (is_integral(x)) {
    largest ? at::_cummax_helper(from, values, index, dim) : at::_cummin_helper(from, values, index, dim);
  } else {
    const Line line(x, dim);
    with_data(values, [&](auto* y) {
      kernels::running_extremum(largest, line.outer, line.size, line.inner, data_like(y, from), y,
                                index.mutable_data_ptr<std::int64_t>());
    });
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

}  // namespace

std::vector<Entry> scan_operators() {
  constexpr std::string_view products = "4: products of leaves of 512, pairwise tree";
  constexpr std::string_view logs = "10: one chain along the dimension in binary64";
  constexpr std::string_view running = "1: a selection: the last NaN, else the last of the largest";
  constexpr std::string_view chain = "4: one chain along the dimension";
  return {
      certify<prod, kIntegersByStock>("aten::prod", "", products),
      certify<prod_dim, kIntegersByStock>("aten::prod", "dim_int", products),
      certify<prod_out, kIntegersByStockAndOut>("aten::prod", "int_out", products),
      certify<cumsum, kIntegersByStock>("aten::cumsum", "", chain),
      certify<cumsum_out, kIntegersByStockAndOut>("aten::cumsum", "out", chain),
      certify<cumsum_, kIntegersByStock>("aten::cumsum_", "", chain),
      certify<cumprod, kIntegersByStock>("aten::cumprod", "", chain),
      certify<cumprod_out, kIntegersByStockAndOut>("aten::cumprod", "out", chain),
      certify<cumprod_, kIntegersByStock>("aten::cumprod_", "", chain),
      certify<logcumsumexp>(kLogSums, "", logs),
      certify<logcumsumexp_out>(kLogSums, "out", logs),
      certify<running_extremum<true>>("aten::cummax", "", running),
      certify<running_extremum_out<true>>("aten::cummax", "out", running),
      certify<running_extremum<false>>("aten::cummin", "", running),
      certify<running_extremum_out<false>>("aten::cummin", "out", running),
  };
}

}  // namespace isobit::aten
