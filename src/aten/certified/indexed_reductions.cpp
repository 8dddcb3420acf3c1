// Reductions by index: scatter_reduce, index_reduce, the gradient of unfold (contract, section 4; kernels/indexed.h).
//
// Integers go to stock's kernels where those are exact in any order.
#include <ATen/WrapDimUtils.h>
#include <ATen/ops/index_reduce_cpu_dispatch.h>
#include <ATen/ops/scatter_reduce_cpu_dispatch.h>

#include <algorithm>
#include <vector>

#include "aten/certified/support/entry.h"
#include "aten/certified/support/indexed_plan.h"
#include "aten/device_work.h"
#include "contract/extrema.h"
#include "kernels/float_environment.h"
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
  TORCH_CHECK(name == "amax" || name == "amin", op, ": unknown reduction '", name, "'");
  return name == "amax" ? IndexReduction::maximum : IndexReduction::minimum;
}

// Products and extrema are chains over a destination's occurrences in ascending order: one pass over the source,
// without a plan. destination [outer, rows, inner], index and source [outer, n, inner].
struct Chains {
  std::int64_t outer = 1, rows = 1, n = 1, inner = 1;
  const std::int64_t* index;
  bool include_self;
};
template <class T, class Step>
void reduce_chains(const Chains& c, T start, bool starts, const T* source, T* destination, Step step) {
  std::vector<char> met(c.include_self ? 0 : static_cast<std::size_t>(c.outer * c.rows * c.inner));
  const auto part = [&](std::int64_t o, std::int64_t first, std::int64_t last) {
    for (std::int64_t k = 0; k < c.n; ++k) {
      const std::int64_t line = (o * c.n + k) * c.inner;
      for (std::int64_t i = first; i < last; ++i) {
        const std::int64_t at = (o * c.rows + c.index[line + i]) * c.inner + i;
        const T v = source[line + i];
        T so_far = destination[at];
        if (!c.include_self && !met[static_cast<std::size_t>(at)]) {
          met[static_cast<std::size_t>(at)] = 1, so_far = starts ? start : v;
        }
        destination[at] = step(so_far, v);
      }
    }
  };
  const kernels::FloatEnvironment environment;
  if (c.outer > 1) {
    kernels::parallel_for(0, c.outer, 8192 / (c.n * c.inner + 1) + 1, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t o = begin; o < end; ++o) part(o, 0, c.inner);
    });
  } else {
    kernels::parallel_for(0, c.inner, 8192 / (c.n + 1) + 64,
                          [&](std::int64_t begin, std::int64_t end) { part(0, begin, end); });
  }
}
template <class T>
void reduce_chains(IndexReduction kind, const Chains& c, const T* source, T* destination) {
  if (kind == IndexReduction::product) {
    return reduce_chains(c, T(1), true, source, destination, [](T a, T b) { return a * b; });
  }
  if (kind == IndexReduction::maximum) {
    return reduce_chains(c, T(0), false, source, destination, [](T a, T b) { return contract::maximum(a, b); });
  }
  reduce_chains(c, T(0), false, source, destination, [](T a, T b) { return contract::minimum(a, b); });
}
// Whether the reduction was such chains, on the host, and is done.
bool reduced_as_chains(const char* op, IndexReduction kind, const Tensor& result, std::int64_t dim,
                       const Tensor& given_index, const Tensor& source, bool include_self) {
  if (kind == IndexReduction::sum || kind == IndexReduction::mean || working_device() != nullptr) return false;
  dim = at::maybe_wrap_dim(dim, result.dim());
  if (given_index.dim() > 1 && given_index.stride(-1) == 0 && dim != given_index.dim() - 1) return false;  // rows
  const Tensor index = contiguous(on_host(given_index));
  if (result.dim() == 0 || index.dim() != result.dim() || source.sizes() != index.sizes()) return false;
  Chains c;
  for (std::int64_t d = 0; d < result.dim(); ++d) {
    if (d != dim && index.size(d) != result.size(d)) return false;
    if (d != dim) (d < dim ? c.outer : c.inner) *= index.size(d);
  }
  c.rows = result.size(dim), c.n = index.size(dim);
  check_index(op, index, c.rows);
  c.index = index.const_data_ptr<std::int64_t>(), c.include_self = include_self;
  const Tensor from = contiguous(source);
  with_data(result, [&](auto* to) { reduce_chains(kind, c, data_like(to, from), to); });
  return true;
}

void reduce_into(const char* op, const Tensor& result, std::int64_t dim, const Tensor& index, const Tensor& source,
                 IndexReduction kind, bool include_self) {
  if (index.numel() == 0) return;
  if (reduced_as_chains(op, kind, result, dim, index, source, include_self)) return;
  const Scatter scatter = scatter_into(op, result, dim, index, source);
  if (kind == IndexReduction::sum && include_self)
    return add_by_index(result, scatter.source, scatter.to, 1, scatter.rows, scatter.inner);
  const IndexedPlan plan = plan_of(scatter.to, scatter.rows);
  with_data(result, [&](auto* to) {
    kernels::indexed_reduce(kind, plan.occurrences(), scatter.inner, include_self, data_like(to, scatter.source), to);
  });
}
Tensor scatter_reduced(const char* op, const Tensor& self, std::int64_t dim, const Tensor& index, const Tensor& source,
                       IndexReduction kind, bool include_self) {
  require_computed(op, {&self, &source});
  const Tensor result = fresh_copy(self);
  reduce_into(op, result, dim, index, source, kind, include_self);
  return result;
}
Tensor& scatter_reduced_(const char* op, Tensor& self, std::int64_t dim, const Tensor& index, const Tensor& source,
                         IndexReduction kind, bool include_self) {
  require_computed(op, {&self, &source});
  return write_in_place(op, self, {&index, &source},
                        [&](const Tensor& result) { reduce_into(op, result, dim, index, source, kind, include_self); });
}

