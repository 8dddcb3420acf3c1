// Copies of matrix blocks into the panels that the microkernel reads: panel[k][kWidth], k consecutive.
//
//   pack_panel<kWidth>(source, k_stride, lane_stride, terms, lanes, panel)
//   panel[k * kWidth + l] = source[k * k_stride + l * lane_stride]       k < terms, l < lanes
//
// Lanes past `lanes` hold copies of others or 0 (their outputs are never stored). Nothing past the panel's end is
// written, so panels may be packed in any order; the source is read nowhere else. With kPacked, a multiple of 8, the
// others of a row's kWidth are not written but those of the same vector; `lanes` are no more.
#pragma once

#include <cstring>

#include "kernels/cpu/vector/gemm_microkernel.h"

namespace isobit::kernels::ISOBIT_ISA {
namespace {

// to[i][l] = from[l][k + i], i, l < 8. Halves are brought together as they are read, which takes no unit that
// shuffles.
ISOBIT_INLINE void read_transposed(const float* const* from, std::int64_t k, __m256 (&to)[8]) {
  for (int half = 0; half < 8; half += 4) {
    __m256 r[4];
    for (int i = 0; i < 4; ++i) {
      const __m128 low = _mm_loadu_ps(from[i] + k + half), high = _mm_loadu_ps(from[i + 4] + k + half);
      r[i] = _mm256_insertf128_ps(_mm256_castps128_ps256(low), high, 1);
    }
    const __m256 t0 = _mm256_unpacklo_ps(r[0], r[1]), t1 = _mm256_unpackhi_ps(r[0], r[1]);
    const __m256 t2 = _mm256_unpacklo_ps(r[2], r[3]), t3 = _mm256_unpackhi_ps(r[2], r[3]);
    to[half] = _mm256_shuffle_ps(t0, t2, 0x44), to[half + 1] = _mm256_shuffle_ps(t0, t2, 0xee);
    to[half + 2] = _mm256_shuffle_ps(t1, t3, 0x44), to[half + 3] = _mm256_shuffle_ps(t1, t3, 0xee);
  }
}

// Terms that are transposed together for all lanes: those rows of the panel stay in the first level of the cache.
constexpr std::int64_t kTransposedTerms = 64;

// Lanes consecutive in k: transposed in blocks of 8 x 8, eight lanes at a time, so that where they lie stays in
// registers. Stores are 8 wide whatever the width: what spills over a row's end is the next row's first lanes, and
// written later, for the last eight lanes come first; the last row does not spill.
template <int kWidth, int kPacked = kWidth>
void pack_transposed(const float* source, std::int64_t lane_stride, std::int64_t terms, std::int64_t lanes,
                     float* panel) {
  constexpr int kAll = (kPacked + 7) / 8 * 8;
  const float* lanes_at[kAll];
  for (int l = 0; l < kAll; ++l) lanes_at[l] = source + (l < lanes ? l : lanes - 1) * lane_stride;
  for (std::int64_t k0 = 0; k0 < terms; k0 += kTransposedTerms) {
    const std::int64_t end = terms - k0 < kTransposedTerms ? terms : k0 + kTransposedTerms;
    for (int first = (kPacked - 1) / 8 * 8; first >= 0; first -= 8) {
      const float* lane[8];
      for (int l = 0; l < 8; ++l) lane[l] = lanes_at[first + l];
      const int width = kPacked - first < 8 ? kPacked - first : 8;
      float* to = panel + k0 * kWidth + first;
      std::int64_t k = k0;
      for (; k + 8 <= end; k += 8) {
        __m256 rows[8];
        read_transposed(lane, k, rows);
        for (int i = 0; i < 7; ++i, to += kWidth) _mm256_storeu_ps(to, rows[i]);
        k + 8 == terms ? store_some(to, rows[7], width) : _mm256_storeu_ps(to, rows[7]);
        to += kWidth;
      }
      for (; k < end; ++k, to += kWidth)
        for (int l = 0; l < width; ++l) to[l] = lane[l][k];
    }
  }
}

template <int kWidth, int kPacked = kWidth>
void pack_rows(const float* source, std::int64_t k_stride, std::int64_t terms, std::int64_t lanes, float* panel) {
  if (lanes >= kWidth && kWidth % kLanes == 0) {
    for (std::int64_t k = 0; k < terms; ++k, source += k_stride, panel += kWidth) {
      __builtin_prefetch(source + 8 * k_stride);
      __builtin_prefetch(source + 8 * k_stride + 16);
      for (int l = 0; l < kWidth; l += kLanes) store(panel + l, load(source + l));
    }
    return;
  }
  if (lanes >= kWidth) {
    for (std::int64_t k = 0; k < terms; ++k, source += k_stride, panel += kWidth)
      std::memcpy(panel, source, sizeof(float) * kWidth);
    return;
  }
  if constexpr (kWidth % kLanes == 0) {
    for (std::int64_t k = 0; k < terms; ++k, source += k_stride, panel += kWidth)
      for (int l = 0; l < kPacked; l += kLanes) {
        const std::int64_t count = lanes - l;
        store(panel + l, count >= kLanes ? load(source + l) : load_first(source + l, count > 0 ? count : 0));
      }
    return;
  }
  for (std::int64_t k = 0; k < terms; ++k, source += k_stride, panel += kWidth)
    for (int l = 0; l < kPacked; ++l) panel[l] = source[l < lanes ? l : lanes - 1];
}

template <int kWidth, int kPacked = kWidth>
void pack_panel(const float* source, std::int64_t k_stride, std::int64_t lane_stride, std::int64_t terms,
                std::int64_t lanes, float* panel) {
  if (lane_stride == 1) return pack_rows<kWidth, kPacked>(source, k_stride, terms, lanes, panel);
  if (k_stride == 1) return pack_transposed<kWidth, kPacked>(source, lane_stride, terms, lanes, panel);
  for (std::int64_t k = 0; k < terms; ++k)
    for (int l = 0; l < kPacked; ++l)
      panel[k * kWidth + l] = source[k * k_stride + (l < lanes ? l : lanes - 1) * lane_stride];
}

// A panel of columns: the lanes that multiply_tile reads of so many.
ISOBIT_INLINE void pack_columns(const float* source, std::int64_t k_stride, std::int64_t lane_stride,
                                std::int64_t terms, std::int64_t columns, float* panel) {
  if (columns <= 8) return pack_panel<kTileColumns, 8>(source, k_stride, lane_stride, terms, columns, panel);
  if (columns <= kLanes) return pack_panel<kTileColumns, kLanes>(source, k_stride, lane_stride, terms, columns, panel);
  pack_panel<kTileColumns>(source, k_stride, lane_stride, terms, columns, panel);
}

// Whole tiles of rows that lie side by side, `stride` floats apart: a source's line is read once. Stores are whole
// vectors: what spills over a row's end is the next row's first lanes, and written later.
ISOBIT_INLINE void pack_whole_tiles(const float* source, std::int64_t k_stride, std::int64_t terms, std::int64_t tiles,
                                    float* to, std::int64_t stride) {
  static_assert(kTileRows <= kLanes);
  for (std::int64_t k = 0; k < terms; ++k, source += k_stride, to += kTileRows) {
    for (std::int64_t t = 0; t < tiles; ++t) {
      const FloatLanes row = load_first(source + t * kTileRows, kTileRows);
      k + 1 < terms ? store(to + t * stride, row) : store_first(to + t * stride, row, kTileRows);
    }
  }
}

// Rows as tiles, one after the other.
ISOBIT_INLINE void pack_row_tiles(const float* source, std::int64_t k_stride, std::int64_t row_stride,
                                  std::int64_t terms, std::int64_t rows, float* to) {
  const std::int64_t whole = row_stride == 1 ? rows / kTileRows : 0;
  pack_whole_tiles(source, k_stride, terms, whole, to, terms * kTileRows);
  for (std::int64_t r = whole * kTileRows; r < rows; r += kTileRows) {
    pack_panel<kTileRows>(source + r * row_stride, k_stride, row_stride, terms,
                          rows - r < kTileRows ? rows - r : kTileRows, to + r * terms);
  }
}

// Whole panels of columns that lie side by side, `stride` floats apart: a few panels' rows at a time, so that a row of
// the source is read as it lies.
ISOBIT_INLINE void pack_whole_panels(const float* source, std::int64_t k_stride, std::int64_t terms,
                                     std::int64_t panels, float* to, std::int64_t stride) {
  constexpr std::int64_t kTogether = 8;
  for (std::int64_t first = 0; first < panels; first += kTogether) {
    const std::int64_t together = panels - first < kTogether ? panels - first : kTogether;
    const float* from = source + first * kTileColumns;
    float* panel = to + first * stride;
    for (std::int64_t k = 0; k < terms; ++k, from += k_stride, panel += kTileColumns) {
      for (std::int64_t p = 0; p < together; ++p)
        for (int l = 0; l < kTileColumns; l += kLanes) store(panel + p * stride + l, load(from + p * kTileColumns + l));
    }
  }
}

// to[c * stride + r] = tile[r][c] for r < rows, c < columns; rows of the tile lie kWidth floats apart, a multiple of 8.
template <int kWidth = kTileColumns>
ISOBIT_INLINE void store_transposed(const float* tile, std::int64_t rows, std::int64_t columns, std::int64_t stride,
                                    float* to) {
  for (std::int64_t c = 0; c < columns; c += 8)
    for (std::int64_t r = 0; r < rows; r += 8) {
      const float* row[8];
      for (std::int64_t i = 0; i < 8; ++i) row[i] = tile + (r + i < rows ? r + i : rows - 1) * kWidth;
      __m256 block[8];
      read_transposed(row, c, block);
      for (std::int64_t i = 0; i < 8 && c + i < columns; ++i) store_some(to + (c + i) * stride + r, block[i], rows - r);
    }
}

}  // namespace
}  // namespace isobit::kernels::ISOBIT_ISA
