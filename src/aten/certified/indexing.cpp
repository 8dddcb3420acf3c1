// Additions by index and running sums (contract, section 4; kernels/indexed.h).
//
// A device's indices are brought to the host first. Integers go to stock's kernels, exact in any order.
#include <ATen/WrapDimUtils.h>
#include <ATen/ops/cumprod_cpu_dispatch.h>
#include <ATen/ops/cumsum_cpu_dispatch.h>
#include <ATen/ops/index_add_cpu_dispatch.h>
#include <ATen/ops/scatter_add_cpu_dispatch.h>

#include <optional>

#include "aten/certified/entry.h"
#include "aten/certified/indexed_plan.h"

namespace isobit::aten {
namespace {

using at::Scalar;
using at::Tensor;
using Type = std::optional<at::ScalarType>;

// ---- embedding: gradient of the rows

Tensor embedding_backward(const Tensor& grad_output, const Tensor& indices, std::int64_t rows, std::int64_t padding,
                          bool scale_by_frequency) {
  constexpr const char* op = "aten::embedding_dense_backward";
  require_float(op, grad_output);
  return row_gradients(op, contiguous(grad_output), on_host(indices).flatten(), rows, padding, scale_by_frequency);
}

// ---- index_add

Tensor index_add(const Tensor& self, std::int64_t dim, const Tensor& index, const Tensor& source, const Scalar& alpha) {
  if (is_integral(self)) return at::cpu::index_add(self, dim, index, source, alpha);
  require_float("aten::index_add", self);
  const Tensor result = fresh_copy(self);
  add_rows("aten::index_add", result, dim, index, source, alpha);
  return result;
}
Tensor& index_add_out(const Tensor& self, std::int64_t dim, const Tensor& index, const Tensor& source,
                      const Scalar& alpha, Tensor& out) {
  if (is_integral(self)) return at::cpu::index_add_out(out, self, dim, index, source, alpha);
  require_float("aten::index_add", out);
  copy_out(out, index_add(self, dim, index, source, alpha));
  return out;
}
Tensor& index_add_(Tensor& self, std::int64_t dim, const Tensor& index, const Tensor& source, const Scalar& alpha) {
  if (is_integral(self)) return at::cpu::index_add_(self, dim, index, source, alpha);
  return self.copy_(index_add(self, dim, index, source, alpha));
}

// ---- scatter_add: every element of the index names its own destination

Tensor scatter_add(const Tensor& self, std::int64_t dim, const Tensor& given_index, const Tensor& source) {
  if (is_integral(self)) return at::cpu::scatter_add(self, dim, given_index, source);
  constexpr const char* op = "aten::scatter_add";
  require_float(op, {&self, &source});
  const Tensor result = fresh_copy(self);
  if (given_index.numel() == 0) return result;
  const auto lifted = [](const Tensor& t) { return t.dim() == 0 ? t.unsqueeze(0) : t; };
  const Tensor to = lifted(result), index = lifted(on_host(given_index));
  Tensor from = lifted(source);
  dim = at::maybe_wrap_dim(dim, to.dim());
  TORCH_CHECK(index.dim() == to.dim() && from.dim() == to.dim(), op, ": index ", index.sizes(), ", source ",
              from.sizes(), " and self ", to.sizes(), " differ in dimensions");
  for (std::int64_t d = 0; d < to.dim(); ++d) {
    TORCH_CHECK(index.size(d) <= from.size(d) && (d == dim || index.size(d) <= to.size(d)), op, ": index ",
                index.sizes(), " is larger than source ", from.sizes(), " or self ", to.sizes());
    from = from.narrow(d, 0, index.size(d));
  }
  check_index(op, index, to.size(dim));
  from = contiguous(from);
  const IndexedPlan plan = plan_of(linear_destinations(index, to.sizes(), dim), to.numel());
  kernels::indexed_add(plan.occurrences(), 1, index.numel(), 1, 1.0f, from.const_data_ptr<float>(),
                       result.mutable_data_ptr<float>());
  return result;
}
Tensor& scatter_add_out(const Tensor& self, std::int64_t dim, const Tensor& index, const Tensor& source, Tensor& out) {
  if (is_integral(self)) return at::cpu::scatter_add_out(out, self, dim, index, source);
  require_float("aten::scatter_add", out);
  copy_out(out, scatter_add(self, dim, index, source));
  return out;
}
Tensor& scatter_add_(Tensor& self, std::int64_t dim, const Tensor& index, const Tensor& source) {
  if (is_integral(self)) return at::cpu::scatter_add_(self, dim, index, source);
  return self.copy_(scatter_add(self, dim, index, source));
}

// ---- cumsum, cumprod

using kernels::Cumulative;

bool exact_scan(const Tensor& x, const Type& type) {
  return is_integral(x) && (!type || at::isIntegralType(*type, /*includeBool=*/true));
}
Tensor scan(const char* op, Cumulative kind, const Tensor& given, std::int64_t dim, const Type& type) {
  if (type && *type != at::kFloat) refuse_type(op, *type);
  if (!type || !is_integral(given)) require_float(op, given);
  const Tensor x = contiguous(given.to(at::kFloat));
  dim = at::maybe_wrap_dim(dim, x.dim());
  std::int64_t outer = 1, size = x.dim() == 0 ? 1 : x.size(dim), inner = 1;
  for (std::int64_t d = 0; d < dim; ++d) outer *= x.size(d);
  for (std::int64_t d = dim + 1; d < x.dim(); ++d) inner *= x.size(d);
  return write_new(x.sizes(), [&](float* y) {
    kernels::cumulative(kind, outer, size, inner, x.const_data_ptr<float>(), y);
  });
}
Tensor cumsum(const Tensor& x, std::int64_t dim, Type type) {
  return exact_scan(x, type) ? at::cpu::cumsum(x, dim, type) : scan("aten::cumsum", Cumulative::sum, x, dim, type);
}
Tensor& cumsum_out(const Tensor& x, std::int64_t dim, Type type, Tensor& out) {
  if (exact_scan(x, type) && is_integral(out)) return at::cpu::cumsum_out(out, x, dim, type);
  require_float("aten::cumsum", out);
  copy_out(out, scan("aten::cumsum", Cumulative::sum, x, dim, at::kFloat));
  return out;
}
Tensor& cumsum_(Tensor& x, std::int64_t dim, Type type) {
  return is_integral(x) ? at::cpu::cumsum_(x, dim, type) : x.copy_(scan("aten::cumsum", Cumulative::sum, x, dim, type));
}
Tensor cumprod(const Tensor& x, std::int64_t dim, Type type) {
  return exact_scan(x, type) ? at::cpu::cumprod(x, dim, type)
                             : scan("aten::cumprod", Cumulative::product, x, dim, type);
}
Tensor& cumprod_out(const Tensor& x, std::int64_t dim, Type type, Tensor& out) {
  if (exact_scan(x, type) && is_integral(out)) return at::cpu::cumprod_out(out, x, dim, type);
  require_float("aten::cumprod", out);
  copy_out(out, scan("aten::cumprod", Cumulative::product, x, dim, at::kFloat));
  return out;
}
Tensor& cumprod_(Tensor& x, std::int64_t dim, Type type) {
  return is_integral(x) ? at::cpu::cumprod_(x, dim, type)
                        : x.copy_(scan("aten::cumprod", Cumulative::product, x, dim, type));
}

}  // namespace

std::vector<Entry> indexing_operators() {
  constexpr std::string_view ordered = "4: occurrences in ascending order, leaves of 512, pairwise tree";
  constexpr std::string_view chain = "4: one chain along the dimension";
  return {
      certify<embedding_backward>("aten::embedding_dense_backward", "", ordered),
      certify<index_add, kIntegersByStock>("aten::index_add", "", ordered),
      certify<index_add_out, kIntegersByStockAndOut>("aten::index_add", "out", ordered),
      certify<index_add_, kIntegersByStock>("aten::index_add_", "", ordered),
      certify<scatter_add, kIntegersByStock>("aten::scatter_add", "", ordered),
      certify<scatter_add_out, kIntegersByStockAndOut>("aten::scatter_add", "out", ordered),
      certify<scatter_add_, kIntegersByStock>("aten::scatter_add_", "", ordered),
      certify<cumsum, kIntegersByStock>("aten::cumsum", "", chain),
      certify<cumsum_out, kIntegersByStockAndOut>("aten::cumsum", "out", chain),
      certify<cumsum_, kIntegersByStock>("aten::cumsum_", "", chain),
      certify<cumprod, kIntegersByStock>("aten::cumprod", "", chain),
      certify<cumprod_out, kIntegersByStockAndOut>("aten::cumprod", "out", chain),
      certify<cumprod_, kIntegersByStock>("aten::cumprod_", "", chain),
  };
}

}  // namespace isobit::aten
