// A product of more rows than are packed at a time: columns packed for a few leaves at once, then rows, and each tile's
// leaves one after the other, so that their sums lie in the first level of the cache. While a tile is computed, a part
// of the panel of columns after its own is fetched into the second level.
#pragma once

#include "contract/platform.h"
#include "kernels/cpu/vector/matmul_product.h"
#include "kernels/cpu/vector/pairwise_tiles.h"
#include "kernels/cpu/vector/tile_product.h"
#include "kernels/dispatch/workspace.h"

namespace isobit::kernels::ISOBIT_ISA {
namespace {

using contract::kLeaf;

// Where the sums of a tile's leaves are kept: levels of tiles, level_stride apart.
struct Parked {
  float* at;
  std::int64_t level_stride;
};

// Leaves [first, end) of `leaves`, as packed together; those of one tile or panel follow each other.
struct LeafGroup {
  std::int64_t first, end, leaves, terms;

  [[nodiscard]] std::int64_t terms_of(std::int64_t leaf) const {
    return leaf < end - 1 ? kLeaf : terms - (end - 1 - first) * kLeaf;
  }
};

// From so many floats of columns on: where the second level of the cache holds all, it pays to pack them while they are
// first multiplied.
constexpr std::int64_t kLargeFloats = 256 * 1024;

// The group's leaves of a tile of rows and columns, and what completes with them. The last leaf of all writes to `out`,
// rows `stride` apart.
void multiply_leaves(const LeafGroup& g, const float* a, const float* b, const float* next, std::int64_t rows,
                     std::int64_t columns, Parked parked, float* out, std::int64_t stride) {
  for (std::int64_t leaf = g.first; leaf < g.end; ++leaf) {
    const bool last = leaf == g.leaves - 1;
    const auto count = static_cast<std::uint64_t>(leaf);
    const std::uint64_t levels = last ? count : count & ~(count + 1);
    float* to = last ? out : parked.at + __builtin_ctzll(count + 1) * parked.level_stride;
    multiply_tile(rows, columns, PackedRows{a}, PanelColumns{b, next, parked.at, parked.level_stride, levels},
                  g.terms_of(leaf), to, last ? stride : kTileColumns);
    a += kLeaf * kTileRows, b += kLeaf * kTileColumns, next += kLeaf * kNextFloats;
  }
}

// Panels do not begin at the same place of a page: rows of many are written side by side.
constexpr std::int64_t kPanelGap = 32;
ISOBIT_INLINE std::int64_t panel_stride(const LeafGroup& g) { return g.terms * kTileColumns + kPanelGap; }

void pack_group_columns(const Product& p, const LeafGroup& g, std::int64_t j0, std::int64_t j1, float* to) {
  const float* from = p.b + g.first * kLeaf * p.b_k + j0 * p.b_column;
  const std::int64_t columns = j1 - j0, stride = panel_stride(g);
  const std::int64_t whole = p.b_column == 1 ? columns / kTileColumns : 0;
  pack_whole_panels(from, p.b_k, g.terms, whole, to, stride);
  for (std::int64_t panel = whole; panel < column_panels(columns); ++panel) {
    const std::int64_t j = panel * kTileColumns;
    pack_columns(from + j * p.b_column, p.b_k, p.b_column, g.terms, smaller(kTileColumns, columns - j),
                 to + panel * stride);
  }
}

void pack_group_rows(const Product& p, const LeafGroup& g, std::int64_t i, std::int64_t rows, float* to) {
  pack_row_tiles(p.a + g.first * kLeaf * p.a_k + i * p.a_row, p.a_k, p.a_row, g.terms, rows, to);
}

// Outputs [i0, i1) x [j0, j1), at most blocks.columns columns, on the calling thread.
void multiply_large(const Product& p, Blocks blocks, std::int64_t i0, std::int64_t i1, std::int64_t j0,
                    std::int64_t j1) {
  Workspace workspace;
  const std::int64_t leaves = p.k > kLeaf ? (p.k + kLeaf - 1) / kLeaf : 1;
  const std::int64_t together = smaller(blocks.leaves, leaves), depth = smaller(p.k, together * kLeaf);
  const std::int64_t panels = column_panels(j1 - j0), tiles = row_tiles(i1 - i0);
  float* a = workspace.floats(row_tiles(blocks.rows) * kTileRows * depth);
  float* b = workspace.floats(panels * (kTileColumns * depth + kPanelGap));
  // Sums of a tile are kept between groups, or used up at once.
  const bool parks = together < leaves;
  const std::int64_t level_stride = (parks ? tiles * panels : 1) * kTileSize;
  float* partial = workspace.floats(tree_levels(leaves) * level_stride);
  alignas(64) float tile[kTileSize];
  for (std::int64_t leaf = 0; leaf < leaves; leaf += together) {
    const std::int64_t end = smaller(leaves, leaf + together);
    const LeafGroup group{leaf, end, leaves, smaller(p.k, end * kLeaf) - leaf * kLeaf};
    const bool last = end == leaves;
    pack_group_columns(p, group, j0, j1, b);
    for (std::int64_t i = i0; i < i1; i += blocks.rows) {
      const std::int64_t block_rows = smaller(blocks.rows, i1 - i);
      pack_group_rows(p, group, i, block_rows, a);
      for (std::int64_t panel = 0; panel < panels; ++panel) {
        const std::int64_t j = j0 + panel * kTileColumns, columns = smaller(kTileColumns, j1 - j);
        const float* own = b + panel * panel_stride(group);
        // The first tiles' terms fetch it; the others, what they have.
        const float* next = panel + 1 < panels ? own + panel_stride(group) : b;
        for (std::int64_t r = 0, index = 0; r < block_rows; r += kTileRows, ++index) {
          const std::int64_t rows = smaller(kTileRows, block_rows - r);
          const bool whole = stores_whole(p, columns);
          const bool direct = whole && p.d == nullptr && columns == lanes_of(columns);
          float* c = whole ? p.c + (i + r) * p.c_row + j : nullptr;
          if (last && whole) fetch_outputs(c, rows, p.c_row);
          const std::int64_t slot = parks ? ((i - i0) / kTileRows + index) * panels + panel : 0;
          multiply_leaves(group, a + index * group.terms * kTileRows, own,
                          index < kTileColumns / kNextFloats ? next + index * group.terms * kNextFloats : own, rows,
                          columns, {partial + slot * kTileSize, level_stride}, direct ? c : tile,
                          direct ? p.c_row : kTileColumns);
          if (last && !direct) store_tile(p, i + r, rows, j, columns, tile);
        }
      }
    }
  }
}

}  // namespace
}  // namespace isobit::kernels::ISOBIT_ISA
