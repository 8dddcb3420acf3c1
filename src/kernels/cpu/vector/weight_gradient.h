// The weight gradient of one group over a range of leaves of (n, oh, ow).
//
//   dw[o, r] = tree over k of x(k)[r] * dy(k)[o]         r = (ci, kh, kw), k = (n, oh, ow)
//
// Output channels are lanes: dy is transposed into panels [k][kTileColumns] leaf by leaf. Rows are taps: the
// pixels under tap r are the slab from the tap's corner on, so nothing but the padding copy is made of x.
// Where padding is worth skipping, a row tile holds channels of one tap, and its terms are the positions under which
// that tap falls inside: the rest multiply a +0 of the padding with a value of dy, which changes nothing where that is
// finite. A panel of dy that is not finite is multiplied in full. A range of leaves [l0, l1) that begins at a multiple
// of a power of two, with at most that many leaves, is a subtree of the whole tree: ranges may be computed apart and
// combined by the same tree.
#pragma once

#include <cstring>

#include "contract/platform.h"
#include "kernels/conv2d.h"
#include "kernels/cpu/vector/all_finite.h"
#include "kernels/cpu/vector/conv_slab.h"
#include "kernels/cpu/vector/gemm_microkernel.h"
#include "kernels/cpu/vector/packing.h"
#include "kernels/cpu/vector/tile_product.h"
#include "kernels/dispatch/workspace.h"

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
  bool skipping;               // row tiles by tap

  [[nodiscard]] ISOBIT_INLINE std::int64_t plane() const { return shape.out_h() * shape.out_w(); }
  [[nodiscard]] ISOBIT_INLINE std::int64_t terms() const { return shape.n * plane(); }
  [[nodiscard]] ISOBIT_INLINE std::int64_t taps() const { return shape.kh * shape.kw; }
  [[nodiscard]] ISOBIT_INLINE std::int64_t channels() const { return slab.channels; }
  [[nodiscard]] ISOBIT_INLINE std::int64_t tiles() const {
    return skipping ? taps() * row_tiles(channels()) : row_tiles(rows);
  }
  // Tiles of all results of a group, [panel][row tile].
  [[nodiscard]] ISOBIT_INLINE std::int64_t tile_floats() const { return column_panels(columns) * tiles() * kTileSize; }

  // Row tile t: `count` rows from first on, each `step` after the other. By tap: the taps of a few channels, which
  // share cache lines, then the next channels; all of nearly one size.
  struct RowTile {
    std::int64_t first, count, step, tap;
  };
  [[nodiscard]] ISOBIT_INLINE RowTile row_tile(std::int64_t t) const {
    if (!skipping) return {t * kTileRows, rows - t * kTileRows < kTileRows ? rows - t * kTileRows : kTileRows, 1, 0};
    const std::int64_t pieces = row_tiles(channels()), tap = t % taps(), piece = t / taps();
    const std::int64_t begin = channels() * piece / pieces, end = channels() * (piece + 1) / pieces;
    return {begin * taps() + tap, end - begin, taps(), tap};
  }
};

