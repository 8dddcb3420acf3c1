// One product of a batch, and how its tiles become outputs (contract, section 3).
#pragma once

#include "kernels/cpu/vector/packing.h"
#include "kernels/matmul.h"
#include "kernels/tuning.h"

namespace isobit::kernels::ISOBIT_ISA {
namespace {

ISOBIT_INLINE std::int64_t smaller(std::int64_t a, std::int64_t b) { return a < b ? a : b; }

// What is worked on together, in whole tiles.
struct Blocks {
  std::int64_t rows;     // packed rows of a leaf stay in the L2 cache
  std::int64_t columns;  // bounds packed columns and, with the rows at a time of long sums, the tree's buffers

  std::int64_t leaves;  // of both, packed together where rows are many; a power of two

  [[nodiscard]] std::int64_t tree_rows() const { return 24 * rows; }
};

Blocks blocks_of(const Tuning& sizes) {
  const std::int64_t tiles = sizes.product_rows / kTileRows, panels = sizes.product_columns / kTileColumns;
  std::int64_t leaves = 1;
  while (leaves * 2 <= sizes.product_leaves) leaves *= 2;
  return {(tiles > 1 ? tiles : 1) * kTileRows, (panels > 1 ? panels : 1) * kTileColumns, leaves};
}

// One product of a batch, seen so that columns are the side to put in lanes.
struct Product {
  std::int64_t m, n, k;
  const float *a, *b, *d;  // d: addend or nullptr
  float* c;
  std::int64_t a_row, a_k, b_k, b_column, d_row, d_column, c_row, c_column;
  float alpha, beta;
};

Product member(const MatmulProblem& p, std::int64_t batch) {
  const float* d = p.addend.data == nullptr ? nullptr : p.addend.data + batch * p.addend.batch_stride;
  return {p.m,
          p.n,
          p.k,
          p.a.data + batch * p.a.batch_stride,
          p.b.data + batch * p.b.batch_stride,
          d,
          p.c + batch * p.c_batch_stride,
          p.a.row_stride,
          p.a.column_stride,
          p.b.row_stride,
          p.b.column_stride,
          p.addend.row_stride,
          p.addend.column_stride,
          p.c_row_stride,
          p.c_column_stride,
          p.alpha,
          p.beta};
}

// C' = B' A': the same terms in the same order, factors exchanged.
Product transposed(const Product& p) {
  return {p.n,   p.m,     p.k,        p.b,     p.a,        p.d,     p.c,     p.b_column, p.b_k,
          p.a_k, p.a_row, p.d_column, p.d_row, p.c_column, p.c_row, p.alpha, p.beta};
}

// The addend of one row's outputs from j, as lanes: count of them.
ISOBIT_INLINE FloatLanes addend_lanes(const Product& p, const float* d, std::int64_t count) {
  if (p.d_column == 0) return FloatLanes(*d);
  if (p.d_column == 1) return load_first(d, count);
  alignas(64) float lanes[kLanes] = {};
  for (std::int64_t l = 0; l < count; ++l) lanes[l] = d[l * p.d_column];
  return load(lanes);
}

// store_tile without factors, of whole vectors that lie as the outputs do: most tiles of most products.
ISOBIT_INLINE void store_whole(const Product& p, std::int64_t i, std::int64_t rows, std::int64_t j,
                               std::int64_t columns, const float* tile) {
  float* c = p.c + i * p.c_row + j;
  if (p.d == nullptr) {
    for (std::int64_t r = 0; r < rows; ++r, c += p.c_row, tile += kTileColumns)
      for (std::int64_t l = 0; l < columns; l += kLanes) store(c + l, load(tile + l));
    return;
  }
  const float* d = p.d + i * p.d_row + j;
  for (std::int64_t r = 0; r < rows; ++r, c += p.c_row, d += p.d_row, tile += kTileColumns)
    for (std::int64_t l = 0; l < columns; l += kLanes) store(c + l, load(d + l) + load(tile + l));
}
ISOBIT_INLINE bool stores_whole(const Product& p, std::int64_t columns) {
  return columns % kLanes == 0 && p.c_column == 1 && p.alpha == 1.0f &&
         (p.d == nullptr || (p.d_column == 1 && p.beta == 1.0f));
}

// A tile of sums (a chain's end, never -0) to outputs: factors and addends, then stores. The tile is used up.
void store_tile(const Product& p, std::int64_t i, std::int64_t rows, std::int64_t j, std::int64_t columns,
                float* tile) {
  if (stores_whole(p, columns)) return store_whole(p, i, rows, j, columns, tile);
  const bool turned = p.c_row == 1 && p.c_column != 1;
  for (std::int64_t r = 0; (!turned || p.d != nullptr || p.alpha != 1.0f) && r < rows; ++r) {
    float* row = tile + r * kTileColumns;
    float* c = p.c + (i + r) * p.c_row + j * p.c_column;
    const float* d = p.d == nullptr ? nullptr : p.d + (i + r) * p.d_row + j * p.d_column;
    for (std::int64_t l = 0; l < columns; l += kLanes) {
      const std::int64_t count = smaller(kLanes, columns - l);
      FloatLanes value = load(row + l);
      if (p.alpha != 1.0f) value = FloatLanes(p.alpha) * value;
      if (d != nullptr) {
        FloatLanes addend = addend_lanes(p, d + l * p.d_column, count);
        if (p.beta != 1.0f) addend = FloatLanes(p.beta) * addend;
        value = addend + value;
      }
      if (p.c_column != 1) {
        store(row + l, value);
      } else if (count == kLanes) {
        store(c + l, value);
      } else {
        store_first(c + l, value, count);
      }
    }
    for (std::int64_t l = 0; !turned && p.c_column != 1 && l < columns; ++l) c[l * p.c_column] = row[l];
  }
  if (turned) store_transposed(tile, rows, columns, p.c_column, p.c + i + j * p.c_column);
}

}  // namespace
}  // namespace isobit::kernels::ISOBIT_ISA
