// Batch normalisation of [n, c] (inner = 1): a channel is a column, a register holds channels.
//
// Of long rows a register of columns needs a line each, columns of a power of two lie in a few sets of a cache: there
// leaves of some columns are copied side by side before their sums are taken, and what has no order goes over whole
// rows.
#pragma once

#include <algorithm>

#include "contract/moments.h"
#include "kernels/cpu/vector/lane_leaf.h"
#include "kernels/dispatch/workspace.h"
#include "kernels/threads.h"

namespace isobit::kernels::ISOBIT_ISA {
namespace {

struct MomentLanes {
  std::int64_t n = 0;
  FloatLanes mean = FloatLanes(0.0f), m2 = FloatLanes(0.0f);
};

ISOBIT_INLINE MomentLanes operator+(const MomentLanes& a, const MomentLanes& b) {  // as contract/moments.h
  const std::int64_t n = a.n + b.n;
  const FloatLanes d = b.mean - a.mean;
  const float q = static_cast<float>(b.n) / static_cast<float>(n), share = static_cast<float>(a.n) * q;
  return {n, fma(d, FloatLanes(q), a.mean), fma(d * d, FloatLanes(share), a.m2 + b.m2)};
}

constexpr std::int64_t kLongRow = 256;  // columns from which a leaf's are copied

// Columns [first, first + width) of a matrix of `columns`, in leaves of rows.
struct ColumnTile {
  static constexpr std::int64_t kWidest = 64, kNarrowest = 16;
  std::int64_t first, width, columns;

