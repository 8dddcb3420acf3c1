// Reductions by index: scatter_reduce, index_reduce, the gradient of unfold; the different values of a tensor, modes and
// histograms (contract, section 4).
//
// Integers go to stock's kernels where those are exact in any order.
#include <ATen/WrapDimUtils.h>
#include <ATen/ops/_unique2_native.h>
#include <ATen/ops/_unique_native.h>
#include <ATen/ops/index_reduce_cpu_dispatch.h>
#include <ATen/ops/mode_native.h>
#include <ATen/ops/scatter_reduce_cpu_dispatch.h>
#include <ATen/ops/unique_dim_native.h>
#include <ATen/ops/where.h>

#include <algorithm>
#include <numeric>
#include <optional>
#include <tuple>
#include <vector>

#include "aten/certified/entry.h"
#include "aten/certified/indexed_plan.h"
#include "aten/device_work.h"
#include "kernels/threads.h"

namespace isobit::aten {
namespace {

using at::Tensor;

// ---- scatter_reduce: what meets one destination, in ascending source order

using kernels::IndexReduction;
IndexReduction reduction_of(const char* op, std::string_view name) {
  if (name == "sum") return IndexReduction::sum;
  if (name == "prod") return IndexReduction::product;
  if (name == "mean") return IndexReduction::mean;
  TORCH_CHECK(name == "amax" || name == "amin", op, ": no reduction '", name, "'");
  return name == "amax" ? IndexReduction::maximum : IndexReduction::minimum;
}

Tensor scatter_reduced(const char* op, const Tensor& self, std::int64_t dim, const Tensor& given_index, const Tensor& source,
                       IndexReduction kind, bool include_self) {
  require_float(op, {&self, &source});
  const Tensor result = fresh_copy(self);
  if (given_index.numel() == 0) return result;
  const auto lifted = [](const Tensor& t) { return t.dim() == 0 ? t.unsqueeze(0) : t; };
  const Tensor to = lifted(result), index = contiguous(lifted(on_host(given_index)));
  Tensor from = lifted(source);
  dim = at::maybe_wrap_dim(dim, to.dim());
  TORCH_CHECK(index.dim() == to.dim() && from.dim() == to.dim(), op, ": index ", index.sizes(), ", source ", from.sizes(),
              " and self ", to.sizes(), " differ in dimensions");
  for (std::int64_t d = 0; d < to.dim(); ++d) {
    TORCH_CHECK(index.size(d) <= from.size(d) && (d == dim || index.size(d) <= to.size(d)), op, ": index ", index.sizes(),
                " is larger than source ", from.sizes(), " or self ", to.sizes());
    from = from.narrow(d, 0, index.size(d));
  }
  check_index(op, index, to.size(dim));
  from = contiguous(from);
  const IndexedPlan plan = plan_of(linear_destinations(index, to.sizes(), dim), to.numel());
  kernels::indexed_reduce(kind, plan.occurrences(), include_self, from.const_data_ptr<float>(),
                          result.mutable_data_ptr<float>());
  return result;
}

constexpr const char* kScatter = "aten::scatter_reduce";
Tensor scatter_reduce(const Tensor& self, std::int64_t dim, const Tensor& index, const Tensor& source, c10::string_view name,
                      bool include_self) {
  if (is_integral(self)) return at::cpu::scatter_reduce(self, dim, index, source, name, include_self);
  return scatter_reduced(kScatter, self, dim, index, source, reduction_of(kScatter, name), include_self);
}
Tensor& scatter_reduce_out(const Tensor& self, std::int64_t dim, const Tensor& index, const Tensor& source, c10::string_view name,
                           bool include_self, Tensor& out) {
  copy_out(out, scatter_reduce(self, dim, index, source, name, include_self));
  return out;
}
Tensor& scatter_reduce_(Tensor& self, std::int64_t dim, const Tensor& index, const Tensor& source, c10::string_view name,
                        bool include_self) {
  return self.copy_(scatter_reduce(self, dim, index, source, name, include_self));
}

// The index names whole slices of the source.
constexpr const char* kIndex = "aten::index_reduce";
Tensor index_reduce(const Tensor& self, std::int64_t dim, const Tensor& index, const Tensor& source, c10::string_view name,
                    bool include_self) {
  if (is_integral(self)) return at::cpu::index_reduce(self, dim, index, source, name, include_self);
  TORCH_CHECK(name != "sum" && index.dim() <= 1, kIndex, ": prod, mean, amax or amin by an index of one dimension expected");
  const IndexReduction kind = reduction_of(kIndex, name);
  dim = at::maybe_wrap_dim(dim, self.dim());
  TORCH_CHECK(source.dim() == self.dim() && (self.dim() == 0 || source.size(dim) == index.numel()), kIndex, ": source ",
              source.sizes(), " does not fit ", index.numel(), " indices");
  at::DimVector sizes(static_cast<std::size_t>(std::max<std::int64_t>(source.dim(), 1)), 1);
  sizes[static_cast<std::size_t>(dim)] = index.numel();
  const Tensor wide = source.dim() == 0 ? index.reshape({1}) : index.view(sizes).expand(source.sizes());
  return scatter_reduced(kIndex, self, dim, wide.contiguous(), source, kind, include_self);
}
Tensor& index_reduce_out(const Tensor& self, std::int64_t dim, const Tensor& index, const Tensor& source, c10::string_view name,
                         bool include_self, Tensor& out) {
  copy_out(out, index_reduce(self, dim, index, source, name, include_self));
  return out;
}
Tensor& index_reduce_(Tensor& self, std::int64_t dim, const Tensor& index, const Tensor& source, c10::string_view name,
                      bool include_self) {
  return self.copy_(index_reduce(self, dim, index, source, name, include_self));
}

// ---- unfold: an element's gradients are a chain from +0 over the windows that hold it

Tensor unfold_backward(const Tensor& given_dy, at::IntArrayRef sizes, std::int64_t dim, std::int64_t size, std::int64_t step) {
  require_float("aten::unfold_backward", given_dy);
  const Tensor dx = new_tensor(sizes).zero_();
  if (sizes.empty()) return dx.add(given_dy.reshape({}));
  dim = at::maybe_wrap_dim(dim, static_cast<std::int64_t>(sizes.size()));
  const Tensor dy = contiguous(given_dy.movedim(dim, 0));  // [windows, others, size]
  Tensor to = dx.movedim(dim, 0);
  for (std::int64_t w = 0; w < dy.size(0) && dx.numel() > 0; ++w) {
    Tensor part = to.narrow(0, w * step, size);
    part.add_(dy.select(0, w).movedim(-1, 0));
  }
  return dx;
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
  TORCH_CHECK(index.numel() == source.numel() && source.scalar_type() == self.scalar_type(), "aten::put_: ", source.numel(),
              " values of the tensor's type expected for ", index.numel(), " places");
  const Tensor flat = self.reshape({-1}), from = source.reshape({-1}), given = index.reshape({-1});
  const Tensor place = at::where(given.lt(0), given.add(flat.numel()), given);
  const Tensor result = accumulate ? flat.scatter_add(0, place, from)
                        : working_device() != nullptr ? last_written(flat, place, from)
                                                      : flat.scatter(0, place, from);
  return self.copy_(result.view(self.sizes()));
}

// ---- different values

using Three = std::tuple<Tensor, Tensor, Tensor>;

// NaN last; equal values (zeros of both signs among them) in their order.
bool before(float a, float b) { return a != a ? false : b != b || a < b; }

struct Groups {
  std::vector<std::int64_t> order, group, first;  // rows sorted; the group of each row; where a group's rows begin in `order`
};
template <class Before, class Same>
Groups groups_of(std::int64_t n, Before less, Same same) {
  Groups g;
  g.order.resize(static_cast<std::size_t>(n)), g.group.resize(static_cast<std::size_t>(n));
  std::iota(g.order.begin(), g.order.end(), 0);
  std::stable_sort(g.order.begin(), g.order.end(), less);
  for (std::int64_t i = 0; i < n; ++i) {
    const auto at = static_cast<std::size_t>(i);
    if (i == 0 || !same(g.order[at - 1], g.order[at])) g.first.push_back(i);
    g.group[static_cast<std::size_t>(g.order[at])] = static_cast<std::int64_t>(g.first.size()) - 1;
  }
  return g;
}
Tensor integers_of(const std::vector<std::int64_t>& values) {
  const Tensor t = host_integers(static_cast<std::int64_t>(values.size()));
  std::copy(values.begin(), values.end(), t.mutable_data_ptr<std::int64_t>());
  return t;
}
Tensor counts_of(const Groups& g) {
  std::vector<std::int64_t> counts(g.first.size());
  for (std::size_t k = 0; k < counts.size(); ++k) {
    counts[k] = (k + 1 < counts.size() ? g.first[k + 1] : static_cast<std::int64_t>(g.order.size())) - g.first[k];
  }
  return integers_of(counts);
}

Three unique(const Tensor& given, bool sorted, bool inverse, bool counts) {
  if (is_integral(given)) return at::native::_unique2_cpu(given, sorted, inverse, counts);
  require_float("aten::_unique2", given);
  const Tensor x = contiguous(given);
  const float* const v = x.const_data_ptr<float>();
  const Groups g = groups_of(x.numel(), [v](std::int64_t a, std::int64_t b) { return before(v[a], v[b]); },
                             [v](std::int64_t a, std::int64_t b) { return v[a] == v[b]; });
  const Tensor values = write_new({static_cast<std::int64_t>(g.first.size())}, [&](float* y) {
    for (std::size_t k = 0; k < g.first.size(); ++k) y[k] = v[g.order[static_cast<std::size_t>(g.first[k])]];
  });
  const Tensor none = host_integers(0);
  return {values, inverse || counts ? integers_of(g.group).view(x.sizes()) : none, counts ? counts_of(g) : none};
}
std::tuple<Tensor, Tensor> unique_pair(const Tensor& x, bool sorted, bool inverse) {
  const Three all = unique(x, sorted, inverse, false);
  return {std::get<0>(all), std::get<1>(all)};
}
Three unique_dim(const Tensor& x, std::int64_t dim, bool sorted, bool inverse, bool counts) {
  if (!is_integral(x)) require_float("aten::unique_dim", x);
  if (is_integral(x) || x.numel() == 0) return at::native::unique_dim_cpu(x, dim, sorted, inverse, counts);
  dim = at::maybe_wrap_dim(dim, x.dim());
  const Tensor rows = contiguous(x.movedim(dim, 0));
  const std::int64_t n = rows.size(0), width = rows.numel() / n;
  const float* const v = rows.const_data_ptr<float>();
  const auto row = [v, width](std::int64_t r) { return v + r * width; };
  const Groups g = groups_of(
      n, [&](std::int64_t a, std::int64_t b) { return std::lexicographical_compare(row(a), row(a) + width, row(b), row(b) + width, before); },
      [&](std::int64_t a, std::int64_t b) { return std::equal(row(a), row(a) + width, row(b)); });
  at::DimVector sizes(rows.sizes());
  sizes[0] = static_cast<std::int64_t>(g.first.size());
  const Tensor values = write_new(sizes, [&](float* y) {
    for (std::size_t k = 0; k < g.first.size(); ++k) std::copy_n(row(g.order[static_cast<std::size_t>(g.first[k])]), width, y + static_cast<std::int64_t>(k) * width);
  });
  return {values.movedim(0, dim), integers_of(g.group), counts_of(g)};
}

// ---- mode: the commonest value, the smallest of several; the last place that holds it

std::tuple<Tensor, Tensor> mode(const Tensor& given, std::int64_t dim, bool keep) {
  if (is_integral(given)) return at::native::mode(given, dim, keep);
  require_float("aten::mode", given);
  dim = at::maybe_wrap_dim(dim, given.dim());
  if (given.dim() == 0) return {given.clone(), new_tensor({}, at::kLong).zero_()};
  const Tensor x = contiguous(given.movedim(dim, -1));
  const std::int64_t n = x.size(-1);
  TORCH_CHECK_INDEX(n > 0 || x.numel() > 0 || given.numel() == 0, "aten::mode: can not reduce over no elements");
  at::DimVector sizes(x.sizes().slice(0, static_cast<std::size_t>(x.dim() - 1)));
  Tensor values = new_tensor(sizes), index = new_tensor(sizes, at::kLong);
  const float* const from = x.const_data_ptr<float>();
  float* const to = values.mutable_data_ptr<float>();
  std::int64_t* const place = index.mutable_data_ptr<std::int64_t>();
  TORCH_CHECK_INDEX(n > 0 || values.numel() == 0, "aten::mode: can not reduce over no elements");
  kernels::parallel_for(0, values.numel(), 256 / (n + 1) + 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t r = begin; r < end; ++r) {
      const float* const v = from + r * n;
      const Groups g = groups_of(n, [v](std::int64_t a, std::int64_t b) { return before(v[a], v[b]); },
                                 [v](std::int64_t a, std::int64_t b) { return v[a] == v[b]; });
      std::int64_t most = 0, last = 0;
      for (std::size_t k = 0; k < g.first.size(); ++k) {
        const std::int64_t after = k + 1 < g.first.size() ? g.first[k + 1] : n;
        if (after - g.first[k] > most) most = after - g.first[k], last = after - 1;
      }
      place[r] = g.order[static_cast<std::size_t>(last)];
      to[r] = v[place[r]];
    }
  });
  if (!keep) return {values, index};
  return {values.unsqueeze(dim), index.unsqueeze(dim)};
}

}  // namespace

