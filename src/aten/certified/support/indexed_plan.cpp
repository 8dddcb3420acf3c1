#include "aten/certified/support/indexed_plan.h"

#include <ATen/EmptyTensor.h>
#include <ATen/WrapDimUtils.h>
#include <ATen/ops/_assert_async.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/searchsorted.h>
#include <ATen/ops/sort.h>

#include <algorithm>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "aten/certified/support/element_sums.h"
#include "aten/device_work.h"
#include "kernels/place_rows.h"

namespace isobit::aten {

using at::Scalar;
using at::Tensor;

Tensor host_integers(std::int64_t n) { return Tensor(at::detail::empty_cpu({n}, at::kLong)); }
Tensor on_host(const Tensor& index) {
  if (index.is_cpu() && index.scalar_type() == at::kLong) return contiguous(index);
  return contiguous(index.to(at::kCPU).to(at::kLong));
}

Tensor where_it_works(const Tensor& index) {
  const c10::Device* const device = working_device();
  if (device == nullptr || index.device() != *device) return on_host(index);
  return contiguous(index.scalar_type() == at::kLong ? index : index.to(at::kLong));
}

namespace {

// As on the host, without it: no copy, and nothing waits.
IndexedPlan device_plan(const Tensor& destinations, std::int64_t rows) {
  const auto [sorted, order] = at::sort(destinations, /*stable=*/true, 0, /*descending=*/false);
  return {at::searchsorted(sorted, at::arange(rows + 1, sorted.options())), order, {}, rows};
}

Tensor outside_of(const Tensor& index, std::int64_t rows) { return index.lt(0).logical_or_(index.ge(rows)).any(); }

// Row-major numbers, by sums of integers.
Tensor linear_on_device(const Tensor& index, at::IntArrayRef self_sizes, std::int64_t dim) {
  Tensor to;
  std::int64_t stride = 1;
  for (auto d = static_cast<std::int64_t>(self_sizes.size()) - 1; d >= 0; stride *= self_sizes[d], --d) {
    const Tensor along = d == dim ? index : at::arange(index.size(d), index.options());
    at::DimVector shape(self_sizes.size(), 1);
    shape[d] = index.size(d);
    const Tensor term = (d == dim ? along : along.view(shape)).mul(stride);
    to = to.defined() ? to.add(term) : term;
  }
  return to.expand(index.sizes()).contiguous().flatten();
}

IndexedPlan on_device(IndexedPlan plan) {
  const c10::Device* const device = working_device();
  if (device == nullptr) return plan;
  plan.begin = plan.begin.to(*device), plan.order = plan.order.to(*device);
  if (plan.row.defined()) plan.row = plan.row.to(*device);
  return plan;
}

// Lists of the rows that are met alone, by sorting what meets them.
IndexedPlan sorted_plan(const std::int64_t* to, std::int64_t n, std::int64_t rows) {
  std::vector<std::pair<std::int64_t, std::int64_t>> met;  // destination, source row
  met.reserve(static_cast<std::size_t>(n));
  for (std::int64_t k = 0; k < n; ++k) {
    if (to[k] >= 0) met.emplace_back(to[k], k);
  }
  std::sort(met.begin(), met.end());
  const auto all = static_cast<std::int64_t>(met.size());
  IndexedPlan plan{{}, host_integers(all), {}, rows};
  std::int64_t* const order = plan.order.mutable_data_ptr<std::int64_t>();
  std::vector<std::int64_t> begin, row;
  for (std::int64_t i = 0; i < all; ++i) {
    const auto& [destination, source] = met[static_cast<std::size_t>(i)];
    if (row.empty() || row.back() != destination) row.push_back(destination), begin.push_back(i);
    order[i] = source;
  }
  begin.push_back(all);
  const auto kept = [](const std::vector<std::int64_t>& values) {
    const Tensor t = host_integers(static_cast<std::int64_t>(values.size()));
    std::copy(values.begin(), values.end(), t.mutable_data_ptr<std::int64_t>());
    return t;
  };
  plan.begin = kept(begin), plan.row = kept(row);
  return on_device(plan);
}

}  // namespace

IndexedPlan plan_of_all_rows(const Tensor& destinations, std::int64_t rows) {
  if (!destinations.is_cpu()) return device_plan(destinations, rows);
  const std::int64_t* to = destinations.const_data_ptr<std::int64_t>();
  const std::int64_t n = destinations.numel();
  IndexedPlan plan{host_integers(rows + 1), {}, {}, rows};
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
  return on_device(plan);
}

IndexedPlan plan_of(const Tensor& destinations, std::int64_t rows, std::int64_t outer) {
  const std::int64_t n = destinations.numel();
  if (!destinations.is_cpu()) {
    constexpr std::int64_t kFew = 1 << 22;  // of rows, whose lists take memory, though nothing meets most of them
    if (rows <= std::max(kFew, 16 * n)) return device_plan(destinations, rows);
    return plan_of(on_host(destinations), rows, outer);
  }
  std::int64_t steps = 4 * n;  // of sorting, about, where a row that nothing meets takes one
  for (std::int64_t left = n; left > 1; left >>= 1) steps += 4 * n;
  if (steps < rows * outer) return sorted_plan(destinations.const_data_ptr<std::int64_t>(), n, rows);
  return plan_of_all_rows(destinations, rows);
}

IndexedPlan plan_of_lists(const Tensor& begin, const Tensor& order) {
  return on_device({begin, order, {}, begin.numel() - 1});
}

void check_index(const char* op, const Tensor& index, std::int64_t rows) {
  if (!index.is_cpu()) {
    if (outside_of(index, rows).item<bool>()) check_index(op, on_host(index), rows);
    return;
  }
  const std::int64_t* const values = index.const_data_ptr<std::int64_t>();
  const std::int64_t n = index.numel();
  bool outside = false;  // without a branch for each: this may be all that a scatter of single elements waits for
  for (std::int64_t k = 0; k < n; ++k) {
    outside |= static_cast<std::uint64_t>(values[k]) >= static_cast<std::uint64_t>(rows);
  }
  for (std::int64_t k = 0; outside && k < n; ++k) {
    TORCH_CHECK_INDEX(values[k] >= 0 && values[k] < rows, op, ": index ", values[k], " is out of bounds for ", rows,
                      " rows");
  }
}

Scatter scatter_into(const char* op, const Tensor& destination, std::int64_t dim, const Tensor& given_index,
                     const Tensor& source) {
  const auto lifted = [](const Tensor& t) { return t.dim() == 0 ? t.unsqueeze(0) : t; };
  const Tensor to = lifted(destination);
  Tensor index = lifted(given_index), from = lifted(source);
  dim = at::maybe_wrap_dim(dim, to.dim());
  TORCH_CHECK(index.dim() == to.dim() && from.dim() == to.dim(), op, ": index ", index.sizes(), ", source ",
              from.sizes(), " and self ", to.sizes(), " differ in dimensions");
  for (std::int64_t d = 0; d < to.dim(); ++d) {
    TORCH_CHECK(index.size(d) <= from.size(d) && (d == dim || index.size(d) <= to.size(d)), op, ": index ",
                index.sizes(), " is larger than source ", from.sizes(), " or self ", to.sizes());
    if (index.size(d) < from.size(d)) from = from.narrow(d, 0, index.size(d));
  }
  std::int64_t inner = 1;
  for (std::int64_t d = to.dim() - 1; d > dim && index.numel() > 0; --d) {
    if (index.size(d) != to.size(d) || (index.stride(d) != 0 && index.size(d) != 1)) break;
    inner *= index.size(d), index = index.select(d, 0);
  }
  index = where_it_works(index);
  check_index(op, index, to.size(dim));
  const at::IntArrayRef rows = to.sizes().slice(0, static_cast<std::size_t>(index.dim()));
  return {contiguous(from), linear_destinations(index, rows, dim), c10::multiply_integers(rows), inner};
}

void add_by_index(const Tensor& destination, const Tensor& source, const Tensor& to, std::int64_t outer,
                  std::int64_t rows, std::int64_t inner, double alpha) {
  const std::int64_t n = to.numel();
  const bool elements =
      outer == 1 && inner == 1 && alpha == 1 && working_device() == nullptr && takes_elements(n, rows);
  if (elements) {
    with_data(destination,
              [&](auto* y) { add_elements(n, to.const_data_ptr<std::int64_t>(), rows, data_like(y, source), y); });
    return;
  }
  const IndexedPlan plan = plan_of(to, rows, outer);
  with_data(destination, [&](auto* y) {
    kernels::indexed_add(plan.occurrences(), outer, n, inner, like(y, alpha), data_like(y, source), y);
  });
}

void add_rows(const char* op, const Tensor& self, std::int64_t dim, const Tensor& index, const Tensor& source,
              const Scalar& alpha) {
  require_computed(op, {&self, &source});
  dim = at::maybe_wrap_dim(dim, self.dim());
  const Tensor destinations = where_it_works(index).flatten();
  at::DimVector sizes = self.dim() == 0 ? at::DimVector{1} : at::DimVector(self.sizes());
  const std::int64_t rows = sizes[dim];
  check_index(op, destinations, rows);
  sizes[dim] = destinations.numel();
  const bool one = c10::multiply_integers(sizes) == 1 && source.numel() == 1;  // a number for one place, say
  TORCH_CHECK(one || source.sizes() == sizes, op, ": source has sizes ", source.sizes(), " where ",
              at::IntArrayRef(sizes), " are indexed");
  std::int64_t outer = 1, inner = 1;
  for (std::int64_t d = 0; d < dim; ++d) outer *= sizes[d];
  for (std::size_t d = static_cast<std::size_t>(dim) + 1; d < sizes.size(); ++d) inner *= sizes[d];
  add_by_index(self, contiguous(source), destinations, outer, rows, inner, alpha.toDouble());
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
  if (index.is_cpu()) {
    check_index(op, index, rows);
  } else {  // checked when the rows were read; here nothing waits for the device, which stops where it is wrong
    at::_assert_async(outside_of(index, rows).logical_not_(), std::string(op) + ": an index is out of bounds");
  }
  const std::int64_t width = index.numel() == 0 ? dy.size(-1) : dy.numel() / index.numel();
  const Tensor dweight = new_tensor({rows, width}, dy.scalar_type());
  dweight.zero_();
  const Tensor met = padding < 0 ? index : index.masked_fill(index.eq(padding), -1);
  const IndexedPlan plan = scale_by_frequency ? plan_of_all_rows(met, rows) : plan_of(met, rows);
  with_data(dweight, [&](auto* to) {
    kernels::indexed_add(plan.occurrences(), 1, index.numel(), width, like(to, 1.0), data_like(to, dy), to);
  });
  if (!scale_by_frequency) return dweight;
  const Tensor counts = plan.begin.narrow(0, 1, rows).sub(plan.begin.narrow(0, 0, rows)).clamp_min(1);
  return dweight.div_(counts.to(dy.scalar_type()).unsqueeze(1));
}

at::Tensor linear_destinations(const at::Tensor& index, at::IntArrayRef self_sizes, std::int64_t dim) {
  if (index.dim() == 1) return index;
  if (!index.is_cpu()) return linear_on_device(index, self_sizes, dim);
  const at::Tensor destinations = host_integers(index.numel());
  const std::int64_t* const values = index.const_data_ptr<std::int64_t>();
  std::int64_t* const to = destinations.mutable_data_ptr<std::int64_t>();
  const auto rank = static_cast<std::int64_t>(self_sizes.size());
  at::DimVector stride(self_sizes.size()), place(self_sizes.size(), 0);
  std::int64_t step = 1;
  for (std::int64_t d = rank - 1; d >= 0; --d) stride[d] = step, step *= self_sizes[d];
  // Along the last dimension the places follow each other, unless it is the one that the index replaces.
  const std::int64_t last = index.size(rank - 1), by = rank - 1 == dim ? 0 : 1;
  for (std::int64_t k = 0; k < index.numel(); k += last) {
    std::int64_t first = 0;
    for (std::int64_t d = 0; d < rank - 1; ++d) first += d == dim ? 0 : place[d] * stride[d];
    for (std::int64_t j = 0; j < last; ++j) to[k + j] = first + values[k + j] * stride[dim] + j * by;
    for (std::int64_t d = rank - 2; d >= 0 && ++place[d] == index.size(d); --d) place[d] = 0;
  }
  return destinations;
}

}  // namespace isobit::aten
