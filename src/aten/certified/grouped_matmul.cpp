// One matrix product per group, as mixtures of experts call them (contract, section 3). Each group has the bits of its
// product alone. `offs` has the index after each group's last row, column or k.
#include <ATen/core/Tensor.h>
#include <ATen/ops/bmm.h>
#include <ATen/ops/mm.h>
#include <ATen/ops/zeros.h>

#include <optional>

#include "aten/certified/support/entry.h"
#include "aten/certified/support/tensors.h"

namespace isobit::aten {
namespace {

using at::Tensor;
using Optional = std::optional<Tensor>;

constexpr const char* kGrouped = "aten::_grouped_mm";

void check_offsets(const Tensor& offsets, std::int64_t size) {
  const std::int32_t* const at = offsets.const_data_ptr<std::int32_t>();
  std::int32_t before = 0;
  for (std::int64_t g = 0; g < offsets.numel(); ++g) {
    TORCH_CHECK(at[g] >= before && at[g] <= size, kGrouped, ": offsets ", offsets,
                " must never decrease and stay at or below ", size);
    before = at[g];
  }
}

// Rows and columns that no group has are +0.
Tensor grouped_mm(const Tensor& a, const Tensor& b, const Optional& given_offsets, const Optional& bias,
                  std::optional<at::ScalarType> type) {
  require_float(kGrouped, {&a, &b});
  const bool with_offsets = given_offsets && given_offsets->defined();
  TORCH_CHECK(!(bias && bias->defined()), kGrouped, ": a bias is not supported");
  TORCH_CHECK(type.value_or(at::kFloat) == at::kFloat, kGrouped, ": the result has the type of its operands");
  TORCH_CHECK((a.dim() == 2 || a.dim() == 3) && (b.dim() == 2 || b.dim() == 3), kGrouped,
              ": operands of two or three dimensions expected, got ", a.sizes(), " and ", b.sizes());
  TORCH_CHECK(with_offsets == (a.dim() == 2 || b.dim() == 2), kGrouped,
              ": offsets are needed if there is a matrix of two dimensions, and only then");
  TORCH_CHECK(a.size(-1) == b.size(-2), kGrouped, ": cannot multiply ", a.sizes(), " by ", b.sizes());
  if (!with_offsets) return at::bmm(a, b);
  TORCH_CHECK(given_offsets->scalar_type() == at::kInt && given_offsets->dim() == 1, kGrouped,
              ": offsets must be one dimension of int32");
  const Tensor offsets = contiguous(given_offsets->cpu());
  const std::int64_t groups = offsets.numel(), rows = a.size(-2), columns = b.size(-1);
  const bool along_rows = b.dim() == 3, along_columns = a.dim() == 3;
  TORCH_CHECK((!along_rows || b.size(0) == groups) && (!along_columns || a.size(0) == groups), kGrouped, ": ", groups,
              " offsets for ", a.sizes(), " and ", b.sizes());
  check_offsets(offsets, along_rows ? rows : along_columns ? columns : a.size(1));
  const Tensor y = along_rows || along_columns ? at::zeros({rows, columns}, a.options())
                                               : at::zeros({groups, rows, columns}, a.options());
  std::int64_t begin = 0;
  for (std::int64_t g = 0; g < groups; ++g) {
    const std::int64_t size = offsets.const_data_ptr<std::int32_t>()[g] - begin;
    if (along_rows) {
      Tensor part = y.narrow(0, begin, size);
      if (size > 0) at::mm_out(part, a.narrow(0, begin, size), b[g]);
    } else if (along_columns) {
      if (size > 0) y.narrow(1, begin, size).copy_(at::mm(a[g], b.narrow(1, begin, size)));
    } else {
      Tensor part = y[g];
      at::mm_out(part, a.narrow(1, begin, size), b.narrow(0, begin, size));
    }
    begin += size;
  }
  return y;
}

}  // namespace

std::vector<Entry> grouped_matmul_operators() {
  return {certify<grouped_mm>(kGrouped, "", "3: each group's product alone, leaves of 512 along its k, pairwise tree")};
}

}  // namespace isobit::aten
