// The weight gradient of one group over a range of leaves of (n, oh, ow).
//
//   dw[o, r] = tree over k of x(k)[r] * dy(k)[o]         r = (ci, kh, kw), k = (n, oh, ow)
//
// Output channels are lanes: dy is transposed into panels [k][kTileColumns] leaf by leaf. Rows are taps: the
// pixels under tap r are the slab from the tap's corner on, so nothing but the padding copy is made of x.
// A range of leaves [l0, l1) that begins at a multiple of a power of two, with at most that many leaves, is a
// subtree of the whole tree: ranges may be computed apart and combined by the same tree.
#pragma once

#include "contract/platform.h"
#include "kernels/conv2d.h"
#include "kernels/cpu/vector/conv_slab.h"
#include "kernels/cpu/vector/gathered_microkernel.h"
#include "kernels/cpu/vector/packing.h"
#include "kernels/cpu/vector/tile_product.h"
#include "kernels/cpu/workspace.h"

namespace isobit::kernels::ISOBIT_ISA {
namespace {

struct WeightGradient {
  Conv2dShape shape;
  Slab slab;                   // one image of one group
  std::int64_t row_step;       // of output rows in the slab
  std::int64_t window;         // leaves whose images are copied at a time
  std::int64_t rows, columns;  // taps (ci, kh, kw) and output channels of a group
  const float *x, *dy;         // of the whole batch
  const std::int64_t* corner;  // [rows]: where tap r of output position (0, 0) lies in the slab

