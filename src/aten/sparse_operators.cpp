#include "aten/sparse_operators.h"

#include <ATen/core/Tensor.h>
#include <ATen/native/SparseTensorUtils.h>
#include <ATen/ops/_sparse_coo_tensor_unsafe.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <numeric>
#include <string>

#include "aten/certified/support/indexed_plan.h"
#include "aten/certified/support/tensors.h"
#include "aten/refusal.h"
#include "kernels/indexed.h"

namespace isobit::aten {
namespace {

using at::Scalar;
using at::Tensor;

constexpr const char* kRemedy = "use dense tensors (sparse=False of an embedding)";

// What a sparse tensor is made of: a row of values for each column of the indices.
struct Rows {
  Tensor indices, values;  // [sparse dimensions, n], [n, dense sizes]
  std::int64_t places = 1, width = 1;
  bool coalesced = false;

  Rows(std::string_view op, const Tensor& sparse) {
    const auto* const impl = at::sparse::get_sparse_impl(sparse);
    if (impl->sparse_dim() == 0) refuse(op, "is certified for sparse tensors with a sparse dimension", kRemedy);
    indices = contiguous(impl->indices()), values = contiguous(impl->values()), coalesced = impl->coalesced();
    for (std::int64_t d = 0; d < sparse.dim(); ++d) (d < impl->sparse_dim() ? places : width) *= sparse.size(d);
  }
  [[nodiscard]] std::int64_t count() const { return values.size(0); }
  [[nodiscard]] Tensor flat() const { return values.reshape({count(), width}); }

