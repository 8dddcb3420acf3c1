// The parts of an LU factorisation: permutation, unit lower and upper triangle, copied (contract, section 14).
#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/linalg_lu_factor_ex.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <numeric>
#include <tuple>
#include <vector>

#include "aten/certified/support/entry.h"
#include "aten/certified/support/indexed_plan.h"
#include "aten/certified/support/tensors.h"

namespace isobit::aten {
namespace {

using at::Tensor;
using Parts = std::tuple<Tensor, Tensor, Tensor>;
using PartsOut = std::tuple<Tensor&, Tensor&, Tensor&>;

// Row i of the permuted matrix is where the 1 of column i lies: exchanges from the first to the last, as LAPACK lists
// them.
Tensor permutation(const Tensor& given, at::IntArrayRef batch, std::int64_t rows, at::ScalarType type) {
  const Tensor pivots = contiguous(given);
  const std::int32_t* const exchange = pivots.const_data_ptr<std::int32_t>();
  at::DimVector sizes(batch);
  sizes.append({rows, rows});
  Tensor result = at::zeros(sizes, at::TensorOptions(type));
  const std::int64_t count = c10::multiply_integers(batch), steps = pivots.size(-1);
  std::vector<std::int64_t> order(static_cast<std::size_t>(rows));
  with_data(result, [&](auto* to) {
    for (std::int64_t b = 0; b < count; ++b) {
      std::iota(order.begin(), order.end(), std::int64_t{0});
      for (std::int64_t i = 0; i < steps; ++i) {
        const std::int64_t other = exchange[b * steps + i] - 1;
        TORCH_CHECK(other >= 0 && other < rows, "lu_unpack: pivot ", other + 1, " of ", rows, " rows");
        std::swap(order[static_cast<std::size_t>(i)], order[static_cast<std::size_t>(other)]);
      }
      for (std::int64_t i = 0; i < rows; ++i) {
        to[(b * rows + order[static_cast<std::size_t>(i)]) * rows + i] = 1;
      }
    }
  });
  return result;
}

Parts unpack_lu(const Tensor& lu, const Tensor& pivots, bool with_data_parts, bool with_pivots) {
  const at::ScalarType type = require_computed("aten::lu_unpack", lu.scalar_type());
  TORCH_CHECK(lu.dim() >= 2, "lu_unpack: matrices expected, got ", lu.sizes());
  const std::int64_t rows = lu.size(-2), columns = lu.size(-1), k = std::min(rows, columns);
  const at::IntArrayRef batch = lu.sizes().slice(0, static_cast<std::size_t>(lu.dim() - 2));
  Tensor p = at::empty({0}, lu.options()), l = at::empty({0}, lu.options()), u = at::empty({0}, lu.options());
  if (with_pivots) {
    TORCH_CHECK(pivots.scalar_type() == at::kInt && pivots.dim() == lu.dim() - 1 && pivots.size(-1) == k &&
                    pivots.sizes().slice(0, batch.size()) == batch,
                "lu_unpack: pivots of int32 and of the matrices' sizes expected, got ", pivots.sizes());
    p = permutation(pivots, batch, rows, type);
  }
  if (with_data_parts) {
    l = lu.narrow(-1, 0, k).tril(-1);
    l.diagonal(0, -2, -1).fill_(1);
    u = lu.narrow(-2, 0, k).triu();
  }
  return {p, l, u};
}
PartsOut give(const Parts& parts, Tensor& p, Tensor& l, Tensor& u) {
  copy_out(p, std::get<0>(parts)), copy_out(l, std::get<1>(parts)), copy_out(u, std::get<2>(parts));
  return {p, l, u};
}
PartsOut unpack_lu_out(const Tensor& lu, const Tensor& pivots, bool with_data_parts, bool with_pivots, Tensor& p,
                       Tensor& l, Tensor& u) {
  return give(unpack_lu(lu, pivots, with_data_parts, with_pivots), p, l, u);
}

Parts lu(const Tensor& a, bool pivot) {
  const auto [factors, pivots, info] = at::linalg_lu_factor_ex(a, pivot, false);
  return unpack_lu(factors, pivots, true, true);
}
PartsOut lu_out(const Tensor& a, bool pivot, Tensor& p, Tensor& l, Tensor& u) { return give(lu(a, pivot), p, l, u); }

}  // namespace

std::vector<Entry> lu_part_operators() {
  constexpr std::string_view factors = "14: LU with partial pivoting in binary64, rounded once";
  constexpr std::string_view parts = "14: the parts of LU, copied";
  return {
      certify_by_host<lu>("aten::linalg_lu", "", factors),
      certify_by_host<lu_out>("aten::linalg_lu", "out", factors),
      certify_by_host<unpack_lu>("aten::lu_unpack", "", parts),
      certify_by_host<unpack_lu_out>("aten::lu_unpack", "out", parts),
  };
}

}  // namespace isobit::aten
