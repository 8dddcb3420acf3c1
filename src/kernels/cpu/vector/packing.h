// Copies of matrix blocks into the panels that the microkernel reads: panel[k][kWidth], k consecutive.
//
//   pack_panel<kWidth>(source, k_stride, lane_stride, terms, lanes, panel)
//   panel[k * kWidth + l] = source[k * k_stride + l * lane_stride]       k < terms, l < lanes
//
// Lanes past `lanes` hold copies of others (their outputs are never stored). Nothing past the panel's end is written,
// so panels may be packed in any order; the source is read nowhere else. With kPacked, a multiple of 8, the others of a
// row's kWidth are not written; `lanes` are no more.
#pragma once

#include <cstring>

#include "kernels/cpu/vector/gemm_microkernel.h"

namespace isobit::kernels::ISOBIT_ISA {
namespace {

ISOBIT_INLINE void transpose8(__m256 (&r)[8]) {
  const __m256 t0 = _mm256_unpacklo_ps(r[0], r[1]), t1 = _mm256_unpackhi_ps(r[0], r[1]);
  const __m256 t2 = _mm256_unpacklo_ps(r[2], r[3]), t3 = _mm256_unpackhi_ps(r[2], r[3]);
  const __m256 t4 = _mm256_unpacklo_ps(r[4], r[5]), t5 = _mm256_unpackhi_ps(r[4], r[5]);
  const __m256 t6 = _mm256_unpacklo_ps(r[6], r[7]), t7 = _mm256_unpackhi_ps(r[6], r[7]);
  const __m256 u0 = _mm256_shuffle_ps(t0, t2, 0x44), u1 = _mm256_shuffle_ps(t0, t2, 0xee);
  const __m256 u2 = _mm256_shuffle_ps(t1, t3, 0x44), u3 = _mm256_shuffle_ps(t1, t3, 0xee);
  const __m256 u4 = _mm256_shuffle_ps(t4, t6, 0x44), u5 = _mm256_shuffle_ps(t4, t6, 0xee);
  const __m256 u6 = _mm256_shuffle_ps(t5, t7, 0x44), u7 = _mm256_shuffle_ps(t5, t7, 0xee);
  r[0] = _mm256_permute2f128_ps(u0, u4, 0x20), r[4] = _mm256_permute2f128_ps(u0, u4, 0x31);
  r[1] = _mm256_permute2f128_ps(u1, u5, 0x20), r[5] = _mm256_permute2f128_ps(u1, u5, 0x31);
  r[2] = _mm256_permute2f128_ps(u2, u6, 0x20), r[6] = _mm256_permute2f128_ps(u2, u6, 0x31);
  r[3] = _mm256_permute2f128_ps(u3, u7, 0x20), r[7] = _mm256_permute2f128_ps(u3, u7, 0x31);
}

// The first count (1 to 8) lanes. Not a masked store: those are slow on some processors.
ISOBIT_INLINE void store_some(float* to, __m256 value, std::int64_t count) {
  if (count >= 8) return _mm256_storeu_ps(to, value);
  __m128 part = _mm256_castps256_ps128(value);
  if (count & 4) {
    _mm_storeu_ps(to, part);
    part = _mm256_extractf128_ps(value, 1);
    to += 4;
  }
  if (count & 2) {
    _mm_storel_pi(reinterpret_cast<__m64*>(to), part);
    part = _mm_movehl_ps(part, part);
    to += 2;
  }
  if (count & 1) _mm_store_ss(to, part);
}

// Lanes consecutive in k: transposed in blocks of 8 x 8. Stores are 8 wide whatever the width: what spills
// over a row's end is the next row's, and written later; the last row does not spill.
template <int kWidth, int kPacked = kWidth>
void pack_transposed(const float* source, std::int64_t lane_stride, std::int64_t terms, std::int64_t lanes,
                     float* panel) {
  constexpr int kGroups = (kPacked + 7) / 8;
  const float* lane[kGroups * 8];
  for (int l = 0; l < kGroups * 8; ++l) lane[l] = source + (l < lanes ? l : lanes - 1) * lane_stride;
  std::int64_t k = 0;
  for (; k + 8 <= terms; k += 8) {
    __m256 rows[kGroups][8];
    for (int g = 0; g < kGroups; ++g) {
      for (int i = 0; i < 8; ++i) rows[g][i] = _mm256_loadu_ps(lane[g * 8 + i] + k);
      transpose8(rows[g]);
    }
    for (int i = 0; i < 8; ++i)
      for (int g = 0; g < kGroups; ++g) {
        const bool spills = kPacked % 8 != 0 && g == kGroups - 1 && k + i == terms - 1;
        float* to = panel + (k + i) * kWidth + g * 8;
        spills ? store_some(to, rows[g][i], kPacked % 8) : _mm256_storeu_ps(to, rows[g][i]);
      }
  }
  for (; k < terms; ++k)
    for (int l = 0; l < kPacked; ++l) panel[k * kWidth + l] = lane[l][k];
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

// to[c * stride + r] = tile[r][c] for r < rows, c < columns.
ISOBIT_INLINE void store_transposed(const float* tile, std::int64_t rows, std::int64_t columns, std::int64_t stride,
                                    float* to) {
  for (std::int64_t c = 0; c < columns; c += 8)
    for (std::int64_t r = 0; r < rows; r += 8) {
      __m256 block[8];
      for (std::int64_t i = 0; i < 8; ++i)
        block[i] = _mm256_loadu_ps(tile + (r + i < rows ? r + i : rows - 1) * kTileColumns + c);
      transpose8(block);
      for (std::int64_t i = 0; i < 8 && c + i < columns; ++i) store_some(to + (c + i) * stride + r, block[i], rows - r);
    }
}

}  // namespace
}  // namespace isobit::kernels::ISOBIT_ISA