  // Row-major number of each row's place among the sparse dimensions.
  [[nodiscard]] Tensor numbers(std::string_view op, const Tensor& sparse) const {
    const Tensor result = host_integers(count());
    std::int64_t* const to = result.mutable_data_ptr<std::int64_t>();
    const std::int64_t* const from = indices.const_data_ptr<std::int64_t>();
    for (std::int64_t i = 0; i < count(); ++i) {
      to[i] = 0;
      for (std::int64_t d = 0; d < indices.size(0); ++d) {
        const std::int64_t index = from[d * count() + i];
        TORCH_CHECK_INDEX(index >= 0 && index < sparse.size(d), std::string(op), ": index ", index,
                          " is out of bounds for size ", sparse.size(d));
        to[i] = to[i] * sparse.size(d) + index;
      }
    }
    return result;
  }
};

Tensor sparse_of(const Tensor& indices, const Tensor& values, at::IntArrayRef sizes, bool coalesced) {
  return at::_sparse_coo_tensor_unsafe(indices, values, sizes, values.options().layout(at::kSparse), coalesced);
}
Tensor& become(Tensor& self, const Tensor& result) {
  auto* const impl = at::sparse::get_sparse_impl(self);
  const auto* const from = at::sparse::get_sparse_impl(result);
  impl->set_indices_and_values_unsafe(from->indices(), from->values());
  impl->set_coalesced(from->coalesced());
  return self;
}

// ---- coalescing: the rows of one place, in ascending order, are summed as a scatter sums them

Tensor coalesced(std::string_view op, const Tensor& self) {
  const Rows rows(op, self);
  if (rows.coalesced) return self;
  require_computed(op, rows.values.scalar_type());
  const Tensor numbers = rows.numbers(op, self), order = host_integers(rows.count());
  const std::int64_t* const number = numbers.const_data_ptr<std::int64_t>();
  std::int64_t* const at = order.mutable_data_ptr<std::int64_t>();
  std::iota(at, at + rows.count(), std::int64_t{0});
  std::stable_sort(at, at + rows.count(), [&](std::int64_t a, std::int64_t b) { return number[a] < number[b]; });
  const Tensor begins = host_integers(rows.count() + 1);
  std::int64_t* const begin = begins.mutable_data_ptr<std::int64_t>();
  std::int64_t n = 0;
  for (std::int64_t i = 0; i < rows.count(); ++i) {
    if (i == 0 || number[at[i]] != number[at[i - 1]]) begin[n++] = i;
  }
  begin[n] = rows.count();
  const Tensor begin_of = begins.narrow(0, 0, n + 1);
  const Tensor indices = rows.indices.index_select(1, order.index_select(0, begin_of.narrow(0, 0, n)));
  at::DimVector sizes(rows.values.sizes());
  sizes[0] = n;
  const Tensor values = at::zeros(sizes, rows.values.options());
  const IndexedPlan plan = plan_of_lists(begin_of, order);
  with_data(values, [&](auto* to) {
    kernels::indexed_add(plan.occurrences(), 1, rows.count(), rows.width, like(to, 1.0), data_like(to, rows.values),
                         to);
  });
  return sparse_of(indices, values, self.sizes(), true);
}
Tensor coalesce(const Tensor& self) { return coalesced("aten::_coalesce", self); }

// ---- dense results

// Adds alpha times the sparse tensor's sums to the rows of `dense` (contiguous) that it names.
void add_to_rows(std::string_view op, const Tensor& dense, const Tensor& sparse, const Scalar& alpha) {
  const Tensor sums = coalesced(op, sparse);
  const Rows rows(op, sums);
  if (rows.count() == 0 || dense.numel() == 0) return;
  const Tensor at = rows.numbers(op, sums), view = dense.view({rows.places, rows.width});
  view.index_copy_(0, at, view.index_select(0, at).add_(rows.flat(), alpha));
}

Tensor to_dense(const Tensor& self, std::optional<at::ScalarType> type, std::optional<bool> /*masked_gradient*/) {
  constexpr std::string_view op = "aten::_to_dense";
  const Tensor dense = at::zeros(self.sizes(), self.options().layout(at::kStrided));
  add_to_rows(op, dense, self, 1);
  return type ? dense.to(*type) : dense;
}

// The dense tensor's values at the mask's places.
Tensor sparse_mask(const Tensor& self, const Tensor& mask) {
  constexpr std::string_view op = "aten::sparse_mask";
  if (self.is_sparse()) refuse(op, "is certified for dense tensors with a sparse mask only", kRemedy);
  TORCH_CHECK(self.sizes() == mask.sizes(), "aten::sparse_mask: sizes ", self.sizes(), " and ", mask.sizes());
  const Rows rows(op, mask);
  at::DimVector sizes(rows.values.sizes());
  const Tensor values = self.reshape({rows.places, rows.width}).index_select(0, rows.numbers(op, mask)).reshape(sizes);
  return sparse_of(rows.indices.clone(), values, self.sizes(), rows.coalesced);
}

// ---- arithmetic

// Of two sparse tensors: at each place the sum a + alpha * b of their sums, absent ones +0.
Tensor add_sparse(std::string_view op, const Tensor& self, const Tensor& other, const Scalar& alpha) {
  TORCH_CHECK(self.sizes() == other.sizes(), std::string(op), ": sizes ", self.sizes(), " and ", other.sizes());
  const Tensor a = coalesced(op, self), b = coalesced(op, other);
  const Rows left(op, a), right(op, b);
  require_computed(op, {&left.values, &right.values});
  TORCH_CHECK(left.indices.size(0) == right.indices.size(0), std::string(op), ": ", left.indices.size(0), " and ",
              right.indices.size(0), " sparse dimensions");
  // Every place of the two, in order; then each tensor's rows where they are.
  const Tensor ones = at::zeros({left.count() + right.count(), 0}, left.values.options());
  at::DimVector sizes(self.sizes().slice(0, static_cast<std::size_t>(left.indices.size(0))));
  sizes.push_back(0);
  const Tensor both = coalesced(op, sparse_of(at::cat({left.indices, right.indices}, 1), ones, sizes, false));
  const Rows all(op, both);
  const Tensor places = all.numbers(op, both);
  const std::int64_t* const begin = places.const_data_ptr<std::int64_t>();
  const auto positions = [&](const Rows& rows, const Tensor& sparse) {
    Tensor at = rows.numbers(op, sparse);
    std::int64_t* const each = at.mutable_data_ptr<std::int64_t>();
    for (std::int64_t i = 0; i < at.numel(); ++i) {
      each[i] = std::lower_bound(begin, begin + places.numel(), each[i]) - begin;
    }
    return at;
  };
  const Tensor values = at::zeros({all.count(), left.width}, left.values.options());
  const Tensor from_right = positions(right, b);
  values.index_copy_(0, positions(left, a), left.flat());
  Tensor sums = values.add(at::zeros_like(values).index_copy_(0, from_right, right.flat()), alpha);
  at::DimVector whole(left.values.sizes());
  whole[0] = all.count();
  return sparse_of(all.indices, sums.reshape(whole), self.sizes(), true);
}

[[noreturn]] void refuse_dense_right(std::string_view op) {
  refuse(op, "is certified for a dense or sparse tensor and a sparse one, in this order", kRemedy);
}
Tensor sum_of(const Tensor& self, const Tensor& other, const Scalar& alpha) {
  constexpr std::string_view op = "aten::add.Tensor";
  if (!other.is_sparse()) refuse_dense_right(op);
  if (self.is_sparse()) return add_sparse(op, self, other, alpha);
  require_computed(op, {&self, &other});
  TORCH_CHECK(self.sizes() == other.sizes(), "aten::add: sizes ", self.sizes(), " and ", other.sizes());
  const Tensor sum = fresh_copy(self);
  add_to_rows(op, sum, other, alpha);
  return sum;
}
Tensor& add_to(Tensor& self, const Tensor& other, const Scalar& alpha) {
  constexpr std::string_view op = "aten::add_.Tensor";
  if (!other.is_sparse()) refuse_dense_right(op);
  if (self.is_sparse()) return become(self, add_sparse(op, self, other, alpha));
  require_computed(op, {&self, &other});
  TORCH_CHECK(self.sizes() == other.sizes(), "aten::add_: sizes ", self.sizes(), " and ", other.sizes());
  if (self.is_contiguous()) {
    add_to_rows(op, self, other, alpha);
  } else {
    self.copy_(sum_of(self, other, alpha));
  }
  return self;
}

// By a number, of the sums: so that the bits are those of the dense tensor.
template <bool divides>
Tensor scaled(const Tensor& self, const Tensor& number) {
  constexpr std::string_view op = divides ? "aten::div.Tensor" : "aten::mul.Tensor";
  if (!divides && number.is_sparse() && !self.is_sparse() && self.dim() == 0) return scaled<divides>(number, self);
  if (!self.is_sparse() || number.is_sparse() || number.dim() != 0) {
    refuse(op, "is certified for a sparse tensor and a number", kRemedy);
  }
  const Tensor sums = coalesced(op, self);
  const Rows rows(op, sums);
  const Tensor values = divides ? rows.values.div(number) : rows.values.mul(number);
  if (values.scalar_type() != self.scalar_type()) refuse_type(op, values.scalar_type());
  return sparse_of(rows.indices, values, self.sizes(), true);
}
template <bool divides>
Tensor& scale(Tensor& self, const Tensor& number) {
  if (!self.is_sparse()) {
    refuse(divides ? "aten::div_.Tensor" : "aten::mul_.Tensor", "is certified for a sparse tensor and a number",
           kRemedy);
  }
  return become(self, scaled<divides>(self, number));
}
Tensor negative(const Tensor& self) {
  const Rows rows("aten::neg", self);
  return sparse_of(rows.indices, rows.values.neg(), self.sizes(), rows.coalesced);
}

template <auto& function>
torch::CppFunction kernel() {
  return torch::CppFunction(&function);
}

std::vector<SparseOperator> all_operators() {
  constexpr auto certified = OperatorClass::certified, exact = OperatorClass::exact,
                 composite = OperatorClass::composite;
  constexpr std::string_view sums = "4: of sparse tensors; the rows of one place like a scatter";
  constexpr std::string_view by_rows = "4: of sparse tensors; one operation on each place's sum";
  constexpr std::string_view parts = "shows or sets a sparse tensor's indices and values: computes nothing";
  constexpr std::string_view calls = "calls certified and exact operators only";
  std::vector<SparseOperator> all = {
      {"aten::_coalesce", certified, sums, &kernel<coalesce>},
      {"aten::_to_dense", certified, sums, &kernel<to_dense>},
      {"aten::sparse_mask", certified, "1: of sparse tensors; the dense tensor's rows, copied", &kernel<sparse_mask>},
      {"aten::add.Tensor", certified, by_rows, &kernel<sum_of>},
      {"aten::add_.Tensor", certified, by_rows, &kernel<add_to>},
      {"aten::mul.Tensor", certified, by_rows, &kernel<scaled<false>>},
      {"aten::mul_.Tensor", certified, by_rows, &kernel<scale<false>>},
      {"aten::div.Tensor", certified, by_rows, &kernel<scaled<true>>},
      {"aten::div_.Tensor", certified, by_rows, &kernel<scale<true>>},
      {"aten::neg", certified, by_rows, &kernel<negative>},
  };
  for (const std::string_view name :
       {"aten::_indices", "aten::_values", "aten::indices", "aten::values", "aten::_nnz", "aten::is_coalesced",
        "aten::sparse_dim", "aten::dense_dim", "aten::_dimI", "aten::_dimV", "aten::_coalesced_",
        "aten::_sparse_coo_tensor_with_dims", "aten::_sparse_coo_tensor_with_dims_and_tensors",
        "aten::_validate_sparse_coo_tensor_args", "aten::sparse_coo_tensor.size", "aten::sparse_resize_and_clear_",
        "aten::clone", "aten::zero_"}) {
    all.push_back({name, exact, parts, nullptr});
  }
  for (const std::string_view name : {"aten::coalesce", "aten::_sparse_coo_tensor_unsafe",
                                      "aten::sparse_coo_tensor.indices", "aten::sparse_coo_tensor.indices_size",
                                      "aten::embedding_sparse_backward", "aten::to_dense", "aten::to_dense_backward"}) {
    all.push_back({name, composite, calls, nullptr});
  }
  std::sort(all.begin(), all.end(), [](const auto& a, const auto& b) { return a.name < b.name; });
  return all;
}

}  // namespace

const std::vector<SparseOperator>& sparse_operators() {
  static const std::vector<SparseOperator> all = all_operators();
  return all;
}

const SparseOperator* find_sparse_operator(std::string_view full_name) {
  const auto& all = sparse_operators();
  const auto found = std::lower_bound(all.begin(), all.end(), full_name,
                                      [](const SparseOperator& op, std::string_view name) { return op.name < name; });
  return found == all.end() || found->name != full_name ? nullptr : &*found;
}

void register_sparse(torch::Library& library) {
  for (const SparseOperator& op : sparse_operators()) {
    if (op.kernel != nullptr) library.impl(std::string(op.name.substr(6)).c_str(), op.kernel());
  }
}

}  // namespace isobit::aten
