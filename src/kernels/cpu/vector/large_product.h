// A product of more rows than are packed at a time: columns packed for a few leaves at once, then rows, and each tile's
// leaves one after the other, so that their sums lie in the first level of the cache. A panel of columns is packed when
// the first rows come to it, its factors fetched into the second level while the panel before is multiplied; later rows
// fetch the packed panel likewise.
#pragma once

#include <algorithm>

#include "contract/platform.h"
#include "kernels/cpu/vector/matmul_product.h"
#include "kernels/cpu/vector/pairwise_tiles.h"
#include "kernels/cpu/vector/tile_product.h"
#include "kernels/dispatch/workspace.h"

namespace isobit::kernels::ISOBIT_ISA {
namespace {

using contract::kLeaf;

// Leaves [first, end) of `leaves`, as packed together; those of one tile or panel follow each other.
struct LeafGroup {
  std::int64_t first, end, leaves, terms;

  [[nodiscard]] std::int64_t terms_of(std::int64_t leaf) const {
    return leaf < end - 1 ? kLeaf : terms - (end - 1 - first) * kLeaf;
  }
};

// From so many floats of columns on. Where the second level of the cache holds all, no leaves need to be together.
constexpr std::int64_t kLargeFloats = 256 * 1024;

// Rows at a time, at most `most`, in whole tiles and about as many each time: a rest of few would have all columns
// read for it.
std::int64_t even_step(std::int64_t rows, std::int64_t most) {
  const std::int64_t times = (rows + most - 1) / most;
  return row_tiles((rows + times - 1) / times) * kTileRows;
}

// A panel of the group's columns, or what is still to be packed there.
struct GroupPanel {
  float* packed;
  const float* source;  // where not null, whole columns side by side: written to `packed` while they are multiplied
  std::int64_t step;    // from term to term of it
  const float* next;    // next + ahead[term] is fetched
  const std::int32_t* ahead;
};

// Levels of sums that the last of the group's leaves reads or writes, but those that stay with the tile.
ISOBIT_INLINE void fetch_sums(const LeafGroup& g, const LevelSums& sums) {
  const auto count = static_cast<std::uint64_t>(g.end - 1);
  const std::uint64_t touched = g.end == g.leaves ? count : (count & ~(count + 1)) | ((count + 1) & ~count);
  for (std::uint64_t far = touched >> sums.near_levels << sums.near_levels; far != 0; far &= far - 1) {
    const float* at = sums.of(__builtin_ctzll(far));
    for (int i = 0; i < kTileSize; i += 16) __builtin_prefetch(at + i, 1);
  }
}

// The group's leaves of a tile of rows and columns, and what completes with them. The last leaf of all writes to `out`,
// rows `stride` apart.
void multiply_leaves(const LeafGroup& g, const float* a, GroupPanel b, std::int64_t rows, std::int64_t columns,
                     const LevelSums& sums, float* out, std::int64_t stride) {
  fetch_sums(g, sums);
  for (std::int64_t leaf = g.first; leaf < g.end; ++leaf) {
    const bool last = leaf == g.leaves - 1;
    const auto count = static_cast<std::uint64_t>(leaf);
    const std::uint64_t levels = last ? count : count & ~(count + 1);
    float* to = last ? out : sums.of(__builtin_ctzll(count + 1));
    const std::int64_t to_stride = last ? stride : kTileColumns;
    if (b.source != nullptr) {
      multiply_tile(rows, columns, PackedRows{a}, PackingPanelColumns{b.source, b.step, b.packed, sums, levels},
                    g.terms_of(leaf), to, to_stride);
      b.source += kLeaf * b.step;
    } else {
      multiply_tile(rows, columns, PackedRows{a}, PanelColumns{b.packed, b.next, b.ahead, sums, levels},
                    g.terms_of(leaf), to, to_stride);
      b.ahead += kLeaf;
    }
    a += kLeaf * kTileRows, b.packed += kLeaf * kTileColumns;
  }
}

// Outputs of a product that the calling thread computes, at most blocks.columns columns.
class LargeProduct {
 public:
  LargeProduct(const Product& p, Blocks blocks, std::int64_t i0, std::int64_t i1, std::int64_t j0, std::int64_t j1)
      : p_(p), i0_(i0), i1_(i1), j0_(j0), j1_(j1), step_(even_step(i1 - i0, blocks.rows)) {
    leaves_ = p.k > kLeaf ? (p.k + kLeaf - 1) / kLeaf : 1;
    together_ = smaller(blocks.leaves, leaves_);
    panels_ = column_panels(j1 - j0);
    const std::int64_t depth = smaller(p.k, together_ * kLeaf), tiles = row_tiles(i1 - i0);
    packs_first_ = p.b_column == 1 && (i1 - i0 > kManyBlocks * step_ || depth * (p.b_k & -p.b_k) > kSharedSets);
    a_ = workspace_.floats(step_ * depth);
    b_ = workspace_.floats(panels_ * (kTileColumns * depth + kPanelGap));
    // As many tiles as there are beside the one that packs, so that memory is asked for little at a time.
    fetchers_ = std::max<std::int64_t>(1, smaller(step_ / kTileRows - 1, 2 * kPanelLines));
    packed_lines_ = reinterpret_cast<std::int32_t*>(workspace_.floats(2 * fetchers_ * depth));
    source_lines_ = packed_lines_ + fetchers_ * depth;
    // A group's sums are used up at once, but the one that is kept for the groups after it.
    sums_.near_levels = tree_levels(together_);
    sums_.near = workspace_.floats(sums_.near_levels * kTileSize);
    sums_.far_stride = tiles * panels_ * kTileSize;
    kept_ = workspace_.floats((tree_levels(leaves_) - sums_.near_levels) * sums_.far_stride);
  }

