// Products of few rows (matrix-vector products, small batches at inference): bound by reading b once, so b is
// not packed.
//
//   sums[r][j] = chain over the leaf's k of fma(a[r, k], b[k, j], .)       r < kRows, j < columns
//
// Two layouts of b: rows contiguous (long chains kept in the L1 cache, four k a pass) and columns contiguous
// (4 x 8 blocks transposed in registers). Others are packed: see matmul.cpp.
#pragma once

#include "kernels/cpu/vector/packing.h"

namespace isobit::kernels::ISOBIT_ISA {
namespace {

inline constexpr int kFewRows = 4, kFewColumns = 16;  // columns: that lie along k, worked on together

struct FewRows {
  std::int64_t columns = 0, first = 0, terms = 0;  // terms [first, first + terms)
  const float* a = nullptr;
  std::int64_t a_row = 0, a_k = 0;
  const float* b = nullptr;
  std::int64_t b_k = 0, b_column = 0;
  float* sums = nullptr;  // [kRows][sums_row], sums_row a multiple of kTileColumns, at least columns
  std::int64_t sums_row = 0;
};

// b_column == 1. kTerms consecutive k in one pass over the sums.
template <int kRows, int kTerms>
void add_contiguous_rows(const FewRows& p, std::int64_t k) {
  FloatLanes factor[kRows][kTerms];
  const float* row[kTerms];
  for (int t = 0; t < kTerms; ++t) {
    row[t] = p.b + (k + t) * p.b_k;
    for (int r = 0; r < kRows; ++r) factor[r][t] = FloatLanes(p.a[r * p.a_row + (k + t) * p.a_k]);
  }
  const auto add = [&](std::int64_t j, auto read) {
    FloatLanes b[kTerms];
    for (int t = 0; t < kTerms; ++t) b[t] = read(row[t] + j);
    for (int r = 0; r < kRows; ++r) {
      FloatLanes sum = load(p.sums + r * p.sums_row + j);
      for (int t = 0; t < kTerms; ++t) sum = fma(factor[r][t], b[t], sum);
      store(p.sums + r * p.sums_row + j, sum);
    }
  };
  std::int64_t j = 0;
  for (; j + kLanes <= p.columns; j += kLanes) add(j, [](const float* q) { return load(q); });
  if (j < p.columns) add(j, [&](const float* q) { return load_first(q, p.columns - j); });
}

template <int kRows>
void sum_contiguous_rows(const FewRows& p) {
  for (int r = 0; r < kRows; ++r)
    for (std::int64_t j = 0; j < p.sums_row; j += kLanes) store(p.sums + r * p.sums_row + j, FloatLanes(0.0f));
  const std::int64_t end = p.first + p.terms;
  std::int64_t k = p.first;
  for (; k + 4 <= end; k += 4) add_contiguous_rows<kRows, 4>(p, k);
  for (; k < end; ++k) add_contiguous_rows<kRows, 1>(p, k);
}

// Four terms of 8 columns, `stride` floats apart, as 4 vectors: halves loaded apart, so that no shuffle crosses them.
ISOBIT_INLINE void load_transposed4(const float* first, std::int64_t stride, __m256 (&out)[4]) {
  __m256 pair[4];  // columns i and i + 4
  for (int i = 0; i < 4; ++i)
    pair[i] = _mm256_insertf128_ps(_mm256_castps128_ps256(_mm_loadu_ps(first + i * stride)),
                                   _mm_loadu_ps(first + (i + 4) * stride), 1);
  const __m256 a = _mm256_unpacklo_ps(pair[0], pair[1]), b = _mm256_unpackhi_ps(pair[0], pair[1]);
  const __m256 c = _mm256_unpacklo_ps(pair[2], pair[3]), d = _mm256_unpackhi_ps(pair[2], pair[3]);
  out[0] = _mm256_shuffle_ps(a, c, 0x44), out[1] = _mm256_shuffle_ps(a, c, 0xee);
  out[2] = _mm256_shuffle_ps(b, d, 0x44), out[3] = _mm256_shuffle_ps(b, d, 0xee);
}

// b_k == 1: kGroups groups of 8 columns from column j on. kLineByLine: a group's whole cache lines before the next
// group's, for columns that share few cache sets; otherwise the groups' chains go side by side.
template <int kRows, int kGroups, bool kLineByLine>
void sum_columns(const FewRows& p, std::int64_t j) {
  constexpr int kTogether = kLineByLine ? 1 : kGroups;
  const std::int64_t stride = p.b_column;
  const float* from = p.b + j * stride;
  const float* ahead = from + kGroups * 8 * stride;  // what is read next, fetched in the order in which it lies
  const float* group[kGroups];
  for (int g = 0; g < kGroups; ++g) group[g] = from + g * 8 * stride;
  __m256 sum[kRows][kGroups];
  for (int r = 0; r < kRows; ++r)
    for (int g = 0; g < kGroups; ++g) sum[r][g] = _mm256_setzero_ps();
  const std::int64_t end = p.first + p.terms;
  std::int64_t k = p.first;
  for (; k + 16 <= end; k += 16) {
    if constexpr (!kLineByLine) {
      for (int i = 0; i < kGroups * 8; ++i) __builtin_prefetch(ahead + k * kGroups * 8 + i * 16, 0, 1);
    }
#pragma GCC unroll 2
    for (int first = 0; first < kGroups; first += kTogether) {
#pragma GCC unroll 4
      for (int q = 0; q < 16; q += 4) {
        __m256 block[kTogether][4];
#pragma GCC unroll 2
        for (int g = 0; g < kTogether; ++g) load_transposed4(group[first + g] + k + q, stride, block[g]);
        for (int r = 0; r < kRows; ++r)
          for (int i = 0; i < 4; ++i) {
            const __m256 factor = _mm256_set1_ps(p.a[r * p.a_row + (k + q + i) * p.a_k]);
            for (int g = 0; g < kTogether; ++g)
              sum[r][first + g] = _mm256_fmadd_ps(factor, block[g][i], sum[r][first + g]);
          }
      }
    }
  }
  for (int r = 0; r < kRows; ++r) {
    float* sums = p.sums + r * p.sums_row + j;
    for (int g = 0; g < kGroups; ++g) _mm256_storeu_ps(sums + g * 8, sum[r][g]);
    for (std::int64_t t = k; t < end; ++t)
      for (int c = 0; c < kGroups * 8; ++c)
        sums[c] = __builtin_fmaf(p.a[r * p.a_row + t * p.a_k], from[c * stride + t], sums[c]);
  }
}

// b_k == 1, fewer columns than a vector.
template <int kRows>
void sum_narrow(const FewRows& p) {
  for (int r = 0; r < kRows; ++r)
    for (std::int64_t j = 0; j < p.columns; ++j) {
      float sum = 0.0f;
      for (std::int64_t k = p.first; k < p.first + p.terms; ++k)
        sum = __builtin_fmaf(p.a[r * p.a_row + k * p.a_k], p.b[j * p.b_column + k], sum);
      p.sums[r * p.sums_row + j] = sum;
    }
}

// 16 columns at a time: their chains hide each other's latency, and more streams than that are read more slowly.
template <int kRows, bool kLineByLine>
void sum_all_columns(const FewRows& p) {
  std::int64_t j = 0;
  for (; j + 16 <= p.columns; j += 16) sum_columns<kRows, 2, kLineByLine>(p, j);
  for (; j + 8 <= p.columns; j += 8) sum_columns<kRows, 1, kLineByLine>(p, j);
  if (j < p.columns) sum_columns<kRows, 1, kLineByLine>(p, p.columns - 8);  // some of them twice
}

template <int kRows>
void few_rows_leaf(const FewRows& p) {
  if (p.b_column == 1) return sum_contiguous_rows<kRows>(p);
  if (p.columns < 8) return sum_narrow<kRows>(p);
  if (p.b_column % 1024 == 0) return sum_all_columns<kRows, true>(p);
  sum_all_columns<kRows, false>(p);
}

// One leaf of rows (1 to kFewRows) rows.
ISOBIT_INLINE void few_rows_leaf(const FewRows& p, std::int64_t rows) {
  switch (rows) {
    case 1: return few_rows_leaf<1>(p);
    case 2: return few_rows_leaf<2>(p);
    case 3: return few_rows_leaf<3>(p);
    default: return few_rows_leaf<4>(p);
  }
}

}  // namespace
}  // namespace isobit::kernels::ISOBIT_ISA