// dy at terms [k0, k0 + terms) for output channels [first, first + lanes): panel[k][kTileColumns].
void pack_output_gradient(const WeightGradient& w, std::int64_t first, std::int64_t lanes, std::int64_t k0,
                          std::int64_t terms, float* panel) {
  const std::int64_t plane = w.plane();
  for (std::int64_t k = k0; k < k0 + terms;) {
    const std::int64_t n = k / plane, position = k % plane;
    const std::int64_t left = k0 + terms - k, count = plane - position < left ? plane - position : left;
    pack_columns(w.dy + (n * w.shape.co + first) * plane + position, 1, plane, count, lanes,
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

// Positions of a leaf under which one tap falls inside: where they lie in the slab and in the panel of dy.
struct InsideList {
  std::int64_t count = 0;
  std::int32_t *a_offsets = nullptr, *b_offsets = nullptr;
};

// Output coordinates [begin, end) of an axis for which tap k falls inside.
struct InsideRange {
  std::int64_t begin, end;
};
ISOBIT_INLINE InsideRange inside_range(std::int64_t outputs, std::int64_t inputs, std::int64_t stride, std::int64_t pad,
                                       std::int64_t place) {
  const std::int64_t low = pad - place, high = inputs - 1 + pad - place;  // low <= o * stride <= high
  const std::int64_t begin = low <= 0 ? 0 : (low + stride - 1) / stride, end = high < 0 ? 0 : high / stride + 1;
  return {begin, end < outputs ? end : outputs};
}

// Of output positions [k0, k0 + terms), whose places in the slab are `offsets`. One list per tap.
void list_inside(const WeightGradient& w, std::int64_t k0, std::int64_t terms, const std::int32_t* offsets,
                 InsideList* lists) {
  const Conv2dShape& s = w.shape;
  const std::int64_t plane = w.plane(), out_w = s.out_w();
  for (std::int64_t tap = 0; tap < w.taps(); ++tap) {
    const InsideRange rows = inside_range(s.out_h(), s.h, s.stride_h, s.pad_h, tap / s.kw * s.dilation_h);
    const InsideRange columns = inside_range(out_w, s.w, s.stride_w, s.pad_w, tap % s.kw * s.dilation_w);
    InsideList& list = lists[tap];
    std::int64_t m = 0, i = k0 % plane / out_w;
    for (std::int64_t begin = -(k0 % out_w); begin < terms; begin += out_w) {  // a row of outputs
      if (i >= rows.begin && i < rows.end) {
        const std::int64_t from = begin + columns.begin > 0 ? begin + columns.begin : 0;
        const std::int64_t to = begin + columns.end < terms ? begin + columns.end : terms;
        for (std::int64_t k = from; k < to; ++k, ++m) {
          list.a_offsets[m] = offsets[k];
          list.b_offsets[m] = static_cast<std::int32_t>(k * kTileColumns);
        }
      }
      if (++i == s.out_h()) i = 0;
    }
    list.count = m;
  }
}

// dw of one panel of output channels from its finished row tiles by tap: tiles [channel piece][tap].
void store_by_tap(const WeightGradient& w, std::int64_t p, const float* tiles, float* dw) {
  const std::int64_t taps = w.taps(), pieces = row_tiles(w.channels()), left = w.columns - p * kTileColumns;
  const std::int64_t columns = left < kTileColumns ? left : kTileColumns;
  for (std::int64_t piece = 0; piece < pieces; ++piece) {
    const WeightGradient::RowTile first = w.row_tile(piece * taps);
    for (std::int64_t r = 0; r < first.count; ++r) {
      float* to = dw + p * kTileColumns * w.rows + first.first + r * taps;  // [column][tap], w.rows apart
      const auto row = [&](std::int64_t tap) { return tiles + (piece * taps + tap) * kTileSize + r * kTileColumns; };
      std::int64_t tap = 0;
      for (; tap + 8 <= taps; tap += 8)
        for (std::int64_t c = 0; c < columns; c += 8) {
          const float* from[8];
          for (int i = 0; i < 8; ++i) from[i] = row(tap + i);
          __m256 block[8];
          read_transposed(from, c, block);
          for (std::int64_t i = 0; i < 8 && c + i < columns; ++i)
            _mm256_storeu_ps(to + (c + i) * w.rows + tap, block[i]);
        }
      for (; tap < taps; ++tap)
        for (std::int64_t c = 0; c < columns; ++c) to[c * w.rows + tap] = row(tap)[c];
    }
  }
}

// A finished tile to dw [columns][rows].
ISOBIT_INLINE void store_gradient(const WeightGradient& w, std::int64_t p, std::int64_t t, const float* tile,
                                  float* dw) {
  const std::int64_t rows = w.rows - t * kTileRows, columns = w.columns - p * kTileColumns;
  store_transposed(tile, rows < kTileRows ? rows : kTileRows, columns < kTileColumns ? columns : kTileColumns, w.rows,
                   dw + p * kTileColumns * w.rows + t * kTileRows);
}

// Ranges of `length` leaves each, but the tree's last, whose sums are subtrees of it.
struct LeafRanges {
  std::int64_t first, last, length, leaves;  // ranges [first, last); the tree's leaves
  [[nodiscard]] ISOBIT_INLINE std::int64_t begin(std::int64_t range) const { return range * length; }
  [[nodiscard]] ISOBIT_INLINE std::int64_t end(std::int64_t range) const {
    return (range + 1) * length < leaves ? (range + 1) * length : leaves;
  }
};

// Those ranges of `group`, row tiles [tile0, tile1). With `results` each range's subtree, one tile after the other
// ([range][panel][row tile] of the whole group); without, it is one range, the whole tree, and goes to dw.
void weight_gradient_leaves(const WeightGradient& w, std::int64_t group, const LeafRanges& ranges, std::int64_t tile0,
                            std::int64_t tile1, float* results, float* dw) {
  using contract::kLeaf;
  Workspace workspace;
  const std::int64_t plane = w.plane(), all = w.terms(), panels = column_panels(w.columns);
  const std::int64_t tiles = tile1 - tile0, level_stride = panels * tiles * kTileSize;
  float* partial = workspace.floats(tree_levels(ranges.length) * level_stride);
  float* panel = workspace.floats(kLeaf * kTileColumns);
  std::memset(panel, 0, sizeof(float) * kLeaf * kTileColumns);  // lanes that are not packed stay finite
  std::int32_t* offsets = workspace.ints(kLeaf);
  auto* row_tile = static_cast<WeightGradient::RowTile*>(
      workspace.bytes(sizeof(WeightGradient::RowTile) * static_cast<std::size_t>(tiles)));
  for (std::int64_t t = tile0; t < tile1; ++t) row_tile[t - tile0] = w.row_tile(t);
  InsideList* inside = nullptr;
  if (w.skipping) {
    inside = static_cast<InsideList*>(workspace.bytes(sizeof(InsideList) * static_cast<std::size_t>(w.taps())));
    for (std::int64_t tap = 0; tap < w.taps(); ++tap) inside[tap] = {0, workspace.ints(kLeaf), workspace.ints(kLeaf)};
  }
  float* slab = workspace.floats(((w.window * kLeaf - 1) / plane + 2) * w.slab.image);
  alignas(64) float tile[kTileSize];
  std::int64_t first_image = 0;
  const std::int64_t begin = ranges.begin(ranges.first), stop = ranges.end(ranges.last - 1);
  for (std::int64_t leaf = begin; leaf < stop; ++leaf) {
    const std::int64_t range = leaf / ranges.length, l0 = ranges.begin(range), l1 = ranges.end(range);
    const std::int64_t k0 = leaf * kLeaf, terms = all - k0 < kLeaf ? all - k0 : kLeaf;
    if ((leaf - begin) % w.window == 0) {
      const std::int64_t end = leaf + w.window < stop ? (leaf + w.window) * kLeaf : stop * kLeaf;
      first_image = k0 / plane;
      const std::int64_t images = ((end < all ? end : all) - 1) / plane + 1 - first_image;
      const Conv2dShape& s = w.shape;
      const std::int64_t first = first_image * s.ci + group * w.slab.channels;
      fill_slab(w.slab, images, s.h, s.w, s.pad_h, s.pad_w, slab, [&](std::int64_t n, std::int64_t c) {
        const std::int64_t at = first + n * s.ci + c;
        return s.planes != nullptr ? s.planes[at] : w.x + at * s.h * s.w;
      });
    }
    position_offsets(w, first_image, k0, terms, offsets);
    if (w.skipping) list_inside(w, k0, terms, offsets, inside);
    for (std::int64_t p = 0; p < panels; ++p) {
      const std::int64_t columns =
          w.columns - p * kTileColumns < kTileColumns ? w.columns - p * kTileColumns : kTileColumns;
      pack_output_gradient(w, group * w.columns + p * kTileColumns, columns, k0, terms, panel);
      const bool skip = w.skipping && all_finite(panel, terms * kTileColumns);
      for (std::int64_t t = tile0; t < tile1; ++t) {
        const WeightGradient::RowTile& rows = row_tile[t - tile0];
        const float* row[kTileRows];
        for (std::int64_t r = 0; r < rows.count; ++r) row[r] = slab + w.corner[rows.first + r * rows.step];
        if (skip) {
          const InsideList& list = inside[rows.tap];
          multiply_tile(rows.count, columns, GatheredRows{row, list.a_offsets}, SkippingColumns{panel, list.b_offsets},
                        list.count, tile);
        } else {
          multiply_tile(rows.count, columns, GatheredRows{row, offsets}, PackedColumns{panel}, terms, tile);
        }
        const std::int64_t own = (p * tiles + t - tile0) * kTileSize;
        if (!add_leaf(tile, partial + own, level_stride, leaf - l0, l1 - l0)) continue;
        if (results == nullptr) {
          store_gradient(w, p, t, tile, dw);
          continue;
        }
        float* result = results + (range - ranges.first) * w.tile_floats() + (p * w.tiles() + t) * kTileSize;
        for (int i = 0; i < kTileSize; i += kLanes) store(result + i, load(tile + i));
      }
    }
  }
}

// Ranges' results (range_stride apart) combined by the tree, for panel p: written to dw [columns][rows].
void finish_weight_gradient(const WeightGradient& w, std::int64_t p, float* results, std::int64_t ranges,
                            std::int64_t range_stride, float* dw) {
  alignas(64) float tile[kTileSize];
  alignas(64) float partial[40 * kTileSize];
  for (std::int64_t t = 0; t < w.tiles(); ++t) {
    float* own = results + (p * w.tiles() + t) * kTileSize;
    for (std::int64_t range = 0; range < ranges; ++range) {
      for (int i = 0; i < kTileSize; i += kLanes) store(tile + i, load(own + range * range_stride + i));
      add_leaf(tile, partial, kTileSize, range, ranges);
    }
    if (w.skipping) {
      for (int i = 0; i < kTileSize; i += kLanes) store(own + i, load(tile + i));
    } else {
      store_gradient(w, p, t, tile, dw);
    }
  }
  if (w.skipping) store_by_tap(w, p, results + p * w.tiles() * kTileSize, dw);
}

}  // namespace
}  // namespace isobit::kernels::ISOBIT_ISA
