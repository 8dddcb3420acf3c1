#include "aten/turned_copy.h"

#include <ATen/EmptyTensor.h>
#include <ATen/core/grad_mode.h>
#include <c10/core/impl/LocalDispatchKeySet.h>

#include <algorithm>
#include <numeric>
#include <optional>

#include "aten/memory_overlap.h"
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

// Blocks of 4 x 4 turned in registers: words are moved, whatever they hold.
using Word4 = float __attribute__((vector_size(16), aligned(4), may_alias));
constexpr std::int64_t kSide = 4;
__attribute__((always_inline)) inline void copy_block(const float* from, std::int64_t from_stride, float* to,
                                                      std::int64_t to_stride) {
  Word4 x[kSide];
#pragma GCC unroll 4
  for (int i = 0; i < kSide; ++i) x[i] = *reinterpret_cast<const Word4*>(from + i * from_stride);
  const Word4 low0 = __builtin_shufflevector(x[0], x[1], 0, 4, 1, 5),
              high0 = __builtin_shufflevector(x[0], x[1], 2, 6, 3, 7),
              low1 = __builtin_shufflevector(x[2], x[3], 0, 4, 1, 5),
              high1 = __builtin_shufflevector(x[2], x[3], 2, 6, 3, 7);
  const Word4 y[kSide] = {
      __builtin_shufflevector(low0, low1, 0, 1, 4, 5), __builtin_shufflevector(low0, low1, 2, 3, 6, 7),
      __builtin_shufflevector(high0, high1, 0, 1, 4, 5), __builtin_shufflevector(high0, high1, 2, 3, 6, 7)};
#pragma GCC unroll 4
  for (int i = 0; i < kSide; ++i) *reinterpret_cast<Word4*>(to + i * to_stride) = y[i];
}

// A tile of up to kRows x kColumns in blocks; those at an end that is no multiple of four copy again what their
// neighbours have copied.
constexpr std::int64_t kRows = 16, kColumns = 16;  // lines of a cache, so few that those a page apart fit it together
void copy_tile(const Turned& t, std::int64_t row, std::int64_t column, const float* from, float* to) {
  const std::int64_t rows = std::min(kRows, t.rows - row), columns = std::min(kColumns, t.columns - column);
  from += column * t.rows + row, to += row * t.columns + column;
  if (rows < kSide || columns < kSide) {
    for (std::int64_t r = 0; r < rows; ++r) {
      for (std::int64_t c = 0; c < columns; ++c) to[r * t.columns + c] = from[c * t.rows + r];
    }
    return;
  }
  for (std::int64_t i = 0; i < rows; i += kSide) {
    const std::int64_t r = std::min(i, rows - kSide);
    for (std::int64_t j = 0; j < columns; j += kSide) {
      const std::int64_t c = std::min(j, columns - kSide);
      copy_block(from + c * t.rows + r, t.rows, to + r * t.columns + c, t.columns);
    }
  }
}

}  // namespace

bool turned_copy(const Tensor& to, const Tensor& from) {
  if (from.numel() < kFewest || to.sizes() != from.sizes() || !is_dense_float(to) || !is_dense_float(from) ||
      may_meet(to, from))
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
  // Where autograd still has to see it, it does: backward, or forward by dual numbers.
  const bool recorded = ((x.requires_grad() && at::GradMode::is_enabled()) || x._fw_grad(0).defined()) &&
                        !c10::impl::tls_local_dispatch_key_set().excluded_.has(c10::DispatchKey::AutogradCPU);
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
