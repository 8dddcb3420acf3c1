// Additions by index: index_add, scatter_add (contract, section 4; kernels/indexed.h).
//
// A device's indices are brought to the host first. Integers go to stock's kernels, exact in any order.
#include <ATen/WrapDimUtils.h>
#include <ATen/ops/index_add_cpu_dispatch.h>
#include <ATen/ops/scatter_add_cpu_dispatch.h>

#include "aten/certified/support/entry.h"
#include "aten/certified/support/indexed_plan.h"

namespace isobit::aten {
namespace {

using at::Scalar;
using at::Tensor;

// ---- index_add

Tensor index_add(const Tensor& self, std::int64_t dim, const Tensor& index, const Tensor& source, const Scalar& alpha) {
  if (is_integral(self)) return at::cpu::index_add(self, dim, index, source, alpha);
  require_computed("aten::index_add", self.scalar_type());
  const Tensor result = fresh_copy(self);
  add_rows("aten::index_add", result, dim, index, source, alpha);
  return result;
}
Tensor& index_add_out(const Tensor& self, std::int64_t dim, const Tensor& index, const Tensor& source,
                      const Scalar& alpha, Tensor& out) {
  if (is_integral(self)) return at::cpu::index_add_out(out, self, dim, index, source, alpha);
  return float_out("aten::index_add", index_add(self, dim, index, source, alpha), out);
}
Tensor& index_add_(Tensor& self, std::int64_t dim, const Tensor& index, const Tensor& source, const Scalar& alpha) {
  if (is_integral(self)) return at::cpu::index_add_(self, dim, index, source, alpha);
  constexpr const char* op = "aten::index_add_";
  require_computed(op, self.scalar_type());
  return write_in_place(op, self, {&index, &source},
                        [&](const Tensor& result) { add_rows(op, result, dim, index, source, alpha); });
}

// ---- scatter_add: every element of the index names its own destination

void scatter_into_result(const char* op, const Tensor& result, std::int64_t dim, const Tensor& index,
                         const Tensor& source) {
  if (index.numel() == 0) return;
  const Scatter scatter = scatter_into(op, result, dim, index, source);
  add_by_index(result, scatter.source, scatter.to, 1, scatter.rows, scatter.inner);
}
Tensor scatter_add(const Tensor& self, std::int64_t dim, const Tensor& index, const Tensor& source) {
  if (is_integral(self)) return at::cpu::scatter_add(self, dim, index, source);
  constexpr const char* op = "aten::scatter_add";
  require_computed(op, {&self, &source});
  const Tensor result = fresh_copy(self);
  scatter_into_result(op, result, dim, index, source);
  return result;
}
Tensor& scatter_add_out(const Tensor& self, std::int64_t dim, const Tensor& index, const Tensor& source, Tensor& out) {
  if (is_integral(self)) return at::cpu::scatter_add_out(out, self, dim, index, source);
  return float_out("aten::scatter_add", scatter_add(self, dim, index, source), out);
}
Tensor& scatter_add_(Tensor& self, std::int64_t dim, const Tensor& index, const Tensor& source) {
  if (is_integral(self)) return at::cpu::scatter_add_(self, dim, index, source);
  constexpr const char* op = "aten::scatter_add_";
  require_computed(op, {&self, &source});
  return write_in_place(op, self, {&index, &source},
                        [&](const Tensor& result) { scatter_into_result(op, result, dim, index, source); });
}

}  // namespace

std::vector<Entry> indexed_sum_operators() {
  constexpr std::string_view ordered = "4: occurrences in ascending order, leaves of 512, pairwise tree";
  return {
      certify<index_add, kIntegersByStock>("aten::index_add", "", ordered),
      certify<index_add_out, kIntegersByStockAndOut>("aten::index_add", "out", ordered),
      certify<index_add_, kIntegersByStock>("aten::index_add_", "", ordered),
      certify<scatter_add, kIntegersByStock>("aten::scatter_add", "", ordered),
      certify<scatter_add_out, kIntegersByStockAndOut>("aten::scatter_add", "out", ordered),
      certify<scatter_add_, kIntegersByStock>("aten::scatter_add_", "", ordered),
  };
}

}  // namespace isobit::aten