  [[nodiscard]] ISOBIT_INLINE std::int64_t plane() const { return shape.out_h() * shape.out_w(); }
  [[nodiscard]] ISOBIT_INLINE std::int64_t terms() const { return shape.n * plane(); }
  // Tiles of all results of a group, [panel][row tile].
  [[nodiscard]] ISOBIT_INLINE std::int64_t tile_floats() const {
    return column_panels(columns) * row_tiles(rows) * kTileSize;
  }
};

// dy at terms [k0, k0 + terms) for output channels [first, first + lanes): panel[k][kTileColumns].
void pack_output_gradient(const WeightGradient& w, std::int64_t first, std::int64_t lanes, std::int64_t k0,
                          std::int64_t terms, float* panel) {
  const std::int64_t plane = w.plane();
  for (std::int64_t k = k0; k < k0 + terms;) {
    const std::int64_t n = k / plane, position = k % plane;
    const std::int64_t left = k0 + terms - k, count = plane - position < left ? plane - position : left;
    pack_panel<kTileColumns>(w.dy + (n * w.shape.co + first) * plane + position, 1, plane, count, lanes,
                             panel + (k - k0) * kTileColumns);
    k += count;
  }
}

// Offsets in the slab, whose first image is `first_image`, of output positions [k0, k0 + terms).
void position_offsets(const WeightGradient& w, std::int64_t first_image, std::int64_t k0, std::int64_t terms,
                      std::int32_t* offsets) {
  const std::int64_t plane = w.plane(), out_w = w.shape.out_w(), out_h = w.shape.out_h();
  std::int64_t n = k0 / plane, i = k0 % plane / out_w, j = k0 % out_w;
  for (std::int64_t k = 0; k < terms; ++k) {
    offsets[k] = static_cast<std::int32_t>((n - first_image) * w.slab.image + i * w.row_step + j);
    if (++j < out_w) continue;
    j = 0;
    if (++i < out_h) continue;
    i = 0, ++n;
  }
}

// A finished tile to dw [columns][rows].
ISOBIT_INLINE void store_gradient(const WeightGradient& w, std::int64_t p, std::int64_t t, const float* tile,
                                  float* dw) {
  const std::int64_t rows = w.rows - t * kTileRows, columns = w.columns - p * kTileColumns;
  store_transposed(tile, rows < kTileRows ? rows : kTileRows, columns < kTileColumns ? columns : kTileColumns,
                   w.rows, dw + p * kTileColumns * w.rows + t * kTileRows);
}

// Leaves [l0, l1) (l1 > l0, or both 0: no terms) of `group`, row tiles [tile0, tile1). With `results` the
// subtree's value, one tile after the other ([panel][row tile] of the whole group); without, it is the whole
// tree and goes to dw.
void weight_gradient_leaves(const WeightGradient& w, std::int64_t group, std::int64_t l0, std::int64_t l1,
                            std::int64_t tile0, std::int64_t tile1, float* results, float* dw) {
  using contract::kLeaf;
  Workspace workspace;
  const std::int64_t plane = w.plane(), all = w.terms(), panels = column_panels(w.columns);
  const std::int64_t tiles = tile1 - tile0, level_stride = panels * tiles * kTileSize;
  float* partial = workspace.floats(tree_levels(l1 - l0) * level_stride);
  float* panel = workspace.floats(kLeaf * kTileColumns);
  std::int32_t* offsets = workspace.ints(kLeaf);
  float* slab = workspace.floats(((w.window * kLeaf - 1) / plane + 2) * w.slab.image);
  alignas(64) float tile[kTileSize];
  std::int64_t first_image = 0;
  for (std::int64_t leaf = l0; leaf < l1; ++leaf) {
    const std::int64_t k0 = leaf * kLeaf, terms = all - k0 < kLeaf ? all - k0 : kLeaf;
    if ((leaf - l0) % w.window == 0) {
      const std::int64_t end = leaf + w.window < l1 ? (leaf + w.window) * kLeaf : l1 * kLeaf;
      first_image = k0 / plane;
      const std::int64_t images = ((end < all ? end : all) - 1) / plane + 1 - first_image;
      const Conv2dShape& s = w.shape;
      fill_slab(w.slab, w.x + (first_image * s.ci + group * w.slab.channels) * s.h * s.w, images,
                s.ci * s.h * s.w, s.h, s.w, s.pad_h, s.pad_w, slab);
    }
    position_offsets(w, first_image, k0, terms, offsets);
    for (std::int64_t p = 0; p < panels; ++p) {
      const std::int64_t columns =
          w.columns - p * kTileColumns < kTileColumns ? w.columns - p * kTileColumns : kTileColumns;
      pack_output_gradient(w, group * w.columns + p * kTileColumns, columns, k0, terms, panel);
      for (std::int64_t t = tile0; t < tile1; ++t) {
        const std::int64_t rows = w.rows - t * kTileRows < kTileRows ? w.rows - t * kTileRows : kTileRows;
        const float* row[kTileRows];
        for (std::int64_t r = 0; r < rows; ++r) row[r] = slab + w.corner[t * kTileRows + r];
        gathered_tile_function(rows, columns)(row, offsets, panel, terms, tile);
        const std::int64_t own = (p * tiles + t - tile0) * kTileSize;
        if (!add_leaf(tile, partial + own, level_stride, leaf - l0, l1 - l0)) continue;
        if (results == nullptr) {
          store_gradient(w, p, t, tile, dw);
          continue;
        }
        float* result = results + (p * row_tiles(w.rows) + t) * kTileSize;
        for (int i = 0; i < kTileSize; i += kLanes) store(result + i, load(tile + i));
      }
    }
  }
}

// Ranges' results (range_stride apart) combined by the tree and written to dw [columns][rows] for one tile.
void finish_weight_gradient(const WeightGradient& w, std::int64_t p, std::int64_t t, const float* results,
                            std::int64_t ranges, std::int64_t range_stride, float* dw) {
  alignas(64) float tile[kTileSize];
  alignas(64) float partial[40 * kTileSize];
  const float* own = results + (p * row_tiles(w.rows) + t) * kTileSize;
  for (std::int64_t range = 0; range < ranges; ++range) {
    for (int i = 0; i < kTileSize; i += kLanes) store(tile + i, load(own + range * range_stride + i));
    add_leaf(tile, partial, kTileSize, range, ranges);
  }
  store_gradient(w, p, t, tile, dw);
}

}  // namespace
}  // namespace isobit::kernels::ISOBIT_ISA
