#include "aten/turned_copy.h"

#include <ATen/EmptyTensor.h>
#include <c10/core/impl/LocalDispatchKeySet.h>

#include <algorithm>
#include <numeric>
#include <optional>

#include "kernels/threads.h"

namespace isobit::aten {
namespace {

using at::Tensor;

constexpr std::int64_t kFewest = 2048;  // elements; fewer are quickly copied by anybody

// With memory of its own: nothing that another dispatch key stands for, as a subclass or a batch of vmap.
bool is_dense_float(const Tensor& t) {
  using c10::DispatchKey;
  constexpr c10::DispatchKeySet plain(
      {DispatchKey::CPU, DispatchKey::AutogradCPU, DispatchKey::AutocastCPU, DispatchKey::ADInplaceOrView});
  return t.layout() == at::kStrided && plain.has_all(t.key_set()) && t.scalar_type() == at::kFloat &&
         t.is_non_overlapping_and_dense();
}

// Blocks of [rows, columns], row-major in `to`, column-major in `from`.
struct Turned {
  std::int64_t blocks = 1, rows = 1, columns = 1;
};

// Of strides of `from` in the order in which `to` lies in memory, dimensions of one left out.
std::optional<Turned> turned(const Tensor& to, const Tensor& from) {
  at::DimVector order(static_cast<std::size_t>(to.dim()));
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](auto a, auto b) { return to.stride(a) > to.stride(b); });
  at::DimVector sizes, strides;  // neighbours that `from` has side by side, too, are one
  for (const std::int64_t d : order) {
    const std::int64_t size = to.size(d), stride = from.stride(d);
    if (size == 1) continue;
    if (!sizes.empty() && strides.back() == size * stride) {
      sizes.back() *= size, strides.back() = stride;
    } else {
      sizes.push_back(size), strides.push_back(stride);
    }
  }
  const std::size_t n = sizes.size();
  if (n != 2 && n != 3) return {};
  const Turned t{n == 3 ? sizes[0] : 1, sizes[n - 2], sizes[n - 1]};
  const bool changed_places =
      strides[n - 2] == 1 && strides[n - 1] == t.rows && (n == 2 || strides[0] == t.rows * t.columns);
  return changed_places ? std::optional(t) : std::nullopt;
}

// A tile of up to kRows x kColumns is read along the rows and written along the columns.
constexpr std::int64_t kRows = 64, kColumns = 16;
void copy_tile(const Turned& t, std::int64_t row, std::int64_t column, const float* from, float* to) {
  const std::int64_t rows = std::min(kRows, t.rows - row), columns = std::min(kColumns, t.columns - column);
  from += column * t.rows + row, to += row * t.columns + column;
  if (columns == kColumns) {
    for (std::int64_t r = 0; r < rows; ++r) {
      for (std::int64_t c = 0; c < kColumns; ++c) to[r * t.columns + c] = from[c * t.rows + r];
    }
    return;
  }
  for (std::int64_t r = 0; r < rows; ++r) {
    for (std::int64_t c = 0; c < columns; ++c) to[r * t.columns + c] = from[c * t.rows + r];
  }
}

}  // namespace

bool turned_copy(const Tensor& to, const Tensor& from) {
  if (from.numel() < kFewest || to.sizes() != from.sizes() || !is_dense_float(to) || !is_dense_float(from) ||
      to.is_alias_of(from))
    return false;
  const std::optional<Turned> t = turned(to, from);
  if (!t) return false;
  const float* const source = from.const_data_ptr<float>();
  float* const target = to.mutable_data_ptr<float>();
  const std::int64_t across = (t->rows + kRows - 1) / kRows, down = (t->columns + kColumns - 1) / kColumns,
                     tiles = across * down, size = t->rows * t->columns;
  kernels::parallel_for(0, t->blocks * tiles, 16, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) {
      const std::int64_t block = i / tiles, tile = i % tiles;
      copy_tile(*t, tile / down * kRows, tile % down * kColumns, source + block * size, target + block * size);
    }
  });
  return true;
}

Tensor in_row_major(const Tensor& x) {
  if (x.is_contiguous()) return x;
  // Where autograd still has to see it, it does.
  const bool recorded =
      x.requires_grad() && !c10::impl::tls_local_dispatch_key_set().excluded_.has(c10::DispatchKey::AutogradCPU);
  if (recorded || x.numel() < kFewest || !is_dense_float(x)) return x.contiguous();
  const Tensor y(at::detail::empty_cpu(x.sizes(), at::kFloat));
  return turned_copy(y, x) ? y : x.contiguous();
}

Tensor in_format_of(const Tensor& like, const Tensor& values) {
  if (values.numel() < kFewest || !is_dense_float(values) || like.sizes() != values.sizes() || like.is_contiguous())
    return values;
  if (!like.is_contiguous(at::MemoryFormat::ChannelsLast) && !like.is_contiguous(at::MemoryFormat::ChannelsLast3d))
    return values;
  const Tensor result(at::detail::empty_strided_cpu(like.sizes(), like.strides(), at::kFloat));
  return turned_copy(result, values) ? result : values;
}

}  // namespace isobit::aten
