// Convolutions of large batches over small maps: images are the lanes, and taps that fall outside are skipped.
//
//   y[n, r, i, j] = tree over terms (c, tap of i, tap of j) of weights[r][c, taps] * x[n, c, source rows, columns]   (+
//   bias[r])
//
// A tile's columns are one output position (i, j) of up to kTileColumns images, so that a tap is outside for all of
// them or for none: on maps of 4 x 4 under a 3 x 3 kernel that leaves out 30 % of the terms. x is transposed to
// [c][h][w][kTileColumns] row by row as it is needed, results go through a few rows of the same layout.
// Serves the forward convolution and the input gradient with any stride and dilation: what differs is which tap reads
// what (AxisTaps). Precondition: all weights are finite (contract, section 3).
#pragma once

#include "contract/platform.h"
#include "kernels/cpu/vector/alike_positions.h"
#include "kernels/cpu/vector/all_finite.h"
#include "kernels/cpu/vector/gemm_microkernel.h"
#include "kernels/cpu/vector/packing.h"
#include "kernels/cpu/vector/pairwise_tiles.h"
#include "kernels/cpu/vector/tile_product.h"
#include "kernels/dispatch/workspace.h"

namespace isobit::kernels::ISOBIT_ISA {
namespace {

// What one output coordinate reads along an axis: `terms` taps are terms of its sums; the `count` of them that fall
// inside are the term_index-th, tap `tap` of the kernel, at `source`.
struct AxisTaps {
  std::int64_t terms = 0, count = 0;
  std::int64_t kind = 0;  // the first coordinate whose taps fall inside alike: the same list of terms serves both
  std::int32_t *term_index = nullptr, *tap = nullptr, *source = nullptr;
};

struct ImageLanes {
  std::int64_t channels = 0, rows = 0;                           // of x; of y
  std::int64_t h = 0, w = 0;                                     // of x
  std::int64_t height = 0, width = 0;                            // of y
  std::int64_t kernel_w = 1, kernel = 1;                         // taps of the kernel: kh * kw
  const AxisTaps *rows_taps = nullptr, *columns_taps = nullptr;  // [height], [width]
  const float* weights = nullptr;                                // packed [row tile][channel][tap][kTileRows]
  const float* bias = nullptr;                                   // [rows] or nullptr
};

// Share a tile's weights while these are in the L1 cache; of one row, whose weights are few, a list of terms.
constexpr std::int64_t kPositionsAtOnce = 16, kPositionsOfOneRow = 64;
ISOBIT_INLINE std::int64_t positions_at_once(const ImageLanes& p) {
  return p.rows == 1 ? kPositionsOfOneRow : kPositionsAtOnce;
}
constexpr std::int64_t kFetchChannels = 4;  // ahead of the one that is transposed
constexpr std::int64_t kRowFloats = 16;     // a band of rows covers at least a cache line of each image

ISOBIT_INLINE std::int64_t band_rows(std::int64_t h, std::int64_t w) {
  const std::int64_t rows = (kRowFloats + w - 1) / w;
  return rows < h ? rows : h;
}

// Rows [first, first + rows) of every channel of x to the slab: [c][h][w][kTileColumns]; lanes past `images` hold
// copies. Eight images through all channels, then the next eight: image strides are often large powers of two, whose
// lines fight for the same eight places of a cache set. What is read next is too far apart for the hardware to foresee.
void rows_to_lanes(const ImageLanes& p, const float* x, std::int64_t x_image, std::int64_t images, std::int64_t first,
                   std::int64_t rows, float* slab) {
  const std::int64_t plane = p.h * p.w, count = rows * p.w;
  for (int g = 0; g < kTileColumns; g += 8) {
    const float* image[8];
    for (int l = 0; l < 8; ++l) image[l] = x + (g + l < images ? g + l : images - 1) * x_image + first * p.w;
    for (std::int64_t c = 0; c < p.channels; ++c) {
      float* to = slab + (c * p.h + first) * p.w * kTileColumns + g;
      std::int64_t k = 0;
      for (; k + 8 <= count; k += 8) {
        for (int l = 0; l < 8 && k % 16 == 0; ++l) __builtin_prefetch(image[l] + k + kFetchChannels * plane);
        __m256 block[8];
        read_transposed(image, k, block);
        for (int i = 0; i < 8; ++i) _mm256_storeu_ps(to + (k + i) * kTileColumns, block[i]);
      }
      for (; k < count; ++k)
        for (int l = 0; l < 8; ++l) to[k * kTileColumns + l] = image[l][k];
      for (int l = 0; l < 8; ++l) image[l] += plane;
    }
  }
}

// Results [rows][positions][kTileColumns] to y, whose planes lie height * width apart; eight images at a time as above.
void lanes_to_rows(const ImageLanes& p, const float* results, std::int64_t row_stride, std::int64_t rows,
                   std::int64_t positions, std::int64_t images, std::int64_t y_image, float* y) {
  const std::int64_t plane = p.height * p.width;
  for (std::int64_t g = 0; g < images; g += 8) {
    const std::int64_t count = images - g < 8 ? images - g : 8;
    for (std::int64_t r = 0; r < rows; ++r) {
      float* to = y + g * y_image + r * plane;
      for (std::int64_t l = 0; l < count; ++l)
        for (std::int64_t k = 0; k < positions; k += 16)
          __builtin_prefetch(to + l * y_image + kFetchChannels * plane + k, 1);
      store_transposed(results + r * row_stride + g, positions, count, y_image, to);
    }
  }
}

// Some of a leaf's terms: where their weights lie from a tile's start on, and their pixels from the position's first
// source pixel on. The same for all positions whose taps fall inside alike.
struct TermList {
  std::int64_t count = 0;
  std::int32_t *a_offsets = nullptr, *b_offsets = nullptr;
};

ISOBIT_INLINE bool alike(const AxisTaps& a, const AxisTaps& b) {
  if (a.terms != b.terms || a.count != b.count) return false;
  for (std::int64_t k = 0; k < a.count; ++k) {
    if (a.term_index[k] != b.term_index[k] || a.tap[k] != b.tap[k]) return false;
    if (a.source[k] - a.source[0] != b.source[k] - b.source[0]) return false;
  }
  return true;
}

// Terms [k0, k0 + terms).
void list_terms(const ImageLanes& p, const AxisTaps& rows, const AxisTaps& columns, std::int64_t k0, std::int64_t terms,
                TermList& list) {
  const std::int64_t per_channel = rows.terms * columns.terms;
  std::int64_t m = 0;
  for (std::int64_t c = per_channel > 0 ? k0 / per_channel : 0; c * per_channel < k0 + terms; ++c) {
    for (std::int64_t r = 0; r < rows.count; ++r) {
      const std::int64_t row_term = c * per_channel + rows.term_index[r] * columns.terms;
      const std::int64_t row_weight = c * p.kernel + rows.tap[r] * p.kernel_w;
      const std::int64_t line = (c * p.h + rows.source[r] - rows.source[0]) * p.w - columns.source[0];
      for (std::int64_t s = 0; s < columns.count; ++s) {
        const std::int64_t k = row_term + columns.term_index[s];
        if (k < k0 || k >= k0 + terms) continue;
        list.a_offsets[m] = static_cast<std::int32_t>((row_weight + columns.tap[s]) * kTileRows);
        list.b_offsets[m++] = static_cast<std::int32_t>((line + columns.source[s]) * kTileColumns);
      }
    }
  }
  list.count = m;
  for (int ahead = 0; ahead < kAhead; ++ahead) list.b_offsets[m + ahead] = 0;
}

// An output position of a band that is computed together with others.
struct Position {
  std::int64_t place = 0;         // within the band
  const float* pixels = nullptr;  // its first source pixel
  const AxisTaps *rows = nullptr, *columns = nullptr;
  const TermList* list = nullptr;  // of the leaf under way
};

// The positions of rows [i0, i1) whose sums have as many terms as the first that is not done; marks them done. `first`:
// none before that place is left.
std::int64_t choose_positions(const ImageLanes& p, std::int64_t i0, std::int64_t i1, const float* slab, bool* done,
                              std::int64_t& first, Position* positions) {
  const std::int64_t places = (i1 - i0) * p.width;
  while (first < places && done[first]) ++first;
  std::int64_t count = 0, terms = -1;
  for (std::int64_t place = first; place < places && count < positions_at_once(p); ++place) {
    if (done[place]) continue;
    const AxisTaps &rows = p.rows_taps[i0 + place / p.width], &columns = p.columns_taps[place % p.width];
    if (terms >= 0 && rows.terms * columns.terms != terms) continue;
    terms = rows.terms * columns.terms;
    done[place] = true;
    const bool some = rows.count > 0 && columns.count > 0;
    positions[count++] = {place, some ? slab + (rows.source[0] * p.w + columns.source[0]) * kTileColumns : slab, &rows,
                          &columns, nullptr};
  }
  return count;
}

// Gives each position its list of terms [k0, k0 + terms); alike ones share it.
void list_positions(const ImageLanes& p, std::int64_t k0, std::int64_t terms, Position* positions, std::int64_t count,
                    TermList* lists) {
  for (std::int64_t q = 0; q < count; ++q) {
    Position& at = positions[q];
    at.list = nullptr;
    for (std::int64_t o = 0; o < q && at.list == nullptr; ++o)
      if (at.rows->kind == positions[o].rows->kind && at.columns->kind == positions[o].columns->kind)
        at.list = positions[o].list;
    if (at.list != nullptr) continue;
    lists[q].count = 0;
    if (at.rows->count > 0 && at.columns->count > 0) list_terms(p, *at.rows, *at.columns, k0, terms, lists[q]);
    at.list = &lists[q];
  }
}

// Where a thread keeps its work on one set of images.
struct ImageLanesScratch {
  float *slab, *results, *partial;
  std::int64_t level_stride;
  std::int64_t row_stride;  // of results, between rows of the product
  TermList* lists;          // of positions_at_once
};

// A position's finished sums, `rows` rows of a tile, to the results' rows from `row` on.
void keep_results(const ImageLanes& p, const Position& at, const float* tile, std::int64_t row, std::int64_t rows,
                  float* results, std::int64_t row_stride) {
  float* to = results + at.place * kTileColumns;
  for (std::int64_t r = 0; r < rows; ++r)
    for (int l = 0; l < kTileColumns; l += kLanes) {
      const FloatLanes value = load(tile + r * kTileColumns + l);
      store(to + r * row_stride + l, p.bias == nullptr ? value : value + FloatLanes(p.bias[row + r]));
    }
}

// How many positions from the first on share its list and lie as far apart as the first two: a run of
// alike_positions.h.
std::int64_t alike_run(const Position* positions, std::int64_t count) {
  const std::int64_t most = count < kAlikePositions ? count : kAlikePositions;
  std::int64_t run = 1;
  while (run < most && positions[run].list == positions[0].list &&
         positions[run].pixels - positions[run - 1].pixels == positions[1].pixels - positions[0].pixels)
    ++run;
  return run;
}

// multiply_positions of one row.
void multiply_positions_of_one_row(const ImageLanes& p, Position* positions, std::int64_t count,
                                   ImageLanesScratch& scratch) {
  using contract::kLeaf;
  alignas(64) float tile[kAlikePositions * kTileColumns];
  const std::int64_t terms = p.channels * positions[0].rows->terms * positions[0].columns->terms;
  const std::int64_t leaves = terms > kLeaf ? (terms + kLeaf - 1) / kLeaf : 1;
  for (std::int64_t leaf = 0; leaf < leaves; ++leaf) {
    const std::int64_t k0 = leaf * kLeaf;
    list_positions(p, k0, terms - k0 < kLeaf ? terms - k0 : kLeaf, positions, count, scratch.lists);
    for (std::int64_t q = 0, run; q < count; q += run) {
      run = alike_run(positions + q, count - q);
      const TermList& list = *positions[q].list;
      const std::int64_t step = run > 1 ? positions[q + 1].pixels - positions[q].pixels : 0;
      kAlikeFunctions.of[run]({p.weights, positions[q].pixels, step, list.a_offsets, list.b_offsets}, list.count, tile);
      if (!add_leaf(tile, scratch.partial + q * kTileColumns, scratch.level_stride, leaf, leaves, run * kTileColumns))
        continue;
      for (std::int64_t i = 0; i < run; ++i)
        keep_results(p, positions[q + i], tile + i * kTileColumns, 0, 1, scratch.results, scratch.row_stride);
    }
  }
}

// Sums for `count` positions of a band into scratch.results, row tiles [tile0, tile1).
void multiply_positions(const ImageLanes& p, Position* positions, std::int64_t count, std::int64_t images,
                        std::int64_t tile0, std::int64_t tile1, ImageLanesScratch& scratch) {
  using contract::kLeaf;
  alignas(64) float tile[kTileSize];
  const std::int64_t terms = p.channels * positions[0].rows->terms * positions[0].columns->terms;
  const std::int64_t leaves = terms > kLeaf ? (terms + kLeaf - 1) / kLeaf : 1, height = tile_height(p.rows);
  for (std::int64_t leaf = 0; leaf < leaves; ++leaf) {
    const std::int64_t k0 = leaf * kLeaf;
    list_positions(p, k0, terms - k0 < kLeaf ? terms - k0 : kLeaf, positions, count, scratch.lists);
    for (std::int64_t t = tile0; t < tile1; ++t) {
      const std::int64_t rows = p.rows - t * height < height ? p.rows - t * height : height;
      const float* a = p.weights + t * p.channels * p.kernel * kTileRows;
      for (std::int64_t q = 0; q < count; ++q) {
        const TermList& list = *positions[q].list;
        multiply_tile(rows, images, SkippingRows{a, list.a_offsets},
                      ScatteredColumns{positions[q].pixels, list.b_offsets}, list.count, tile);
        float* partial = scratch.partial + ((t - tile0) * count + q) * kTileSize;
        if (!add_leaf(tile, partial, scratch.level_stride, leaf, leaves, rows * kTileColumns)) continue;
        keep_results(p, positions[q], tile, t * height, rows,
                     scratch.results + (t - tile0) * height * scratch.row_stride, scratch.row_stride);
      }
    }
  }
}

ISOBIT_INLINE std::int64_t most_terms(const ImageLanes& p) {
  std::int64_t rows = 0, columns = 0;
  for (std::int64_t i = 0; i < p.height; ++i) rows = p.rows_taps[i].terms > rows ? p.rows_taps[i].terms : rows;
  for (std::int64_t j = 0; j < p.width; ++j)
    columns = p.columns_taps[j].terms > columns ? p.columns_taps[j].terms : columns;
  return p.channels * rows * columns;
}

// Row tiles [tile0, tile1) for one set of images (at most kTileColumns), on the calling thread. x and y point at the
// set's first image and the group's first channel.
void multiply_image_lanes(const ImageLanes& p, const float* x, std::int64_t x_image, float* y, std::int64_t y_image,
                          std::int64_t images, std::int64_t tile0, std::int64_t tile1) {
  using contract::kLeaf;
  const std::int64_t height = tile_height(p.rows), first_row = tile0 * height;
  const std::int64_t rows = (tile1 * height < p.rows ? tile1 * height : p.rows) - first_row;
  const std::int64_t in_band = band_rows(p.h, p.w), out_band = band_rows(p.height, p.width);
  const std::int64_t leaves = (most_terms(p) + kLeaf - 1) / kLeaf;
  Workspace workspace;
  ImageLanesScratch scratch;
  scratch.row_stride = out_band * p.width * kTileColumns;
  const std::int64_t at_once = positions_at_once(p);
  scratch.level_stride = at_once * (p.rows == 1 ? kTileColumns : (tile1 - tile0) * kTileSize);
  scratch.slab = workspace.floats(p.channels * p.h * p.w * kTileColumns);
  scratch.results = workspace.floats(rows * scratch.row_stride);
  scratch.partial = workspace.floats(tree_levels(leaves > 1 ? leaves : 1) * scratch.level_stride);
  scratch.lists = static_cast<TermList*>(workspace.bytes(sizeof(TermList) * static_cast<std::size_t>(at_once)));
  for (std::int64_t q = 0; q < at_once; ++q)
    scratch.lists[q] = {0, workspace.ints(kLeaf), workspace.ints(kLeaf + kAhead)};
  bool* done = static_cast<bool*>(workspace.bytes(static_cast<std::size_t>(out_band * p.width)));
  Position positions[kPositionsOfOneRow];
  std::int64_t filled = 0;  // rows of x that lie in the slab

  for (std::int64_t i0 = 0; i0 < p.height; i0 += out_band) {
    const std::int64_t i1 = i0 + out_band < p.height ? i0 + out_band : p.height, places = (i1 - i0) * p.width;
    for (std::int64_t i = i0; i < i1; ++i)
      for (std::int64_t r = 0; r < p.rows_taps[i].count; ++r)
        while (filled <= p.rows_taps[i].source[r]) {
          const std::int64_t band = p.h - filled < in_band ? p.h - filled : in_band;
          rows_to_lanes(p, x, x_image, images, filled, band, scratch.slab);
          filled += band;
        }
    for (std::int64_t k = 0; k < places; ++k) done[k] = false;
    std::int64_t left = 0;
    while (const std::int64_t count = choose_positions(p, i0, i1, scratch.slab, done, left, positions)) {
      if (p.rows == 1)
        multiply_positions_of_one_row(p, positions, count, scratch);
      else
        multiply_positions(p, positions, count, images, tile0, tile1, scratch);
    }
    lanes_to_rows(p, scratch.results, scratch.row_stride, rows, places, images, y_image,
                  y + first_row * p.height * p.width + i0 * p.width);
  }
}

}  // namespace
}  // namespace isobit::kernels::ISOBIT_ISA