  void multiply() {
    for (std::int64_t leaf = 0; leaf < leaves_; leaf += together_) {
      const std::int64_t end = smaller(leaves_, leaf + together_);
      const LeafGroup group{leaf, end, leaves_, smaller(p_.k, end * kLeaf) - leaf * kLeaf};
      list_lines(group);
      if (packs_first_) pack_whole(group);
      for (std::int64_t i = i0_; i < i1_; i += step_) {
        const std::int64_t rows = smaller(step_, i1_ - i);
        pack_row_tiles(p_.a + leaf * kLeaf * p_.a_k + i * p_.a_row, p_.a_k, p_.a_row, group.terms, rows, a_);
        for (std::int64_t panel = 0; panel < panels_; ++panel) multiply_panel(group, i, rows, panel);
      }
    }
  }

 private:
  // Panels do not begin at the same place of a page.
  static constexpr std::int64_t kPanelGap = 32;
  // Where rows are so many that packing is little, columns side by side are packed some panels at a time, which reads
  // more of a page. So are terms that lie a large power of two apart (their number times that power, measured): they
  // would drive each other out of the caches.
  static constexpr std::int64_t kManyBlocks = kLanes == 8 ? 0 : 4, kSharedSets = std::int64_t{1024} * 1024;
  static constexpr int kPanelLines = (kTileColumns + 15) / 16;  // of a term

  [[nodiscard]] std::int64_t panel_stride(const LeafGroup& g) const { return g.terms * kTileColumns + kPanelGap; }

  // The lines of a panel as offsets in floats from its first factor, for each term of each of fetchers_ tiles: where it
  // is packed, and where its factors lie. Of the latter only the first is named where offsets would be too large.
  void list_lines(const LeafGroup& g) {
    const bool along_k = p_.b_k == 1;
    const std::int64_t step = along_k ? p_.b_column : p_.b_k, runs = along_k ? kTileColumns : g.terms;
    const std::int64_t each = along_k ? (g.terms + 15) / 16 : kPanelLines;
    const bool known = (along_k || p_.b_column == 1) && step >= 0 && step < (std::int64_t{1} << 30) / runs;
    for (std::int64_t i = 0; i < fetchers_ * g.terms; ++i) {
      const std::int64_t line = i * kPanelLines / fetchers_;
      packed_lines_[i] = static_cast<std::int32_t>(16 * line);
      source_lines_[i] = known ? static_cast<std::int32_t>(line / each % runs * step + line % each * 16) : 0;
    }
  }

  void pack_whole(const LeafGroup& g) {
    pack_whole_panels(p_.b + g.first * kLeaf * p_.b_k + j0_, p_.b_k, g.terms, (j1_ - j0_) / kTileColumns, b_,
                      panel_stride(g));
  }

  // The group's leaves of a panel for rows [i, i + rows), which are packed.
  void multiply_panel(const LeafGroup& g, std::int64_t i, std::int64_t rows, std::int64_t panel) {
    const std::int64_t j = j0_ + panel * kTileColumns, columns = smaller(kTileColumns, j1_ - j);
    const float* source = p_.b + g.first * kLeaf * p_.b_k + j * p_.b_column;
    GroupPanel first{b_ + panel * panel_stride(g), nullptr, p_.b_k, nullptr, nullptr};
    const bool to_pack = i == i0_ && !(packs_first_ && columns == kTileColumns);
    if (to_pack && p_.b_column == 1 && columns == kTileColumns) first.source = source;
    if (to_pack && first.source == nullptr) pack_columns(source, p_.b_k, p_.b_column, g.terms, columns, first.packed);
    // The first tiles that read the packed panel fetch the one after it; the others, what they have.
    const float* next = to_pack ? source + kTileColumns * p_.b_column : first.packed + panel_stride(g);
    const std::int32_t* lines = to_pack ? source_lines_ : packed_lines_;
    std::int64_t fetched = first.source != nullptr ? -1 : 0;
    for (std::int64_t r = 0; r < rows; r += kTileRows, ++fetched) {
      GroupPanel b = first;
      if (r > 0) b.source = nullptr;
      const bool fetches = panel + 1 < panels_ && fetched < fetchers_;
      b.next = fetches ? next : b.packed, b.ahead = fetches ? lines + fetched * g.terms : packed_lines_;
      multiply_group(g, a_ + r * g.terms, b, i + r, smaller(kTileRows, rows - r), j, columns, panel);
    }
  }

  void multiply_group(const LeafGroup& g, const float* a, const GroupPanel& b, std::int64_t i, std::int64_t rows,
                      std::int64_t j, std::int64_t columns, std::int64_t panel) {
    alignas(64) float tile[kTileSize];
    const bool last = g.end == g.leaves, whole = stores_whole(p_, columns);
    const bool direct = whole && p_.d == nullptr && columns == lanes_of(columns);
    float* c = whole ? p_.c + i * p_.c_row + j : nullptr;
    if (last && whole) fetch_outputs(c, rows, p_.c_row);
    sums_.far = kept_ + ((i - i0_) / kTileRows * panels_ + panel) * kTileSize;
    multiply_leaves(g, a, b, rows, columns, sums_, direct ? c : tile, direct ? p_.c_row : kTileColumns);
    if (last && !direct) store_tile(p_, i, rows, j, columns, tile);
  }

  Workspace workspace_;
  const Product& p_;
  std::int64_t i0_, i1_, j0_, j1_, step_, leaves_, together_, panels_, fetchers_;
  bool packs_first_;
  float *a_, *b_, *kept_;
  std::int32_t *packed_lines_, *source_lines_;
  LevelSums sums_;
};

}  // namespace
}  // namespace isobit::kernels::ISOBIT_ISA
