// One leaf of a block of outputs: every tile of packed rows against every panel of packed columns.
#pragma once

#include <algorithm>

#include "contract/platform.h"
#include "kernels/cpu/vector/gemm_microkernel.h"
#include "kernels/cpu/vector/pairwise_tiles.h"

namespace isobit::kernels::ISOBIT_ISA {
namespace {

// Fetches rows that are packed next into the second level of the cache, a few with each tile of `terms` terms, at most
// a leaf's: what lies in `runs` runs, `step` floats apart, of `length` floats each.
class RowFetch {
 public:
  RowFetch() = default;
  RowFetch(const float* from, std::int64_t step, std::int64_t runs, std::int64_t length, std::int64_t terms)
      : next_(from), rest_(runs) {
    const std::int64_t each = (length + 15) / 16, lines = terms < kMostLines ? terms : kMostLines;
    together_ = each > 0 ? lines / each : 0;
    if (together_ < 1 || step < 0 || step >= (std::int64_t{1} << 30) / together_) rest_ = 0;  // offsets are int32
    if (rest_ == 0) return;
    step_ = together_ * step;
    const std::int64_t times = terms / lines;  // that each line is named
    std::int64_t at = 0;
    for (std::int64_t run = 0; run < together_; ++run)
      for (std::int64_t line = 0; line < each; ++line)
        for (std::int64_t i = 0; i < times; ++i) lines_[at++] = static_cast<std::int32_t>(run * step + line * 16);
    std::fill(lines_ + at, lines_ + terms, 0);
  }
  [[nodiscard]] bool any() const { return rest_ > 0; }
  // For one tile.
  PanelColumns take(const float* panel) {
    const PanelColumns columns{panel, next_, lines_, {}, 0};
    next_ += step_, rest_ -= together_;
    return columns;
  }