std::vector<Entry> reduced_indexing_operators() {
  constexpr std::string_view reduction = "4: occurrences in ascending order; sums in leaves of 512 and the tree, else a chain";
  constexpr std::string_view different = "1: stable sort, NaN last; the first of equal values";
  return {
      certify<scatter_reduce, kIntegersByStock>(kScatter, "two", reduction),
      certify<scatter_reduce_out, kIntegersByStockAndOut>(kScatter, "two_out", reduction),
      certify<scatter_reduce_, kIntegersByStock>("aten::scatter_reduce_", "two", reduction),
      certify<index_reduce, kIntegersByStock>(kIndex, "", reduction),
      certify<index_reduce_out, kIntegersByStockAndOut>(kIndex, "out", reduction),
      certify<index_reduce_, kIntegersByStock>("aten::index_reduce_", "", reduction),
      certify<put_>("aten::put_", "", "4: writes in ascending order, or a scatter's sums"),
      certify<unfold_backward>("aten::unfold_backward", "", "4: chain from +0 over the windows"),
      certify_by_host<unique>("aten::_unique2", "", different),
      certify_by_host<unique_pair>("aten::_unique", "", different),
      certify_by_host<unique_dim>("aten::unique_dim", "", different),
      certify_by_host<mode>("aten::mode", "", "1: the smallest of the commonest values, its last place"),
  };
}

}  // namespace isobit::aten