  [[nodiscard]] bool copies() const { return columns >= kLongRow; }
  [[nodiscard]] std::int64_t stride() const { return copies() ? (width + kLanes - 1) / kLanes * kLanes : columns; }
  [[nodiscard]] float* space(std::int64_t rows, Workspace& workspace) const {
    return copies() ? workspace.floats(std::min(rows, contract::kLeaf) * stride()) : nullptr;
  }
  // function(number of a register in the tile, its first column in the matrix, Whole or Part)
  template <class Function>
  ISOBIT_INLINE void for_each(Function function) const {
    for_each_register(width, [&](std::int64_t i, auto part) { function(i / kLanes, first + i, part); });
  }
  // Rows [begin, begin + rows), `stride()` apart: in place, or in the space.
  const float* leaf(const float* x, std::int64_t begin, std::int64_t rows, float* space) const {
    const float* const from = x + begin * columns + first;
    for (std::int64_t r = 0; space && r < rows; ++r) copy_loose(from + r * columns, width, space + r * stride());
    return space ? space : from;
  }
};

// function(tile, workspace) for tiles that cover the columns.
template <class Function>
void for_each_tile(std::int64_t rows, std::int64_t columns, Function function) {
  std::int64_t width = ColumnTile::kWidest;
  while (width > ColumnTile::kNarrowest && columns < 2 * width * thread_count()) width /= 2;
  parallel_for(0, (columns + width - 1) / width, rows_worth_a_thread(rows * width),
               [&](std::int64_t begin, std::int64_t end) {
                 for (std::int64_t i = begin; i < end; ++i) {
                   Workspace workspace;
                   function(ColumnTile{i * width, std::min(width, columns - i * width), columns}, workspace);
                 }
               });
}

// moments(first column, Whole or Part, MomentLanes) for each register of the tile's columns.
template <class Function>
void tile_moments(const ColumnTile& tile, const float* x, std::int64_t rows, Workspace& workspace, Function moments) {
  const std::int64_t stride = tile.stride();
  float* const space = tile.space(rows, workspace);
  contract::PairwiseTreeOf<MomentLanes> tree[ColumnTile::kWidest / kLanes];
  for (std::int64_t begin = 0; begin < rows; begin += contract::kLeaf) {
    const std::int64_t n = std::min(contract::kLeaf, rows - begin);
    const float* const leaf = tile.leaf(x, begin, n, space);
    tile.for_each([&](std::int64_t w, std::int64_t, auto part) {
      const float* const column = leaf + w * kLanes;
      FloatLanes sum[1], m2[1];
      const auto add = [&](FloatLanes t, std::int64_t r, int) __attribute__((always_inline)) {
        return t + fetch(column + r * stride, part);
      };
      column_leaf<1>(n, 0.0f, add, Plus{}, sum);
      const FloatLanes mean = sum[0] / FloatLanes(static_cast<float>(n));
      const auto square = [&](FloatLanes t, std::int64_t r, int) __attribute__((always_inline)) {
        const FloatLanes d = fetch(column + r * stride, part) - mean;
        return fma(d, d, t);
      };
      column_leaf<1>(n, 0.0f, square, Plus{}, m2);
      tree[w].add({n, mean, m2[0]});
    });
  }
  tile.for_each([&](std::int64_t w, std::int64_t c, auto part) {
    moments(c, part, rows > 0 ? tree[w].result() : MomentLanes{});
  });
}

// sums(first column, Whole or Part, sum of dy, fma-lane sum of dy * (x - mean)) for each register of the tile's
// columns.
template <class Function>
void tile_gradient_sums(const ColumnTile& tile, const float* x, const float* dy, const float* mean, std::int64_t rows,
                        Workspace& workspace, Function sums) {
  const std::int64_t stride = tile.stride();
  float *const x_space = tile.space(rows, workspace), *const dy_space = tile.space(rows, workspace);
  contract::PairwiseTreeOf<FloatLanes> sum_tree[ColumnTile::kWidest / kLanes], dot_tree[ColumnTile::kWidest / kLanes];
  for (std::int64_t begin = 0; begin < rows; begin += contract::kLeaf) {
    const std::int64_t n = std::min(contract::kLeaf, rows - begin);
    const float *const x_leaf = tile.leaf(x, begin, n, x_space), *const dy_leaf = tile.leaf(dy, begin, n, dy_space);
    tile.for_each([&](std::int64_t w, std::int64_t c, auto part) {
      const FloatLanes center = fetch(mean + c, part);
      const std::int64_t column = w * kLanes;
      FloatLanes sum[1], dot[1];
      const auto add = [&](FloatLanes t, std::int64_t r, int) __attribute__((always_inline)) {
        return t + fetch(dy_leaf + column + r * stride, part);
      };
      const auto add_product = [&](FloatLanes t, std::int64_t r, int) __attribute__((always_inline)) {
        const std::int64_t at = column + r * stride;
        return fma(fetch(dy_leaf + at, part), fetch(x_leaf + at, part) - center, t);
      };
      column_leaf<1>(n, 0.0f, add, Plus{}, sum);
      column_leaf<1>(n, 0.0f, add_product, Plus{}, dot);
      sum_tree[w].add(sum[0]), dot_tree[w].add(dot[0]);
    });
  }
  const FloatLanes zero(0.0f);
  tile.for_each([&](std::int64_t w, std::int64_t c, auto part) {
    sums(c, part, (rows > 0 ? sum_tree[w].result() : zero) + zero, (rows > 0 ? dot_tree[w].result() : zero) + zero);
  });
}

// apply(element, prepare(channel, Whole or Part), Whole or Part) for all registers of channels.
template <class Prepare, class Apply>
void for_each_element(std::int64_t rows, std::int64_t columns, Prepare prepare, Apply apply) {
  if (columns >= kLongRow) {
    return parallel_for(0, rows, rows_worth_a_thread(columns), [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t r = begin; r < end; ++r) {
        for_each_register(columns, [&](std::int64_t c, auto part) { apply(r * columns + c, prepare(c, part), part); });
      }
    });
  }
  constexpr std::int64_t kTogether = 64;  // columns, so that memory is read as it lies
  parallel_for(0, rows, rows_worth_a_thread(columns), [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t first = 0; first < columns; first += kTogether) {
      const std::int64_t width = std::min(kTogether, columns - first);
      decltype(prepare(first, Whole{})) by[kTogether / kLanes];
      for_each_register(width, [&](std::int64_t i, auto part) { by[i / kLanes] = prepare(first + i, part); });
      for (std::int64_t r = begin; r < end; ++r)
        for_each_register(width,
                          [&](std::int64_t i, auto part) { apply(r * columns + first + i, by[i / kLanes], part); });
    }
  });
}

}  // namespace
}  // namespace isobit::kernels::ISOBIT_ISA
