// A row of binary64 times a matrix that is read where it lies: neighbouring columns are lanes, or rows that lie in
// order are turned in registers. Each output's chain is the contract's (section 3), leaf after leaf.
#pragma once

#include <algorithm>

#include "contract/ordered_dot.h"
#include "kernels/cpu/vector/wide_memory.h"

namespace isobit::kernels::ISOBIT_ISA {
namespace {

ISOBIT_INLINE WideDouble multiply_add(WideDouble a, WideDouble b, WideDouble t) {
#if defined(__AVX512F__)
  return _mm512_fmadd_pd(a, b, t);
#else
  return _mm256_fmadd_pd(a, b, t);
#endif
}

// Column i of the square that rows x[0], x[1], ... make becomes x[i].
ISOBIT_INLINE void turn_square(WideDouble* x) {
#if defined(__AVX512F__)
  __m512d a[8], b[8];
  for (int i = 0; i < 8; i += 2)
    a[i] = _mm512_unpacklo_pd(x[i], x[i + 1]), a[i + 1] = _mm512_unpackhi_pd(x[i], x[i + 1]);
  for (int i = 0; i < 8; i += 4) {
    for (int j = 0; j < 2; ++j) {
      b[i + j] = _mm512_shuffle_f64x2(a[i + j], a[i + j + 2], 0x88);
      b[i + j + 2] = _mm512_shuffle_f64x2(a[i + j], a[i + j + 2], 0xdd);
    }
  }
  for (int j = 0; j < 4; ++j) {
    x[j] = _mm512_shuffle_f64x2(b[j], b[j + 4], 0x88);
    x[j + 4] = _mm512_shuffle_f64x2(b[j], b[j + 4], 0xdd);
  }
#else
  const __m256d a = _mm256_unpacklo_pd(x[0], x[1]), b = _mm256_unpackhi_pd(x[0], x[1]);
  const __m256d c = _mm256_unpacklo_pd(x[2], x[3]), d = _mm256_unpackhi_pd(x[2], x[3]);
  x[0] = _mm256_permute2f128_pd(a, c, 0x20), x[1] = _mm256_permute2f128_pd(b, d, 0x20);
  x[2] = _mm256_permute2f128_pd(a, c, 0x31), x[3] = _mm256_permute2f128_pd(b, d, 0x31);
#endif
}

// t + the products of `terms` terms; kV registers of columns that are neighbours.
template <int kV>
ISOBIT_INLINE void add_neighbours(const double* a, std::int64_t a_step, const double* b, std::int64_t row,
                                  std::int64_t terms, WideDouble* t) {
  for (std::int64_t k = 0; k < terms; ++k) {
    const WideDouble factor = wide_double(a[k * a_step]);
    for (std::int64_t v = 0; v < kV; ++v) t[v] = multiply_add(factor, wide_read(b + k * row + v * kWideLanes), t[v]);
  }
}
// Columns whose terms are neighbours, `column` elements apart.
template <int kV>
ISOBIT_INLINE void add_turned(const double* a, std::int64_t a_step, const double* b, std::int64_t column,
                              std::int64_t terms, WideDouble* t) {
  std::int64_t k = 0;
  for (; k + kWideLanes <= terms; k += kWideLanes) {
    for (std::int64_t v = 0; v < kV; ++v) {
      WideDouble x[kWideLanes];
      for (std::int64_t i = 0; i < kWideLanes; ++i) x[i] = wide_read(b + (v * kWideLanes + i) * column + k);
      turn_square(x);
      for (std::int64_t i = 0; i < kWideLanes; ++i) t[v] = multiply_add(wide_double(a[(k + i) * a_step]), x[i], t[v]);
    }
  }
  for (; k < terms; ++k) {
    for (std::int64_t v = 0; v < kV; ++v) {
      double lane[kWideLanes];
      for (std::int64_t i = 0; i < kWideLanes; ++i) lane[i] = b[(v * kWideLanes + i) * column + k];
      t[v] = multiply_add(wide_double(a[k * a_step]), wide_read(lane), t[v]);
    }
  }
}

constexpr std::int64_t kRowColumns = std::int64_t{4} * kWideLanes;  // side by side, whose chains do not wait

// out[0 .. columns) = the row a [terms] times b; b's columns or its terms are neighbours.
inline void one_row(const double* a, std::int64_t a_step, const double* b, std::int64_t row, std::int64_t column,
                    std::int64_t terms, std::int64_t columns, double* out) {
  constexpr int kV = kRowColumns / kWideLanes;
  std::int64_t j = 0;
  for (; j + kRowColumns <= columns; j += kRowColumns) {
    contract::PairwiseTreeOf<double> tree[kRowColumns];
    for (std::int64_t first = 0; first < terms; first += contract::kLeaf) {
      const std::int64_t count = std::min(contract::kLeaf, terms - first);
      WideDouble t[kV];
      for (WideDouble& sum : t) sum = wide_double(0.0);
      const double* const from = b + first * row + j * column;
      if (column == 1) {
        add_neighbours<kV>(a + first * a_step, a_step, from, row, count, t);
      } else {
        add_turned<kV>(a + first * a_step, a_step, from, column, count, t);
      }
      double lane[kRowColumns];
      for (std::int64_t v = 0; v < kV; ++v) wide_write(lane + v * kWideLanes, t[v]);
      for (std::int64_t i = 0; i < kRowColumns; ++i) tree[i].add(lane[i]);
    }
    for (std::int64_t i = 0; i < kRowColumns; ++i) out[j + i] = tree[i].result();
  }
  for (; j < columns; ++j) out[j] = contract::ordered_dot(a, a_step, b + j * column, row, terms);
}

}  // namespace
}  // namespace isobit::kernels::ISOBIT_ISA
