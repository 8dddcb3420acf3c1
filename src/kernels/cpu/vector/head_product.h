// A product with 33 to 64 columns, as of attention's heads, with 16 lanes: tiles of 6 rows by all columns, four
// vectors. A row's factor is read once, where it lies, and meets all columns, so rows need no packing; tiles of 14 x 2
// would read it twice, and rows that lie side by side from lines that a cache has lost meanwhile.
#pragma once

#include "contract/platform.h"
#include "kernels/cpu/vector/matmul_product.h"
#include "kernels/cpu/vector/pairwise_tiles.h"
#include "kernels/dispatch/workspace.h"

namespace isobit::kernels::ISOBIT_ISA {
namespace {

constexpr int kHeadVectors = 4, kHeadRows = 6, kHeadColumns = kHeadVectors * kLanes;
constexpr std::int64_t kHeadStep = 128;  // columns are read in place where a term's lie no more floats from the next's
constexpr std::int64_t kHeadTerms = 4 * contract::kLeaf;  // all columns' terms pass for each tile of rows: half a MiB

ISOBIT_INLINE bool is_head(const Product& p, std::int64_t columns) {
  return kLanes == 16 && columns > 2 * kLanes && columns <= kHeadColumns && p.k <= kHeadTerms && p.b_column == 1 &&
         (p.a_k == 1 || p.a_row == 1);
}

template <class Rows, int kRows = kHeadRows>
ISOBIT_INLINE void head_tile(std::int64_t rows, Rows a, StridedColumns b, std::int64_t terms, float* out,
                             std::int64_t stride) {
  if (rows == kRows)
    tile_leaf<Rows, StridedColumns, FloatLanes, kRows, kHeadVectors>(a, b, terms, out, stride);
  else if constexpr (kRows > 1)
    head_tile<Rows, kRows - 1>(rows, a, b, terms, out, stride);
}

// What a head's tiles share. columns: read in place, or copied to one panel.
struct Head {
  std::int64_t leaves, j, columns;
  const float* b;
  std::int64_t b_k;
  bool direct;  // whole vectors of one leaf, which go to the outputs from registers
};

void head_rows(const Product& p, const Head& h, std::int64_t i, std::int64_t rows, float* partial) {
  constexpr std::int64_t kSize = kHeadRows * kHeadColumns;
  alignas(64) float tile[kSize];
  float* out = h.direct ? p.c + i * p.c_row + h.j : tile;
  const std::int64_t stride = h.direct ? p.c_row : kHeadColumns;
  for (std::int64_t leaf = 0; leaf < h.leaves; ++leaf) {
    const std::int64_t k0 = leaf * contract::kLeaf, terms = smaller(contract::kLeaf, p.k - k0);
    const float* a = p.a + i * p.a_row + k0 * p.a_k;
    const StridedColumns b{h.b + k0 * h.b_k, h.b_k};
    if (p.a_k == 1)
      head_tile(rows, RowsAlongK{a, p.a_row}, b, terms, out, stride);
    else
      head_tile(rows, StridedRows{a, p.a_k}, b, terms, out, stride);
    if (!h.direct) (void)add_leaf(tile, partial, kSize, leaf, h.leaves, rows * kHeadColumns);
  }
  if (h.direct) return;
  alignas(64) float half[kHeadRows * kTileColumns];  // as store_tile takes them
  for (std::int64_t first = 0; first < h.columns; first += kTileColumns) {
    for (std::int64_t r = 0; r < rows; ++r)
      for (int l = 0; l < kTileColumns; l += kLanes)
        store(half + r * kTileColumns + l, load(tile + r * kHeadColumns + first + l));
    store_tile(p, i, rows, h.j + first, smaller(kTileColumns, h.columns - first), half);
  }
}

// Outputs [i0, i1) x [j0, j1) of columns that is_head().
void multiply_head(const Product& p, std::int64_t i0, std::int64_t i1, std::int64_t j0, std::int64_t j1) {
  Workspace workspace;
  Head h{
      p.k > contract::kLeaf ? (p.k + contract::kLeaf - 1) / contract::kLeaf : 1, j0, j1 - j0, p.b + j0, p.b_k, false};
  h.direct = h.leaves == 1 && h.columns == kHeadColumns && p.c_column == 1 && p.d == nullptr && p.alpha == 1.0f;
  float* partial = workspace.floats(tree_levels(h.leaves) * kHeadRows * kHeadColumns);
  if (h.columns < kHeadColumns || p.b_k > kHeadStep) {
    float* panel = workspace.floats(p.k * kHeadColumns);
    for (std::int64_t k = 0; k < p.k; ++k)
      for (int v = 0; v < kHeadVectors; ++v) {
        const std::int64_t first = v * kLanes, count = smaller(kLanes, h.columns - first);
        const float* from = h.b + k * p.b_k + first;
        store(panel + k * kHeadColumns + first, count >= kLanes ? load(from)
                                                : count > 0     ? load_first(from, count)
                                                                : FloatLanes(0.0f));
      }
    h.b = panel, h.b_k = kHeadColumns;
  }
  const std::int64_t tiles = (i1 - i0 + kHeadRows - 1) / kHeadRows;
  for (std::int64_t t = 0, i = i0; t < tiles; ++t) {  // of about the same height
    const std::int64_t end = i0 + (i1 - i0) * (t + 1) / tiles;
    head_rows(p, h, i, end - i, partial);
    i = end;
  }
}

}  // namespace
}  // namespace isobit::kernels::ISOBIT_ISA
