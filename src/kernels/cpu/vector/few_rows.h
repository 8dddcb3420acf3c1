// Products of few rows (matrix-vector products, small batches at inference): bound by reading b once, so b is
// not packed.
//
//   sums[r][j] = chain over k of fma(a[r, k], b[k, j], .)       r < kRows, j < columns
//
// Two layouts of b: rows contiguous (long chains kept in the L1 cache, four k a pass) and columns contiguous
// (8 x 8 blocks transposed in registers). Others are packed: see matmul.cpp.
#pragma once

#include "kernels/cpu/vector/packing.h"

namespace isobit::kernels::ISOBIT_ISA {
namespace {

inline constexpr int kFewRows = 4;

struct FewRows {
  std::int64_t columns = 0, terms = 0;
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

// b_k == 1. kGroups groups of 8 columns from column j on.
template <int kRows, int kGroups>
void add_contiguous_columns(const FewRows& p, std::int64_t j) {
  const float* column[kGroups * 8];
  for (int c = 0; c < kGroups * 8; ++c)
    column[c] = p.b + (j + c < p.columns ? j + c : p.columns - 1) * p.b_column;
  __m256 sum[kRows][kGroups];
  for (int r = 0; r < kRows; ++r)
    for (int g = 0; g < kGroups; ++g) sum[r][g] = _mm256_setzero_ps();
  const auto add_block = [&](int g, std::int64_t k) {
    __m256 block[8];
    for (int i = 0; i < 8; ++i) block[i] = _mm256_loadu_ps(column[g * 8 + i] + k);
    transpose8(block);
    for (int r = 0; r < kRows; ++r)
      for (int i = 0; i < 8; ++i)
        sum[r][g] = _mm256_fmadd_ps(_mm256_set1_ps(p.a[r * p.a_row + (k + i) * p.a_k]), block[i], sum[r][g]);
  };
  // 16 k of a group at once: whole cache lines, as columns a multiple of 4 KiB apart share one cache set.
  std::int64_t k = 0;
  for (; k + 16 <= p.terms; k += 16) {
#pragma GCC unroll 4
    for (int g = 0; g < kGroups; ++g) {
      for (int i = 0; i < 8; ++i) __builtin_prefetch(column[g * 8 + i] + k + 64);
      add_block(g, k);
      add_block(g, k + 8);
    }
  }
  for (int r = 0; r < kRows; ++r) {
    float* sums = p.sums + r * p.sums_row + j;
    for (int g = 0; g < kGroups; ++g) _mm256_storeu_ps(sums + g * 8, sum[r][g]);
    for (std::int64_t t = k; t < p.terms; ++t)
      for (int c = 0; c < kGroups * 8; ++c)
        sums[c] = __builtin_fmaf(p.a[r * p.a_row + t * p.a_k], column[c][t], sums[c]);
  }
}

template <int kRows>
void few_rows_leaf(const FewRows& p) {
  if (p.b_column == 1) {
    for (int r = 0; r < kRows; ++r)
      for (std::int64_t j = 0; j < p.sums_row; j += kLanes)
        store(p.sums + r * p.sums_row + j, FloatLanes(0.0f));
    std::int64_t k = 0;
    for (; k + 4 <= p.terms; k += 4) add_contiguous_rows<kRows, 4>(p, k);
    for (; k < p.terms; ++k) add_contiguous_rows<kRows, 1>(p, k);
  } else {
    std::int64_t j = 0;
    // 16 columns: their chains hide each other's latency, and more streams than that are read more slowly.
    for (; j + 8 < p.columns; j += 16) add_contiguous_columns<kRows, 2>(p, j);
    for (; j < p.columns; j += 8) add_contiguous_columns<kRows, 1>(p, j);
  }
}

// One leaf of rows (1 to kFewRows) rows.
ISOBIT_INLINE void few_rows_leaf(const FewRows& p, std::int64_t rows) {
  switch (rows) {
    case 1:
      return few_rows_leaf<1>(p);
    case 2:
      return few_rows_leaf<2>(p);
    case 3:
      return few_rows_leaf<3>(p);
    default:
      return few_rows_leaf<4>(p);
  }
}

}  // namespace
}  // namespace isobit::kernels::ISOBIT_ISA
