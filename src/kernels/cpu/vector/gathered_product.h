// Forward convolution and one phase of its input gradient: weights times gathered pixels.
//
//   y[r, n, i, j] = tree over k of weights[r][k] * slab[n * image + i * row_step + j + offsets[k]]   (+
//   bias[r])
//
// Columns of a tile are consecutive positions (n, i, j), whatever row or image they lie in, so small maps
// fill the lanes too. Per panel and leaf the pixels are copied into [k][kTileColumns]; all rows share that
// copy.
#pragma once

#include "contract/platform.h"
#include "kernels/cpu/vector/conv_slab.h"
#include "kernels/cpu/vector/packing.h"
#include "kernels/cpu/vector/pixel_columns.h"
#include "kernels/cpu/vector/tile_product.h"
#include "kernels/dispatch/workspace.h"

namespace isobit::kernels::ISOBIT_ISA {
namespace {

struct GatheredProduct {
  std::int64_t rows = 0, terms = 0;
  const float* weights = nullptr;        // packed [row tile][terms][kTileRows], tile_height rows a tile, or nullptr:
  const float* plain_weights = nullptr;  // where packing would not pay: weights[r][k] at
  std::int64_t weight_row = 0;           // plain_weights + r * weight_row + weight_offsets[k]
  const std::int32_t* weight_offsets = nullptr;
  bool distant = false;                   // neighbouring terms' plain weights lie apart
  const std::int32_t* offsets = nullptr;  // [terms]
  const float* bias = nullptr;            // [rows] or nullptr
  std::int64_t height = 0, width = 0;     // positions of an image
  std::int64_t image = 0, row_step = 0;   // of the slab
  float* y = nullptr;
  std::int64_t y_image = 0, y_plane = 0, y_row = 0, y_column = 1;  // y_plane: from row to row of the product
};

// Lanes [lane, lane + length) of a tile go to y from `target` on.
struct PixelRun {
  std::int64_t lane, length, target;
};

// Where the lanes of a panel come from in the slab and go to in y.
struct PanelPieces {
  struct Copy {
    std::int32_t lane, source;
  };
  Copy copies[kTileColumns + 4];  // of copy_width floats each; what spills over a piece is overwritten
  int copy_count = 0, copy_width = 8;
  PixelRun runs[kTileColumns];
  int run_count = 0;
  std::int64_t lanes = 0;
  bool one_row = false;  // all lanes filled from one row of one image
  PixelPieces pixels;    // the same by vectors
  bool by_tile = false;  // packed by the first tile of rows
};

PanelPieces panel_pieces(const GatheredProduct& p, std::int64_t first, std::int64_t positions) {
  PanelPieces pieces;
  pieces.lanes = positions - first < kTileColumns ? positions - first : kTileColumns;
  pieces.copy_width = p.width <= 4 ? 4 : 8;
  const std::int64_t plane = p.height * p.width;
  std::int64_t n = first / plane, i = first % plane / p.width, j = first % p.width;
  const bool flat = p.y_column == 1 && p.y_row == p.width;  // rows of y follow each other
  for (std::int64_t lane = 0; lane < pieces.lanes;) {
    const std::int64_t left = pieces.lanes - lane;
    const std::int64_t length = p.width - j < left ? p.width - j : left;
    const std::int64_t source = n * p.image + i * p.row_step + j;
    pieces.one_row = length == kTileColumns;
    if (kPacksPixels) pieces.pixels.add(lane, length, source);
    for (std::int64_t l = 0; l < length; l += pieces.copy_width)
      pieces.copies[pieces.copy_count++] = {static_cast<std::int32_t>(lane + l), static_cast<std::int32_t>(source + l)};
    if (flat && lane > 0 && i > 0) {
      pieces.runs[pieces.run_count - 1].length += length;
    } else {
      pieces.runs[pieces.run_count++] = {lane, length, n * p.y_image + i * p.y_row + j * p.y_column};
    }
    lane += length;
    j = 0;
    if (++i == p.height) i = 0, ++n;
  }
  pieces.by_tile = kPacksPixels && p.weights != nullptr && pieces.lanes > kLanes && pieces.pixels.fits;
  return pieces;
}

// panel[k][lane] for terms [0, terms) of `offsets`. Copies go upwards, so that each spill is overwritten by
// the piece or the k that follows.
void pack_pixels(const PanelPieces& pieces, const float* slab, const std::int32_t* offsets, std::int64_t terms,
                 float* panel) {
  if (pieces.one_row) {
    const float* pixels = slab + pieces.copies[0].source;
    for (std::int64_t k = 0; k < terms; ++k, panel += kTileColumns)
      for (int l = 0; l < kTileColumns; l += kLanes) store(panel + l, load(pixels + offsets[k] + l));
    return;
  }
  for (std::int64_t k = 0; k < terms; ++k, panel += kTileColumns) {
    const float* pixels = slab + offsets[k];
    if (pieces.copy_width == 8) {
      for (int c = 0; c < pieces.copy_count; ++c)
        _mm256_storeu_ps(panel + pieces.copies[c].lane, _mm256_loadu_ps(pixels + pieces.copies[c].source));
    } else {
      for (int c = 0; c < pieces.copy_count; ++c)
        _mm_storeu_ps(panel + pieces.copies[c].lane, _mm_loadu_ps(pixels + pieces.copies[c].source));
    }
  }
}

// Rows [first_row, first_row + rows) of a tile with row_floats floats a row: bias added, written to y.
void store_runs(const GatheredProduct& p, const PixelRun* runs, int run_count, std::int64_t first_row,
                std::int64_t rows, std::int64_t row_floats, float* tile) {
  for (std::int64_t r = 0; r < rows; ++r, tile += row_floats) {
    if (p.bias != nullptr) {
      const FloatLanes bias(p.bias[first_row + r]);
      for (std::int64_t l = 0; l < row_floats; l += kLanes) store(tile + l, load(tile + l) + bias);
    }
    float* y = p.y + (first_row + r) * p.y_plane;
    for (int i = 0; i < run_count; ++i) {
      if (p.y_column == 1) {
        copy_floats(y + runs[i].target, tile + runs[i].lane, runs[i].length);
      } else {
        for (std::int64_t l = 0; l < runs[i].length; ++l) y[runs[i].target + l * p.y_column] = tile[runs[i].lane + l];
      }
    }
  }
}

constexpr std::int64_t kPanelsAtOnce = 4;  // share a row tile's weights while those are in the L1 cache

// One leaf of row tiles [tile0, tile1) times `panels` panels of pixels, packed but those that the first tile packs.
// done(q, first row, rows, tile) receives finished tiles.
template <class Done>
void multiply_panels(const GatheredProduct& p, const PanelPieces* pieces, std::int64_t panels, const float* slab,
                     float* pixels, std::int64_t panel_stride, std::int64_t leaf, std::int64_t leaves,
                     std::int64_t tile0, std::int64_t tile1, float* partial, std::int64_t level_stride, Done done) {
  using contract::kLeaf;
  alignas(64) float tile[kTileSize];
  const std::int64_t k0 = leaf * kLeaf, terms = p.terms - k0 < kLeaf ? p.terms - k0 : kLeaf;
  const std::int64_t height = tile_height(p.rows);
  for (std::int64_t t = tile0; t < tile1; ++t) {
    const std::int64_t rows = p.rows - t * height < height ? p.rows - t * height : height;
    const float* row[kTileRows];
    for (std::int64_t r = 0; r < rows && p.weights == nullptr; ++r)
      row[r] = p.plain_weights + (t * height + r) * p.weight_row;
    for (std::int64_t q = 0; q < panels; ++q) {
      float* b = pixels + q * panel_stride;
      if (pieces[q].by_tile && t == tile0) {
        multiply_tile_of_pixels(rows, p.weights + (t * p.terms + k0) * kTileRows, slab, p.offsets + k0,
                                pieces[q].pixels, terms, b, tile);
      } else if (p.weights == nullptr && p.distant) {
        multiply_tile(rows, pieces[q].lanes, DistantRows{{row, p.weight_offsets + k0}}, PackedColumns{b}, terms, tile);
      } else if (p.weights == nullptr) {
        multiply_tile(rows, pieces[q].lanes, GatheredRows{row, p.weight_offsets + k0}, PackedColumns{b}, terms, tile);
      } else {
        multiply_tile(rows, pieces[q].lanes, PackedRows{p.weights + (t * p.terms + k0) * kTileRows}, PackedColumns{b},
                      terms, tile);
      }
      if (add_leaf(tile, partial + ((t - tile0) * panels + q) * kTileSize, level_stride, leaf, leaves,
                   rows * kTileColumns))
        done(q, t * height, rows, tile);
    }
  }
}

// Row tiles [tile0, tile1) for `images` images of the slab, on the calling thread.
void multiply_pixels(const GatheredProduct& p, const float* slab, std::int64_t images, std::int64_t tile0,
                     std::int64_t tile1) {
  using contract::kLeaf;
  Workspace workspace;
  const std::int64_t leaves = p.terms > kLeaf ? (p.terms + kLeaf - 1) / kLeaf : 1;
  const std::int64_t level_stride = (tile1 - tile0) * kPanelsAtOnce * kTileSize;
  float* partial = workspace.floats(tree_levels(leaves) * level_stride);
  const std::int64_t panel_stride = kTileColumns * (p.terms < kLeaf ? p.terms : kLeaf) + 64;  // packing spills a little
  float* pixels = workspace.floats(kPanelsAtOnce * panel_stride);
  PanelPieces pieces[kPanelsAtOnce];
  const std::int64_t positions = images * p.height * p.width;
  for (std::int64_t first = 0; first < positions; first += kPanelsAtOnce * kTileColumns) {
    std::int64_t panels = 0;
    for (; panels < kPanelsAtOnce && first + panels * kTileColumns < positions; ++panels)
      pieces[panels] = panel_pieces(p, first + panels * kTileColumns, positions);
    for (std::int64_t leaf = 0; leaf < leaves; ++leaf) {
      const std::int64_t k0 = leaf * kLeaf, terms = p.terms - k0 < kLeaf ? p.terms - k0 : kLeaf;
      for (std::int64_t q = 0; q < panels; ++q)
        if (!pieces[q].by_tile) pack_pixels(pieces[q], slab, p.offsets + k0, terms, pixels + q * panel_stride);
      multiply_panels(p, pieces, panels, slab, pixels, panel_stride, leaf, leaves, tile0, tile1, partial, level_stride,
                      [&](std::int64_t q, std::int64_t first_row, std::int64_t rows, float* tile) {
                        store_runs(p, pieces[q].runs, pieces[q].run_count, first_row, rows, kTileColumns, tile);
                      });
    }
  }
}

}  // namespace
}  // namespace isobit::kernels::ISOBIT_ISA