 private:
  static constexpr std::int64_t kMostLines = 128;
  const float* next_ = nullptr;
  std::int64_t rest_ = 0, together_ = 0, step_ = 0;
  std::int32_t lines_[contract::kLeaf];
};

struct TileBlock {
  RowFetch* rows_ahead = nullptr;      // where not null, with kMatrix and packed rows
  std::int64_t rows = 0, columns = 0;  // outputs of this block
  std::int64_t leaf = 0, leaves = 1;   // which leaf, of how many (at least 1; no terms: one empty leaf)
  std::int64_t terms = 0;              // of this leaf
  const float* a = nullptr;            // tile t of rows at a + t * a_tile_stride, [terms][kTileRows]
  std::int64_t a_tile_stride = 0;
  // Instead of a, rows where they lie: row r's term k at in_place + r * in_place_row + k * in_place_k, one of the two
  // steps 1.
  const float* in_place = nullptr;
  std::int64_t in_place_row = 0, in_place_k = 0;
  // Panel p of columns at b + p * b_panel_stride, [terms][kTileColumns]. A stride of 0: each is packed where the one
  // before was, which the caches still hold.
  float* b = nullptr;
  std::int64_t b_panel_stride = 0;
  bool to_pack = false;  // panels are packed as they are come to
  // Instead, with rows in place, the first `b_in_place` panels where they lie: panel p's term k at
  // b_rows + p * kTileColumns + k * b_k.
  const float* b_rows = nullptr;
  std::int64_t b_in_place = 0, b_k = 0;
  // Where not null, with packed rows, or with kMatrix: whole panels are still to be packed; their first tile is
  // computed from b_unpacked + p * kTileColumns + k * b_k, and writes them to b.
  const float* b_unpacked = nullptr;
  // Where not null, of one leaf: outputs of whole vectors go there, not to finish; row r's first at direct + r *
  // direct_row.
  float* direct = nullptr;
  std::int64_t direct_row = 0;
  bool direct_far = false;        // so many outputs that their lines are fetched before a tile is computed
  float* partial = nullptr;       // tree_levels(leaves) * level_stride floats, kept between leaves
  std::int64_t level_stride = 0;  // at least tiles(rows, columns) * kTileSize
};

ISOBIT_INLINE std::int64_t row_tiles(std::int64_t rows) { return (rows + kTileRows - 1) / kTileRows; }
// Rows of each tile but the last: about the same, for a last one of two would take nearly as long as a full one.
ISOBIT_INLINE std::int64_t tile_height(std::int64_t rows) {
  if (rows <= kTileRows) return rows;
  const std::int64_t tiles = row_tiles(rows);
  return (rows + tiles - 1) / tiles;
}
ISOBIT_INLINE std::int64_t column_panels(std::int64_t columns) { return (columns + kTileColumns - 1) / kTileColumns; }

// The lines of outputs that a tile will write.
ISOBIT_INLINE void fetch_outputs(const float* c, std::int64_t rows, std::int64_t stride) {
  for (std::int64_t r = 0; r < rows; ++r)
    for (int l = 0; l < kTileColumns; l += 16) __builtin_prefetch(c + r * stride + l, 1);
}

// pack(first column, columns, panel) packs a panel. finish(first row, rows, first column, columns, tile) receives each
// output once, in the last leaf; a tile is [kTileRows][kTileColumns] and may be changed by it.
// kMatrix: columns may be packed by rows in place that lie along k, and rows_ahead is fetched; each costs compile time.
template <bool kMatrix = false, class Pack, class Finish>
void multiply_leaf(const TileBlock& block, Pack pack, Finish finish) {
  alignas(64) float tile[kTileSize];
  const std::int64_t tiles = row_tiles(block.rows);
  // Rows in place are shared out evenly: a tile of two would take nearly as long as a full one.
  const std::int64_t even = tiles > 0 ? block.rows / tiles : 0, larger = tiles > 0 ? block.rows % tiles : 0;
  for (std::int64_t j = 0; j < block.columns; j += kTileColumns) {
    const std::int64_t panel = j / kTileColumns;
    const std::int64_t columns = block.columns - j < kTileColumns ? block.columns - j : kTileColumns;
    float* b = block.b + panel * block.b_panel_stride;
    const StridedColumns columns_from =
        panel < block.b_in_place ? StridedColumns{block.b_rows + j, block.b_k} : StridedColumns{b, kTileColumns};
    const bool packing = block.b_unpacked != nullptr && columns == kTileColumns;  // by the first tile
    if (block.to_pack && !packing && panel >= block.b_in_place) pack(j, columns, b);
    for (std::int64_t i = 0, index = 0, rows = 0; index < tiles; i += rows, ++index) {
      if (block.in_place != nullptr)
        rows = even + (index < larger ? 1 : 0);
      else
        rows = block.rows - i < kTileRows ? block.rows - i : kTileRows;
      const bool direct = block.direct != nullptr && columns == lanes_of(columns);
      float* out = direct ? block.direct + i * block.direct_row + j : tile;
      const std::int64_t stride = direct ? block.direct_row : kTileColumns;
      if (direct && block.direct_far) fetch_outputs(out, rows, stride);
      if (packing && i == 0 && kMatrix && block.in_place != nullptr) {
        if constexpr (kMatrix)
          multiply_tile(rows, columns, RowsAlongK{block.in_place + i * block.in_place_row, block.in_place_row},
                        PackingColumns{block.b_unpacked + j, block.b_k, b}, block.terms, out, stride);
      } else if (packing && i == 0) {
        multiply_tile(rows, columns, PackedRows{block.a + index * block.a_tile_stride},
                      PackingColumns{block.b_unpacked + j, block.b_k, b}, block.terms, out, stride);
      } else if (kMatrix && block.in_place == nullptr && block.rows_ahead != nullptr && block.rows_ahead->any()) {
        if constexpr (kMatrix)
          multiply_tile(rows, columns, PackedRows{block.a + index * block.a_tile_stride}, block.rows_ahead->take(b),
                        block.terms, out, stride);
      } else if (block.in_place == nullptr) {
        multiply_tile(rows, columns, PackedRows{block.a + index * block.a_tile_stride}, PackedColumns{b}, block.terms,
                      out, stride);
      } else if (block.in_place_row == 1) {
        multiply_tile(rows, columns, StridedRows{block.in_place + i, block.in_place_k}, columns_from, block.terms, out,
                      stride);
      } else {
        multiply_tile(rows, columns, RowsAlongK{block.in_place + i * block.in_place_row, block.in_place_row},
                      columns_from, block.terms, out, stride);
      }
      if (direct) continue;
      float* partial = block.partial + (panel * tiles + index) * kTileSize;
      if (add_leaf(tile, partial, block.level_stride, block.leaf, block.leaves, rows * kTileColumns))
        finish(i, rows, j, columns, tile);
    }
  }
}

}  // namespace
}  // namespace isobit::kernels::ISOBIT_ISA
