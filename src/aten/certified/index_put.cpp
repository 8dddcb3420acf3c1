// index_put_, index_copy and put_: writes are in order, so that the last one to a place stays: stock's on the CPU, ours
// on a device. Sums of floats are additions by index (contract, section 4), which the gradient of x[index] asks for.
#include <ATen/WrapDimUtils.h>
#include <ATen/ops/_index_put_impl_native.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/where.h>

#include <algorithm>
#include <optional>

#include "aten/certified/support/entry.h"
#include "aten/certified/support/indexed_plan.h"
#include "aten/deterministic_writes.h"
#include "aten/device_work.h"
#include "aten/subnormals.h"
#include "aten/memory_overlap.h"

namespace isobit::aten {
namespace {

using at::Tensor;
using Indices = c10::List<std::optional<Tensor>>;

constexpr const char* kPut = "aten::_index_put_impl_";

// ---- index_put_

// One index per dimension, on the host; masks become the places of their ones.
std::vector<Tensor> index_per_dimension(const Tensor& self, const Indices& indices) {
  std::vector<Tensor> all;
  for (std::size_t i = 0; i < indices.size(); ++i) {
    const std::optional<Tensor> given = indices.get(i);
    if (!given || !given->defined()) {
      all.emplace_back();
      continue;
    }
    const Tensor index = given->to(at::kCPU);
    if (index.scalar_type() == at::kBool || index.scalar_type() == at::kByte) {
      for (const Tensor& along : index.nonzero().unbind(1)) all.push_back(along);
    } else {
      all.push_back(index.to(at::kLong));
    }
  }
  TORCH_CHECK_INDEX(static_cast<std::int64_t>(all.size()) <= self.dim(), kPut, ": too many indices for ", self.sizes());
  return all;
}

// The row-major numbers of the places indexed: row r of `sizes` is numbered r.
Tensor numbers(at::IntArrayRef sizes, const std::vector<Tensor>& indices) {
  const Tensor all = at::arange(c10::multiply_integers(sizes), at::TensorOptions(at::kLong)).view(sizes);
  std::vector<std::optional<Tensor>> given(indices.size());
  for (std::size_t i = 0; i < indices.size(); ++i) {
    if (indices[i].defined()) given[i] = indices[i];
  }
  return all.index(c10::List<std::optional<Tensor>>(given));
}

// Rows of a tensor [outer, count, inner] that are named by number, in order; they are `shape` in the caller's terms.
struct Places {
  std::int64_t outer = 1, count = 1, inner = 1;
  Tensor rows;  // on the host
  at::DimVector shape;
};

// The rows that x[index] names along the first dimension, where that is all and none is out of bounds.
std::optional<Tensor> rows_of_one(const Tensor& self, const std::vector<Tensor>& indices) {
  if (indices.size() != 1 || !indices[0].defined() || self.dim() == 0) return {};
  const Tensor given = contiguous(indices[0]), rows = host_integers(given.numel());
  const std::int64_t count = self.size(0), *const from = given.const_data_ptr<std::int64_t>();
  std::int64_t* const to = rows.mutable_data_ptr<std::int64_t>();
  for (std::int64_t k = 0; k < given.numel(); ++k) {
    if (from[k] < -count || from[k] >= count) return {};
    to[k] = from[k] < 0 ? from[k] + count : from[k];
  }
  return rows.view(given.sizes());
}

Places places_of(const Tensor& self, const Indices& given) {
  std::vector<Tensor> indices = index_per_dimension(self, given);
  while (!indices.empty() && !indices.back().defined()) indices.pop_back();
  // Indexed dimensions side by side are one dimension of rows; with gaps, every element is a row.
  std::size_t first = 0;
  while (first < indices.size() && !indices[first].defined()) ++first;
  bool adjacent = first < indices.size();
  for (std::size_t i = first; i < indices.size(); ++i) adjacent &= indices[i].defined();
  if (!adjacent) first = 0;
  const std::size_t last = adjacent ? indices.size() : static_cast<std::size_t>(self.dim());
  const at::IntArrayRef sizes = self.sizes(), indexed = sizes.slice(first, last - first);
  Places places;
  const std::optional<Tensor> one = rows_of_one(self, indices);
  places.rows =
      one ? *one : contiguous(numbers(indexed, {indices.begin() + static_cast<std::ptrdiff_t>(first), indices.end()}));
  places.shape = at::DimVector(sizes.slice(0, first));
  places.shape.append(places.rows.sizes().begin(), places.rows.sizes().end());
  places.shape.append(sizes.begin() + last, sizes.end());
  places.outer = c10::multiply_integers(sizes.slice(0, first));
  places.count = c10::multiply_integers(indexed);
  places.inner = c10::multiply_integers(sizes.slice(last));
  return places;
}

void accumulate(Tensor& self, const Indices& given, const Tensor& values) {
  require_computed(kPut, {&self, &values});
  const Places places = places_of(self, given);
  const Tensor source = contiguous(values.to(self.device()).expand(places.shape));
  write_in_place(kPut, self, {&source, &places.rows}, [&](const Tensor& result) {
    add_by_index(result, source, places.rows, places.outer, places.count, places.inner);
  });
}

// self, contiguous, with the rows written: each place takes its last occurrence.
void write_on_device(const Tensor& self, const Places& places, const Tensor& given) {
  Tensor source = contiguous(given);
  if (may_meet(self, source)) source = source.clone();
  place_rows(self, places.rows, places.outer, places.count, places.inner, source);
}

// x[mask] = a number.
bool fill_by_mask(Tensor& self, const Indices& indices, const Tensor& values) {
  const std::optional<Tensor> mask = indices.size() == 1 ? indices.get(0) : std::nullopt;
  if (values.numel() != 1 || !mask || !mask->defined() || mask->scalar_type() != at::kBool ||
      mask->dim() > self.dim() || mask->sizes() != self.sizes().slice(0, static_cast<std::size_t>(mask->dim()))) {
    return false;
  }
  at::DimVector sizes(mask->sizes());
  sizes.resize(static_cast<std::size_t>(self.dim()), 1);
  self.masked_fill_(mask->to(self.device()).view(sizes), values.reshape({}));
  return true;
}

Tensor& index_put(Tensor& self, const Indices& indices, const Tensor& values, bool accumulates, bool unsafe);
constexpr DeviceRules kHostValue{DeviceIntegers::ours, true};

void put_on_device(Tensor& self, const Indices& indices, const Tensor& values, bool accumulates, bool unsafe) {
  if (accumulates) {  // integers: exact in any order
    const StockKernel& stock = stock_kernel<index_put, kHostValue>;
    stock.kernel.call<Tensor&, Tensor&, const Indices&, const Tensor&, bool, bool>(
        *stock.handle, c10::DispatchKeySet(c10::DispatchKey::CUDA), self, indices, values, true, unsafe);
    return;
  }
  TORCH_CHECK_INDEX(self.scalar_type() == values.scalar_type(), kPut, ": writes ", values.scalar_type(), " into ",
                    self.scalar_type());
  if (fill_by_mask(self, indices, values)) return;
  const Places places = places_of(self, indices);
  const Tensor result = self.is_contiguous() ? self : fresh_copy(self);
  write_on_device(result, places, values.to(self.device()).expand(places.shape));
  if (!result.is_same(self)) self.copy_(result);
}

Tensor& index_put(Tensor& self, const Indices& indices, const Tensor& values, bool accumulates, bool unsafe) {
  const bool sums_floats = accumulates && !is_integral(self);
  if (sums_floats) {
    accumulate(self, indices, values);
    return self;
  }
  if (working_device() != nullptr) {
    put_on_device(self, indices, values, accumulates, unsafe);
    return self;
  }
  keep_subnormals();
  const DeterministicWrites writes;
  return at::native::_index_put_impl_(self, indices, values, accumulates, unsafe);
}

// ---- index_copy, on devices

Tensor index_copy(const Tensor& self, std::int64_t given_dim, const Tensor& index, const Tensor& source) {
  constexpr const char* op = "aten::index_copy";
  const std::int64_t dim = at::maybe_wrap_dim(given_dim, self.dim());
  const Tensor there = self.dim() == 0 ? self.unsqueeze(0) : self,
               rows = source.dim() == 0 ? source.unsqueeze(0) : source;
  at::DimVector shape(there.sizes());
  shape[dim] = index.numel();
  TORCH_CHECK_INDEX(index.dim() <= 1, op, ": the index has ", index.dim(), " dimensions, not one");
  TORCH_CHECK_INDEX(rows.sizes() == shape, op, ": a source of ", source.sizes(), ", not of ", shape);
  TORCH_CHECK_INDEX(self.scalar_type() == source.scalar_type(), op, ": writes ", source.scalar_type(), " into ",
                    self.scalar_type());
  Places places;
  places.rows = on_host(index).flatten();
  check_index(op, places.rows, there.size(dim));
  places.outer = c10::multiply_integers(there.sizes().slice(0, dim));
  places.count = there.size(dim);
  places.inner = c10::multiply_integers(there.sizes().slice(dim + 1));
  const Tensor result = fresh_copy(there);
  write_on_device(result, places, rows);
  return result.view(self.sizes());
}
Tensor& index_copy_(Tensor& self, std::int64_t dim, const Tensor& index, const Tensor& source) {
  return self.copy_(isobit::aten::index_copy(self, dim, index, source));
}
Tensor& index_copy_out(const Tensor& self, std::int64_t dim, const Tensor& index, const Tensor& source, Tensor& out) {
  copy_out(out, isobit::aten::index_copy(self, dim, index, source));
  return out;
}

// ---- put: places in row-major order, the last of two at one place, or their sum by scatter

// A scatter whose last write to a place wins, whatever the device: the writes are sorted out on the host.
Tensor last_written(const Tensor& flat, const Tensor& place, const Tensor& from) {
  if (from.numel() == 0) return flat;
  const Tensor to = on_host(place), winner = host_integers(flat.numel());
  check_index("aten::put_", to, flat.numel());
  std::int64_t* const last = winner.mutable_data_ptr<std::int64_t>();
  std::fill_n(last, flat.numel(), -1);
  for (std::int64_t k = 0; k < to.numel(); ++k) last[to.const_data_ptr<std::int64_t>()[k]] = k;
  const Tensor chosen = winner.to(flat.device());
  return at::where(chosen.ge(0), from.index_select(0, chosen.clamp_min(0)), flat);
}
Tensor& put_(Tensor& self, const Tensor& index, const Tensor& source, bool accumulate) {
  TORCH_CHECK(index.numel() == source.numel() && source.scalar_type() == self.scalar_type(),
              "aten::put_: ", source.numel(), " values for ", index.numel(),
              " indices; as many of the tensor's type expected");
  Tensor flat = self.reshape({-1});  // self's own memory where it is contiguous
  const Tensor from = source.reshape({-1}), given = index.reshape({-1});
  const Tensor place = at::where(given.lt(0), given.add(flat.numel()), given);
  if (accumulate && !is_integral(self)) {
    flat.scatter_add_(0, place, from);
    return flat.is_alias_of(self) ? self : self.copy_(flat.view(self.sizes()));
  }
  const Tensor result = accumulate                    ? flat.scatter_add(0, place, from)
                        : working_device() != nullptr ? last_written(flat, place, from)
                                                      : flat.scatter(0, place, from);
  return self.copy_(result.view(self.sizes()));
}

}  // namespace

std::vector<Entry> index_put_operators() {
  constexpr std::string_view ordered = "4: occurrences in ascending order, leaves of 512, pairwise tree";
  constexpr std::string_view last = "1: each place keeps the last value written to it";
  return {
      certify<index_put, kHostValue>(kPut, "", ordered),
      certify_on_device<index_copy>("aten::index_copy", "", last),
      certify_on_device<index_copy_>("aten::index_copy_", "", last),
      certify_on_device<index_copy_out>("aten::index_copy", "out", last),
      certify<put_>("aten::put_", "", "4: writes in ascending order, or a scatter's sums"),
  };
}

}  // namespace isobit::aten
