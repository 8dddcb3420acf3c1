// Values by rank: sort, topk, kthvalue, median (contract, section 1: sorting is stable, so every rank has one index).
//
// The CPU's ranks are found row by row without a whole sort; a device sorts (kernels/sort.h).
#include <ATen/WrapDimUtils.h>
#include <ATen/ops/rshift.h>
#include <ATen/ops/sort.h>
#include <ATen/ops/where.h>

#include <algorithm>
#include <functional>
#include <limits>
#include <numeric>
#include <optional>
#include <tuple>
#include <type_traits>
#include <vector>

#include "aten/certified/support/entry.h"
#include "aten/certified/support/rank_bits.h"
#include "aten/certified/support/tensors.h"
#include "aten/device_work.h"
#include "kernels/sort.h"
#include "kernels/threads.h"

namespace isobit::aten {
namespace {

using at::Tensor;
using Pair = std::tuple<Tensor, Tensor>;
using OutPair = std::tuple<Tensor&, Tensor&>;

// Ascending as sort has it: NaN last, -0 equal to +0, equals in the order of their indices; or all but the ties
// reversed.
template <class T>
struct Before {
  const T* x;
  bool descending;
  bool operator()(std::int64_t a, std::int64_t b) const {
    const T u = x[a], v = x[b];
    const bool un = u != u, vn = v != v;
    if (un || vn) return un != vn ? un == descending : a < b;
    if (u != v) return descending ? u > v : u < v;
    return a < b;
  }
};

// x with `dim` last, contiguous; rows of n.
struct Rows {
  Tensor x;
  std::int64_t dim, n, count;
};
Rows rows_of(const char* op, const Tensor& given, std::int64_t dim) {
  require_computed(op, given.scalar_type());
  const Tensor x = given.dim() == 0 ? given.unsqueeze(0) : given;
  dim = at::maybe_wrap_dim(dim, x.dim());
  const std::int64_t n = x.size(dim);
  return {contiguous(x.movedim(dim, -1)), dim, n, n == 0 ? 0 : x.numel() / n};
}

Pair placed_back(const Rows& rows, const Tensor& values, const Tensor& indices) {
  return {contiguous(values.movedim(-1, rows.dim)), contiguous(indices.movedim(-1, rows.dim))};
}

// A row's elements in an order that a Less compares: as numbers, whose upper half is the value's and whose lower half
// is the index; of binary64 as indices.
struct Numbered {
  std::vector<std::uint64_t> order;
  void start(const float* row, std::int64_t n, bool descending) {
    order.resize(static_cast<std::size_t>(n));
    const std::uint32_t turned = descending ? ~0u : 0u;
    for (std::int64_t i = 0; i < n; ++i) {
      order[static_cast<std::size_t>(i)] =
          static_cast<std::uint64_t>(rank_bits(row[i]) ^ turned) << 32 | static_cast<std::uint64_t>(i);
    }
  }
  [[nodiscard]] std::less<> less() const { return {}; }
  [[nodiscard]] std::int64_t index(std::int64_t i) const {
    return static_cast<std::int64_t>(order[static_cast<std::size_t>(i)] & 0xffffffffu);
  }
};
template <class T>
struct Indexed {
  std::vector<std::int64_t> order;
  Before<T> before;
  void start(const T* row, std::int64_t n, bool descending) {
    order.resize(static_cast<std::size_t>(n));
    std::iota(order.begin(), order.end(), 0);
    before = {row, descending};
  }
  [[nodiscard]] Before<T> less() const { return before; }
  [[nodiscard]] std::int64_t index(std::int64_t i) const { return order[static_cast<std::size_t>(i)]; }
};

// pick(row's values, n, first, last, less) orders a row's elements, at least `each` of them: those of every row, placed
// back at dim.
template <class Pick>
Pair picked(const Rows& rows, bool descending, std::int64_t each, Pick pick) {
  at::DimVector sizes(rows.x.sizes());
  sizes.back() = each;
  const Tensor values = new_tensor(sizes, rows.x.scalar_type()), indices = new_tensor(sizes, at::kLong);
  std::int64_t* const index = indices.mutable_data_ptr<std::int64_t>();
  with_data(values, [&](auto* y) {
    using T = std::remove_pointer_t<decltype(y)>;
    const T* const x = data_like(y, rows.x);
    const auto all = [&](auto elements) {
      kernels::parallel_for(0, rows.count, 2048 / (rows.n + 1) + 1, [&](std::int64_t begin, std::int64_t end) {
        auto own = elements;
        for (std::int64_t r = begin; r < end; ++r) {
          const T* const row = x + r * rows.n;
          own.start(row, rows.n, descending);
          pick(row, own.order.begin(), own.order.end(), own.less());
          for (std::int64_t i = 0; i < each; ++i) {
            index[r * each + i] = own.index(i);
            y[r * each + i] = row[own.index(i)];
          }
        }
      });
    };
    if constexpr (std::is_same_v<T, float>) {
      if (rows.n <= std::numeric_limits<std::uint32_t>::max()) return all(Numbered());
    }
    all(Indexed<T>());
  });
  return placed_back(rows, values, indices);
}

// Every row sorted.
Pair sorted_rows(const Rows& rows, bool descending) {
  const Tensor values = new_tensor(rows.x.sizes(), rows.x.scalar_type());
  const Tensor indices = new_tensor(rows.x.sizes(), at::kLong);
  with_data(values, [&](auto* y) {
    kernels::sort_rows(descending, rows.count, rows.n, data_like(y, rows.x), y,
                       indices.mutable_data_ptr<std::int64_t>());
  });
  return {values, indices};
}
// Those from `first` on of every sorted row, in memory of their own.
Pair part_of_sorted(const Rows& rows, bool descending, std::int64_t first, std::int64_t count) {
  const auto [values, indices] = sorted_rows(rows, descending);
  return placed_back(rows, values.narrow(-1, first, count).clone(), indices.narrow(-1, first, count).clone());
}
OutPair into(const Pair& results, Tensor& values, Tensor& indices) {
  copy_out(values, std::get<0>(results));
  copy_out(indices, std::get<1>(results));
  return {values, indices};
}

Pair found_of_rank(const Rows& rows, std::int64_t rank) {
  if (working_device() != nullptr) return part_of_sorted(rows, false, rank, 1);
  return picked(rows, false, 1, [&](const auto*, auto first, auto last, auto less) {
    std::nth_element(first, first + rank, last, less);
    std::iter_swap(first, first + rank);
  });
}
// The one of rank `rank`.
Pair of_rank(const Rows& rows, std::int64_t rank, bool keep, bool whole) {
  const Pair found = found_of_rank(rows, rank);
  if (keep && !whole) return found;
  return {std::get<0>(found).squeeze(rows.dim), std::get<1>(found).squeeze(rows.dim)};
}

// ---- sort, on devices: the CPU's is stock's, made stable

constexpr const char* kSort = "aten::sort";
Pair sort_stable(const Tensor& x, std::optional<bool> /*stable*/, std::int64_t dim, bool descending) {
  const Rows rows = rows_of(kSort, x, dim);
  const auto [values, indices] = sorted_rows(rows, descending);
  const Pair found = placed_back(rows, values, indices);
  if (x.dim() > 0) return found;
  return {std::get<0>(found).squeeze(0), std::get<1>(found).squeeze(0)};
}
OutPair sort_stable_out(const Tensor& x, std::optional<bool> stable, std::int64_t dim, bool descending, Tensor& values,
                        Tensor& indices) {
  return into(sort_stable(x, stable, dim, descending), values, indices);
}

// ---- topk: the first k of a stable sort, always sorted

Pair first_of(const Rows& rows, std::int64_t k, bool largest) {
  if (working_device() != nullptr) return part_of_sorted(rows, largest, 0, k);
  return picked(rows, largest, k, [&](const auto*, auto first, auto last, auto less) {
    if (k < rows.n / 4) return std::partial_sort(first, first + k, last, less);
    if (k < rows.n) std::nth_element(first, first + k, last, less);
    std::sort(first, first + k, less);
  });
}

constexpr const char* kTop = "aten::topk";
Pair topk(const Tensor& x, std::int64_t k, std::int64_t dim, bool largest, bool /*sorted*/) {
  const std::int64_t size = x.dim() == 0 ? 1 : x.size(at::maybe_wrap_dim(dim, x.dim()));
  TORCH_CHECK(k >= 0 && k <= size, kTop, ": k must be from 0 to the size ", size, ", got ", k);
  if (is_integral(x)) {
    const auto [values, indices] = at::sort(x.dim() == 0 ? x.unsqueeze(0) : x, /*stable=*/true, dim, largest);
    const auto part = [&](const Tensor& t) {
      return x.dim() == 0 ? t.narrow(0, 0, k).squeeze(0) : t.narrow(dim, 0, k).contiguous();
    };
    return {part(values), part(indices)};
  }
  const Rows rows = rows_of(kTop, x, dim);
  const Pair found = first_of(rows, k, largest);
  if (x.dim() > 0) return found;
  TORCH_CHECK(k == 1, kTop, ": k must be 1 for a single value, got ", k);
  return {std::get<0>(found).squeeze(0), std::get<1>(found).squeeze(0)};
}
OutPair topk_out(const Tensor& x, std::int64_t k, std::int64_t dim, bool largest, bool sorted, Tensor& values,
                 Tensor& indices) {
  return into(topk(x, k, dim, largest, sorted), values, indices);
}

// ---- kthvalue, median

constexpr const char* kKth = "aten::kthvalue";
OutPair kthvalue_out(const Tensor& x, std::int64_t k, std::int64_t dim, bool keep, Tensor& values, Tensor& indices) {
  const Rows rows = rows_of(kKth, x, dim);
  TORCH_CHECK(k >= 1 && k <= rows.n, kKth, ": k must be from 1 to the size ", rows.n, ", got ", k);
  return into(of_rank(rows, k - 1, keep, x.dim() == 0), values, indices);
}

constexpr const char* kMedian = "aten::median";
// NaN comes last in the order: a row's median is its first NaN, or (skip) the median of the others.
std::int64_t median_rank(std::int64_t numbers, std::int64_t n, bool skip) {
  return numbers < n && !skip ? numbers : (std::max<std::int64_t>(numbers, 1) - 1) / 2;
}
Pair found_medians(const Rows& rows, bool skip) {
  if (working_device() != nullptr) {  // median_rank for every row
    const Tensor numbers = rows.x.eq(rows.x).sum(-1, /*keepdim=*/true);
    const Tensor middle = at::__rshift__(numbers.clamp_min(1).sub(1), 1);
    const Tensor rank = skip ? middle : at::where(numbers.lt(rows.n), numbers, middle);
    const auto [values, indices] = sorted_rows(rows, false);
    return placed_back(rows, values.gather(-1, rank), indices.gather(-1, rank));
  }
  return picked(rows, false, 1, [&](const auto* row, auto first, auto last, auto less) {
    std::int64_t numbers = 0;
    for (std::int64_t i = 0; i < rows.n; ++i) numbers += row[i] == row[i];
    const auto at = first + median_rank(numbers, rows.n, skip);
    std::nth_element(first, at, last, less);
    std::iter_swap(first, at);
  });
}
Pair medians(const char* op, const Tensor& x, std::int64_t dim, bool keep, bool skip) {
  const Rows rows = rows_of(op, x, dim);
  TORCH_CHECK_INDEX(rows.n > 0, op, ": no values along dimension ", dim);
  const Pair found = found_medians(rows, skip);
  if (keep && x.dim() > 0) return found;
  return {std::get<0>(found).squeeze(rows.dim), std::get<1>(found).squeeze(rows.dim)};
}
template <bool skip>
OutPair median_dim_out(const Tensor& x, std::int64_t dim, bool keep, Tensor& values, Tensor& indices) {
  return into(medians(skip ? "aten::nanmedian" : kMedian, x, dim, keep, skip), values, indices);
}
template <bool skip>
Tensor median(const Tensor& x) {
  constexpr const char* op = skip ? "aten::nanmedian" : kMedian;
  require_computed(op, x.scalar_type());
  if (x.numel() == 0) return new_tensor({}, x.scalar_type()).fill_(std::numeric_limits<float>::quiet_NaN());
  return std::get<0>(medians(op, x.reshape({-1}), 0, false, skip));
}

}  // namespace

std::vector<Entry> rank_operators() {
  constexpr std::string_view rank = "1: ranks of a stable sort, NaN last";
  constexpr std::string_view order = "1: a stable sort, NaN last";
  return {
      certify_on_device<sort_stable, kIntegersByStock>(kSort, "stable", order),
      certify_on_device<sort_stable_out, kIntegersByStockAndOut>(kSort, "values_stable", order),
      certify<topk>(kTop, "", rank),
      certify<topk_out>(kTop, "values", rank),
      certify<kthvalue_out>(kKth, "values", rank),
      certify<median<false>>(kMedian, "", rank),
      certify<median_dim_out<false>>(kMedian, "dim_values", rank),
      certify<median<true>>("aten::nanmedian", "", rank),
      certify<median_dim_out<true>>("aten::nanmedian", "dim_values", rank),
  };
}

}  // namespace isobit::aten
