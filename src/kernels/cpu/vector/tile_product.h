// One leaf of a block of outputs: every tile of packed rows against every panel of packed columns.
#pragma once

#include "kernels/cpu/vector/gathered_microkernel.h"
#include "kernels/cpu/vector/pairwise_tiles.h"

namespace isobit::kernels::ISOBIT_ISA {
namespace {

struct TileBlock {
  std::int64_t rows = 0, columns = 0;  // outputs of this block
  std::int64_t leaf = 0, leaves = 1;   // which leaf, of how many (at least 1; no terms: one empty leaf)
  std::int64_t terms = 0;              // of this leaf
  const float* a = nullptr;            // tile t of rows at a + t * a_tile_stride, [terms][kTileRows]
  std::int64_t a_tile_stride = 0;
  // Instead of a, rows where they lie: row r's term k at in_place + r * in_place_row + in_place_offsets[k].
  const float* in_place = nullptr;
  std::int64_t in_place_row = 0;
  const std::int32_t* in_place_offsets = nullptr;
  const float* b = nullptr;  // panel p of columns at b + p * b_panel_stride, [terms][kTileColumns]
  std::int64_t b_panel_stride = 0;
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

// finish(first row, rows, first column, columns, tile) receives each output once, in the last leaf; a tile is
// [kTileRows][kTileColumns] and may be changed by it.
template <class Finish>
void multiply_leaf(const TileBlock& block, Finish finish) {
  alignas(64) float tile[kTileSize];
  const std::int64_t tiles = row_tiles(block.rows);
  for (std::int64_t j = 0; j < block.columns; j += kTileColumns) {
    const std::int64_t panel = j / kTileColumns;
    const std::int64_t columns = block.columns - j < kTileColumns ? block.columns - j : kTileColumns;
    for (std::int64_t i = 0; i < block.rows; i += kTileRows) {
      const std::int64_t index = i / kTileRows;
      const std::int64_t rows = block.rows - i < kTileRows ? block.rows - i : kTileRows;
      const float* b = block.b + panel * block.b_panel_stride;
      if (block.in_place != nullptr) {
        const float* row[kTileRows];
        for (std::int64_t r = 0; r < rows; ++r) row[r] = block.in_place + (i + r) * block.in_place_row;
        gathered_tile_function(rows, columns)(row, block.in_place_offsets, b, block.terms, tile);
      } else {
        tile_function(rows, columns)(block.a + index * block.a_tile_stride, b, block.terms, tile, kTileColumns);
      }
      float* partial = block.partial + (panel * tiles + index) * kTileSize;
      if (add_leaf(tile, partial, block.level_stride, block.leaf, block.leaves)) finish(i, rows, j, columns, tile);
    }
  }
}

}  // namespace
}  // namespace isobit::kernels::ISOBIT_ISA
