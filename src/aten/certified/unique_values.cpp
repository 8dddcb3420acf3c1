// The different values of a tensor and the commonest: unique, mode (contract, section 1: a stable sort, NaN last).
#include <ATen/WrapDimUtils.h>
#include <ATen/ops/_unique2_native.h>
#include <ATen/ops/_unique_native.h>
#include <ATen/ops/mode_native.h>
#include <ATen/ops/unique_dim_native.h>

#include <algorithm>
#include <limits>
#include <numeric>
#include <tuple>
#include <vector>

#include "aten/certified/support/entry.h"
#include "aten/certified/support/indexed_plan.h"
#include "aten/certified/support/rank_bits.h"
#include "kernels/threads.h"

namespace isobit::aten {
namespace {

using at::Tensor;

// ---- unique

using Three = std::tuple<Tensor, Tensor, Tensor>;

// NaN last; equal values (zeros of both signs among them) in their order.
bool before(float a, float b) { return a != a ? false : b != b || a < b; }

struct Groups {
  std::vector<std::int64_t> order, group,
      first;  // rows sorted; the group of each row; where a group's rows begin in `order`
};
// Values with their indices in the lower half, sorted by the upper one's three digits of 11 bits: a stable sort by
// counting, which takes a fifth of the time of one by comparing.
void sort_by_digits(std::vector<std::uint64_t>& numbers) {
  constexpr int kDigit = 11;
  std::vector<std::uint64_t> others(numbers.size());
  for (int shift = 32; shift < 64; shift += kDigit) {
    const auto digit = [=](std::uint64_t v) { return static_cast<std::size_t>(v >> shift & ((1u << kDigit) - 1)); };
    std::vector<std::size_t> place((1u << kDigit) + 1, 0);
    for (const std::uint64_t v : numbers) ++place[digit(v) + 1];
    for (std::size_t d = 0; d < 1u << kDigit; ++d) place[d + 1] += place[d];
    for (const std::uint64_t v : numbers) others[place[digit(v)]++] = v;
    numbers.swap(others);
  }
}
// As std::stable_sort by before(v[a], v[b]) of 0, 1, ... n - 1.
void sort_values(const float* v, std::vector<std::int64_t>& order) {
  const std::size_t n = order.size();
  if (n > std::numeric_limits<std::uint32_t>::max()) {
    std::stable_sort(order.begin(), order.end(), [v](std::int64_t a, std::int64_t b) { return before(v[a], v[b]); });
    return;
  }
  std::vector<std::uint64_t> numbers(n);
  for (std::size_t i = 0; i < n; ++i) numbers[i] = static_cast<std::uint64_t>(rank_bits(v[i])) << 32 | i;
  n < 4096 ? std::sort(numbers.begin(), numbers.end()) : sort_by_digits(numbers);
  for (std::size_t i = 0; i < n; ++i) order[i] = static_cast<std::int64_t>(numbers[i] & 0xffffffffu);
}

// sort(order) puts 0, 1, ... n - 1 into their order.
template <class Sort, class Same>
Groups groups_of(std::int64_t n, Sort sort, Same same) {
  Groups g;
  g.order.resize(static_cast<std::size_t>(n)), g.group.resize(static_cast<std::size_t>(n));
  std::iota(g.order.begin(), g.order.end(), 0);
  sort(g.order);
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
  const Groups g = groups_of(
      x.numel(), [v](std::vector<std::int64_t>& order) { sort_values(v, order); },
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
      n,
      [&](std::vector<std::int64_t>& order) {
        std::stable_sort(order.begin(), order.end(), [&](std::int64_t a, std::int64_t b) {
          return std::lexicographical_compare(row(a), row(a) + width, row(b), row(b) + width, before);
        });
      },
      [&](std::int64_t a, std::int64_t b) { return std::equal(row(a), row(a) + width, row(b)); });
  at::DimVector sizes(rows.sizes());
  sizes[0] = static_cast<std::int64_t>(g.first.size());
  const Tensor values = write_new(sizes, [&](float* y) {
    for (std::size_t k = 0; k < g.first.size(); ++k)
      std::copy_n(row(g.order[static_cast<std::size_t>(g.first[k])]), width, y + static_cast<std::int64_t>(k) * width);
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
  TORCH_CHECK_INDEX(n > 0 || x.numel() > 0 || given.numel() == 0, "aten::mode: cannot reduce over no elements");
  at::DimVector sizes(x.sizes().slice(0, static_cast<std::size_t>(x.dim() - 1)));
  Tensor values = new_tensor(sizes), index = new_tensor(sizes, at::kLong);
  const float* const from = x.const_data_ptr<float>();
  float* const to = values.mutable_data_ptr<float>();
  std::int64_t* const place = index.mutable_data_ptr<std::int64_t>();
  TORCH_CHECK_INDEX(n > 0 || values.numel() == 0, "aten::mode: cannot reduce over no elements");
  kernels::parallel_for(0, values.numel(), 256 / (n + 1) + 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t r = begin; r < end; ++r) {
      const float* const v = from + r * n;
      const Groups g = groups_of(
          n, [v](std::vector<std::int64_t>& order) { sort_values(v, order); },
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

std::vector<Entry> unique_value_operators() {
  constexpr std::string_view different = "1: stable sort, NaN last; the first of equal values";
  return {
      certify_by_host<unique>("aten::_unique2", "", different),
      certify_by_host<unique_pair>("aten::_unique", "", different),
      certify_by_host<unique_dim>("aten::unique_dim", "", different),
      certify_by_host<mode>("aten::mode", "", "1: the smallest of the commonest values, its last place"),
  };
}

}  // namespace isobit::aten
