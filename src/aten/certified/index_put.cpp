// index_put_ and index_copy: writes are in order, so that the last one to a place stays: stock's on the CPU, ours on a device.
// Sums of floats are additions by index (contract, section 4), which the gradient of x[index] asks for. Bags of embeddings,
// sums and means.
#include <ATen/WrapDimUtils.h>
#include <ATen/ops/_index_put_impl_native.h>
#include <ATen/ops/arange.h>

#include <optional>
#include <tuple>

#include "aten/certified/entry.h"
#include "aten/certified/indexed_plan.h"
#include "aten/deterministic_writes.h"
#include "aten/device_work.h"
#include "aten/refusal.h"
#include "aten/subnormals.h"

namespace isobit::aten {
namespace {

using at::Tensor;
using Optional = std::optional<Tensor>;
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
  places.rows = contiguous(numbers(indexed, {indices.begin() + static_cast<std::ptrdiff_t>(first), indices.end()}));
  places.shape = at::DimVector(sizes.slice(0, first));
  places.shape.append(places.rows.sizes().begin(), places.rows.sizes().end());
  places.shape.append(sizes.begin() + last, sizes.end());
  places.outer = c10::multiply_integers(sizes.slice(0, first));
  places.count = c10::multiply_integers(indexed);
  places.inner = c10::multiply_integers(sizes.slice(last));
  return places;
}

void accumulate(Tensor& self, const Indices& given, const Tensor& values) {
  require_float(kPut, {&self, &values});
  const Places places = places_of(self, given);
  const Tensor source = contiguous(values.to(self.device()).expand(places.shape)), result = fresh_copy(self);
  const IndexedPlan plan = plan_of(places.rows, places.count);
  kernels::indexed_add(plan.occurrences(), places.outer, places.rows.numel(), places.inner, 1.0f,
                       source.const_data_ptr<float>(), result.mutable_data_ptr<float>());
  self.copy_(result);
}

// self, contiguous, with the rows written: each place takes its last occurrence.
void write_on_device(const Tensor& self, const Places& places, const Tensor& given) {
  Tensor source = contiguous(given);
  if (source.is_alias_of(self)) source = source.clone();
  place_rows(self, places.rows, places.outer, places.count, places.inner, source);
}

// x[mask] = a number.
bool fill_by_mask(Tensor& self, const Indices& indices, const Tensor& values) {
  const std::optional<Tensor> mask = indices.size() == 1 ? indices.get(0) : std::nullopt;
  if (values.numel() != 1 || !mask || !mask->defined() || mask->scalar_type() != at::kBool || mask->dim() > self.dim() ||
      mask->sizes() != self.sizes().slice(0, static_cast<std::size_t>(mask->dim()))) {
    return false;
  }
  at::DimVector sizes(mask->sizes());
  sizes.resize(static_cast<std::size_t>(self.dim()), 1);
  self.masked_fill_(mask->to(self.device()).view(sizes), values.reshape({}));
  return true;
}

Tensor& index_put(Tensor& self, const Indices& indices, const Tensor& values, bool accumulates, bool unsafe);
constexpr DeviceRules kHostValue{DeviceIntegers::ours, true};
using PutOnDevice = DeviceKernel<index_put, kHostValue>;

void put_on_device(Tensor& self, const Indices& indices, const Tensor& values, bool accumulates, bool unsafe) {
  if (accumulates) {  // integers: exact in any order
    PutOnDevice::stock.kernel.call<Tensor&, Tensor&, const Indices&, const Tensor&, bool, bool>(
        *PutOnDevice::stock.handle, c10::DispatchKeySet(c10::DispatchKey::CUDA), self, indices, values, true, unsafe);
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
  const Tensor there = self.dim() == 0 ? self.unsqueeze(0) : self, rows = source.dim() == 0 ? source.unsqueeze(0) : source;
  at::DimVector shape(there.sizes());
  shape[dim] = index.numel();
  TORCH_CHECK_INDEX(index.dim() <= 1, op, ": the index has ", index.dim(), " dimensions, not one");
  TORCH_CHECK_INDEX(rows.sizes() == shape, op, ": a source of ", source.sizes(), ", not of ", shape);
  TORCH_CHECK_INDEX(self.scalar_type() == source.scalar_type(), op, ": writes ", source.scalar_type(), " into ",
                    self.scalar_type());
  Places places;
  places.rows = contiguous(index.to(at::kCPU).to(at::kLong)).flatten();
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

// ---- bags of embeddings

enum class Mode { sum = 0, mean = 1, maximum = 2 };
constexpr const char* kBag = "aten::_embedding_bag";
using Four = std::tuple<Tensor, Tensor, Tensor, Tensor>;

// Result, the bag of each index, the number of indices in each bag (padding apart), and what only maxima use.
Four embedding_bag(const Tensor& weight, const Tensor& given_indices, const Tensor& given_offsets,
                   bool /*scale_by_frequency*/, std::int64_t given_mode, bool sparse, const Optional& factors,
                   bool includes_last, std::int64_t padding) {
  require_float(kBag, weight);
  const auto mode = static_cast<Mode>(given_mode);
  if (mode == Mode::maximum || sparse) refuse(kBag, "is certified for dense sums and means only", "use mode sum or mean");
  const bool weighted = factors && factors->defined();
  TORCH_CHECK(!weighted || mode == Mode::sum, kBag, ": per_sample_weights are for sums");
  const Tensor indices = on_host(given_indices), offsets = on_host(given_offsets);
  check_index(kBag, indices, weight.size(0));
  const std::int64_t n = indices.numel(), bags = offsets.numel() - (includes_last ? 1 : 0);
  const Tensor bag = host_integers(n), size = host_integers(bags);
  const Tensor begin = host_integers(bags + 1), order = host_integers(n);
  const std::int64_t* const at = offsets.const_data_ptr<std::int64_t>();
  const std::int64_t* const index = indices.const_data_ptr<std::int64_t>();
  std::int64_t* const to = order.mutable_data_ptr<std::int64_t>();
  std::int64_t* const start = begin.mutable_data_ptr<std::int64_t>();
  start[0] = 0;
  for (std::int64_t b = 0; b < bags; ++b) {
    const std::int64_t end = b + 1 < offsets.numel() ? at[b + 1] : n;
    TORCH_CHECK(at[b] >= 0 && at[b] <= end && end <= n && at[0] == 0, kBag, ": offsets ", given_offsets,
                " do not ascend from 0 to at most ", n);
    start[b + 1] = start[b];
    for (std::int64_t k = at[b]; k < end; ++k) {
      bag.mutable_data_ptr<std::int64_t>()[k] = b;
      if (index[k] != padding) to[start[b + 1]++] = weighted ? k : index[k];
    }
    size.mutable_data_ptr<std::int64_t>()[b] = start[b + 1] - start[b];
  }
  // Weighted: the rows are multiplied first, one rounding each.
  Tensor source = contiguous(weight);
  if (weighted) source = contiguous(weight.index_select(0, given_indices).mul(factors->unsqueeze(1)));
  const IndexedPlan plan = plan_of_lists(begin, order);
  const Tensor y = new_tensor({bags, weight.size(1)});
  y.zero_();
  kernels::indexed_add(plan.occurrences(), 1, source.size(0), weight.size(1), 1.0f, source.const_data_ptr<float>(),
                       y.mutable_data_ptr<float>());
  const c10::Device device = weight.device();
  const Tensor sizes = size.to(device);
  if (mode == Mode::mean) y.div_(sizes.clamp_min(1).to(at::kFloat).unsqueeze(1));
  return {y, bag.to(device), sizes, new_tensor({0}, at::kLong)};
}

Tensor embedding_bag_backward(const Tensor& grad_output, const Tensor& indices, const Tensor& bag, const Tensor& sizes,
                              const Tensor& /*maximum*/, std::int64_t rows, bool scale_by_frequency,
                              std::int64_t given_mode, const Optional& factors, std::int64_t padding) {
  constexpr const char* op = "aten::_embedding_bag_dense_backward";
  require_float(op, grad_output);
  const auto mode = static_cast<Mode>(given_mode);
  if (mode == Mode::maximum) refuse(op, "is certified for sums and means only", "use mode sum or mean");
  Tensor dy = grad_output;
  if (mode == Mode::mean) dy = dy.div(sizes.clamp_min(1).to(at::kFloat).unsqueeze(1));
  dy = dy.index_select(0, bag);
  if (factors && factors->defined()) dy = dy.mul(factors->unsqueeze(1));
  return row_gradients(op, contiguous(dy), on_host(indices).flatten(), rows, padding, scale_by_frequency);
}

// Stock's loop over the two kinds of gradient; sparse ones are not certified. The offsets are in `bag` already.
Tensor any_embedding_bag_backward(const Tensor& dy, const Tensor& indices, const Tensor& /*offsets*/, const Tensor& bag,
                                  const Tensor& sizes, const Tensor& maximum, std::int64_t rows, bool scale_by_frequency,
                                  std::int64_t mode, bool sparse, const Optional& factors, std::int64_t padding) {
  if (sparse) refuse("aten::_embedding_bag_backward", "is certified for dense gradients only", "use sparse=False");
  return embedding_bag_backward(dy, indices, bag, sizes, maximum, rows, scale_by_frequency, mode, factors, padding);
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
      certify<embedding_bag>(kBag, "", ordered),
      certify<embedding_bag>("aten::_embedding_bag_forward_only", "", ordered),
      certify<any_embedding_bag_backward>("aten::_embedding_bag_backward", "", ordered),
      certify<embedding_bag_backward>("aten::_embedding_bag_dense_backward", "", ordered),
  };
}

}  // namespace isobit::aten
