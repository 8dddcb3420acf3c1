#include "aten/certified/support/indexed_plan.h"

#include <ATen/EmptyTensor.h>
#include <ATen/WrapDimUtils.h>

#include <unordered_map>

#include "aten/device_work.h"
#include "kernels/place_rows.h"

namespace isobit::aten {

using at::Scalar;
using at::Tensor;

Tensor host_integers(std::int64_t n) { return Tensor(at::detail::empty_cpu({n}, at::kLong)); }
Tensor on_host(const Tensor& index) { return contiguous(index.to(at::kCPU).to(at::kLong)); }

// destination[k] for source row k; negative ones meet nothing.
IndexedPlan plan_of(const Tensor& destinations, std::int64_t rows) {
  const std::int64_t* to = destinations.const_data_ptr<std::int64_t>();
  const std::int64_t n = destinations.numel();
  IndexedPlan plan{host_integers(rows + 1), {}};
  std::int64_t* const begin = plan.begin.mutable_data_ptr<std::int64_t>();
  for (std::int64_t r = 0; r <= rows; ++r) begin[r] = 0;
  for (std::int64_t k = 0; k < n; ++k) {
    if (to[k] >= 0) ++begin[to[k] + 1];
  }
  for (std::int64_t r = 0; r < rows; ++r) begin[r + 1] += begin[r];
  plan.order = host_integers(begin[rows]);
  std::int64_t* const order = plan.order.mutable_data_ptr<std::int64_t>();
  for (std::int64_t k = 0; k < n; ++k) {  // moves every begin[r] to the row's end
    if (to[k] >= 0) order[begin[to[k]]++] = k;
  }
  for (std::int64_t r = rows; r > 0; --r) begin[r] = begin[r - 1];
  begin[0] = 0;
  return plan_of_lists(plan.begin, plan.order);
}

IndexedPlan plan_of_lists(const Tensor& begin, const Tensor& order) {
  const c10::Device* const device = working_device();
  if (device == nullptr) return {begin, order};
  return {begin.to(*device), order.to(*device)};
}

void check_index(const char* op, const Tensor& index, std::int64_t rows) {
  const std::int64_t* values = index.const_data_ptr<std::int64_t>();
  for (std::int64_t k = 0; k < index.numel(); ++k) {
    TORCH_CHECK_INDEX(values[k] >= 0 && values[k] < rows, op, ": index ", values[k], " is out of bounds for ", rows,
                      " rows");
  }
}

Scatter scatter_into(const char* op, const Tensor& destination, std::int64_t dim, const Tensor& given_index,
                     const Tensor& source) {
  const auto lifted = [](const Tensor& t) { return t.dim() == 0 ? t.unsqueeze(0) : t; };
  const Tensor to = lifted(destination), index = contiguous(lifted(on_host(given_index)));
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
  return {contiguous(from), plan_of(linear_destinations(index, to.sizes(), dim), to.numel())};
}

void add_rows(const char* op, const Tensor& self, std::int64_t dim, const Tensor& index, const Tensor& source,
              const Scalar& alpha) {
  require_computed(op, {&self, &source});
  dim = at::maybe_wrap_dim(dim, self.dim());
  const Tensor host = on_host(index).flatten();
  at::DimVector sizes = self.dim() == 0 ? at::DimVector{1} : at::DimVector(self.sizes());
  const std::int64_t rows = sizes[dim];
  check_index(op, host, rows);
  sizes[dim] = host.numel();
  TORCH_CHECK(source.dim() == self.dim() ? source.numel() == c10::multiply_integers(sizes) : source.numel() == 1, op,
              ": source has sizes ", source.sizes(), " where ", at::IntArrayRef(sizes), " are indexed");
  std::int64_t outer = 1, inner = 1;
  for (std::int64_t d = 0; d < dim; ++d) outer *= sizes[d];
  for (std::size_t d = static_cast<std::size_t>(dim) + 1; d < sizes.size(); ++d) inner *= sizes[d];
  const Tensor from = contiguous(source);
  const IndexedPlan plan = plan_of(host, rows);
  with_data(self, [&](auto* to) {
    kernels::indexed_add(plan.occurrences(), outer, host.numel(), inner, like(to, alpha.toDouble()),
                         data_like(to, from), to);
  });
}

void place_rows(const Tensor& self, const Tensor& destinations, std::int64_t outer, std::int64_t rows,
                std::int64_t inner, const Tensor& source) {
  const std::int64_t n = destinations.numel();
  const std::int64_t* const to = destinations.const_data_ptr<std::int64_t>();
  std::unordered_map<std::int64_t, std::int64_t> last;
  for (std::int64_t k = 0; k < n; ++k) last[to[k]] = k;
  const Tensor moves = host_integers(2 * static_cast<std::int64_t>(last.size()));
  kernels::RowPlacing p{outer, rows, n, inner, self.element_size(), static_cast<std::int64_t>(last.size())};
  std::int64_t* const move = moves.mutable_data_ptr<std::int64_t>();
  std::int64_t at = 0;
  for (std::int64_t k = 0; k < n; ++k) {
    if (last[to[k]] == k) move[at] = to[k], move[p.count + at++] = k;
  }
  const c10::Device* const device = working_device();
  const Tensor there = device == nullptr ? moves : moves.to(*device);
  p.to = there.const_data_ptr<std::int64_t>(), p.from = p.to + p.count;
  kernels::place_rows(p, source.const_data_ptr(), self.mutable_data_ptr());
}

Tensor fresh_copy(const Tensor& self) {
  const Tensor copy = new_tensor(self.sizes(), self.scalar_type());
  return copy.copy_(self);
}

Tensor row_gradients(const char* op, const Tensor& dy, const Tensor& index, std::int64_t rows, std::int64_t padding,
                     bool scale_by_frequency) {
  check_index(op, index, rows);
  const std::int64_t width = index.numel() == 0 ? dy.size(-1) : dy.numel() / index.numel();
  const Tensor dweight = new_tensor({rows, width}, dy.scalar_type());
  dweight.zero_();
  const Tensor met = padding < 0 ? index : index.masked_fill(index.eq(padding), -1);
  const IndexedPlan plan = plan_of(met, rows);
  with_data(dweight, [&](auto* to) {
    kernels::indexed_add(plan.occurrences(), 1, index.numel(), width, like(to, 1.0), data_like(to, dy), to);
  });
  if (!scale_by_frequency) return dweight;
  const Tensor counts = plan.begin.narrow(0, 1, rows).sub(plan.begin.narrow(0, 0, rows)).clamp_min(1);
  return dweight.div_(counts.to(dy.scalar_type()).unsqueeze(1));
}

at::Tensor linear_destinations(const at::Tensor& index, at::IntArrayRef self_sizes, std::int64_t dim) {
  const at::Tensor destinations = host_integers(index.numel());
  const std::int64_t* const values = index.const_data_ptr<std::int64_t>();
  std::int64_t* const to = destinations.mutable_data_ptr<std::int64_t>();
  const auto rank = static_cast<std::int64_t>(self_sizes.size());
  at::DimVector stride(self_sizes.size()), place(self_sizes.size(), 0);
  std::int64_t step = 1;
  for (std::int64_t d = rank - 1; d >= 0; --d) stride[d] = step, step *= self_sizes[d];
  for (std::int64_t k = 0; k < index.numel(); ++k) {
    to[k] = values[k] * stride[dim];
    for (std::int64_t d = 0; d < rank; ++d) to[k] += d == dim ? 0 : place[d] * stride[d];
    for (std::int64_t d = rank - 1; d >= 0 && ++place[d] == index.size(d); --d) place[d] = 0;
  }
  return destinations;
}

}  // namespace isobit::aten