constexpr const char* kScatter = "aten::scatter_reduce";
Tensor scatter_reduce(const Tensor& self, std::int64_t dim, const Tensor& index, const Tensor& source,
                      c10::string_view name, bool include_self) {
  if (is_integral(self)) return at::cpu::scatter_reduce(self, dim, index, source, name, include_self);
  return scatter_reduced(kScatter, self, dim, index, source, reduction_of(kScatter, name), include_self);
}
Tensor& scatter_reduce_out(const Tensor& self, std::int64_t dim, const Tensor& index, const Tensor& source,
                           c10::string_view name, bool include_self, Tensor& out) {
  copy_out(out, scatter_reduce(self, dim, index, source, name, include_self));
  return out;
}
Tensor& scatter_reduce_(Tensor& self, std::int64_t dim, const Tensor& index, const Tensor& source,
                        c10::string_view name, bool include_self) {
  if (is_integral(self)) return at::cpu::scatter_reduce_(self, dim, index, source, name, include_self);
  return scatter_reduced_("aten::scatter_reduce_", self, dim, index, source, reduction_of(kScatter, name),
                          include_self);
}

constexpr const char* kIndex = "aten::index_reduce";
// The index of each element of the source, of one that names whole slices.
Tensor index_of_each(const char* op, const Tensor& self, std::int64_t dim, const Tensor& index, const Tensor& source,
                     c10::string_view name) {
  TORCH_CHECK(name != "sum" && index.dim() <= 1, op, ": prod, mean, amax or amin and a one-dimensional index expected");
  dim = at::maybe_wrap_dim(dim, self.dim());
  TORCH_CHECK(source.dim() == self.dim() && (self.dim() == 0 || source.size(dim) == index.numel()), op, ": source ",
              source.sizes(), " does not fit ", index.numel(), " indices");
  at::DimVector sizes(static_cast<std::size_t>(std::max<std::int64_t>(source.dim(), 1)), 1);
  sizes[static_cast<std::size_t>(dim)] = index.numel();
  return source.dim() == 0 ? index.reshape({1}) : index.view(sizes).expand(source.sizes());
}
Tensor index_reduce(const Tensor& self, std::int64_t dim, const Tensor& index, const Tensor& source,
                    c10::string_view name, bool include_self) {
  if (is_integral(self)) return at::cpu::index_reduce(self, dim, index, source, name, include_self);
  const Tensor each = index_of_each(kIndex, self, dim, index, source, name);
  return scatter_reduced(kIndex, self, dim, each, source, reduction_of(kIndex, name), include_self);
}
Tensor& index_reduce_out(const Tensor& self, std::int64_t dim, const Tensor& index, const Tensor& source,
                         c10::string_view name, bool include_self, Tensor& out) {
  copy_out(out, index_reduce(self, dim, index, source, name, include_self));
  return out;
}
Tensor& index_reduce_(Tensor& self, std::int64_t dim, const Tensor& index, const Tensor& source, c10::string_view name,
                      bool include_self) {
  if (is_integral(self)) return at::cpu::index_reduce_(self, dim, index, source, name, include_self);
  constexpr const char* op = "aten::index_reduce_";
  const Tensor each = index_of_each(op, self, dim, index, source, name);
  return scatter_reduced_(op, self, dim, each, source, reduction_of(op, name), include_self);
}

// ---- unfold: an element's gradients are a chain from +0 over the windows that hold it

Tensor unfold_backward(const Tensor& given_dy, at::IntArrayRef sizes, std::int64_t dim, std::int64_t size,
                       std::int64_t step) {
  const Tensor dx = new_tensor(sizes, require_computed("aten::unfold_backward", given_dy.scalar_type())).zero_();
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

}  // namespace

std::vector<Entry> indexed_reduction_operators() {
  constexpr std::string_view reduction =
      "4: occurrences in ascending order; sums in leaves of 512 and the tree, else a chain";
  return {
      certify<scatter_reduce, kIntegersByStock>(kScatter, "two", reduction),
      certify<scatter_reduce_out, kIntegersByStockAndOut>(kScatter, "two_out", reduction),
      certify<scatter_reduce_, kIntegersByStock>("aten::scatter_reduce_", "two", reduction),
      certify<index_reduce, kIntegersByStock>(kIndex, "", reduction),
      certify<index_reduce_out, kIntegersByStockAndOut>(kIndex, "out", reduction),
      certify<index_reduce_, kIntegersByStock>("aten::index_reduce_", "", reduction),
      certify<unfold_backward>("aten::unfold_backward", "", "4: chain from +0 over the windows"),
  };
}

}  // namespace isobit::aten
