// Products of few rows (matrix-vector products, small batches at inference): bound by reading b once, so b is
// not packed.
//
//   sums[r][j] = chain over the leaf's k of fma(a[r, k], b[k, j], .)       r < kRows, j < columns
//
// Two layouts of b: rows contiguous (long chains kept in the L1 cache, four k a pass) and columns contiguous
// (4 x 8 blocks transposed in registers). Others are packed: see matmul.cpp.
#pragma once

#include "contract/platform.h"
#include "kernels/cpu/vector/packing.h"

namespace isobit::kernels::ISOBIT_ISA {
namespace {

inline constexpr int kFewRows = 4;
inline constexpr std::int64_t kNearGroup = 32, kFarGroup = 16;  // columns along k that are worked on together

struct FewRows {
  std::int64_t columns = 0, first = 0, terms = 0;  // terms [first, first + terms)
  const float* a = nullptr;
  std::int64_t a_row = 0, a_k = 0;
  const float* b = nullptr;
  std::int64_t b_k = 0, b_column = 0;
  float* sums = nullptr;  // [kRows][sums_row], sums_row a multiple of kTileColumns, at least columns
  std::int64_t sums_row = 0;
  bool near = false;  // columns, that lie along k: the second level of the cache holds them all
};

// b_column == 1. kTerms consecutive k in one pass over the sums.
template <int kRows, int kTerms>
ISOBIT_INLINE void add_contiguous_rows(const FewRows& p, std::int64_t k) {
  FloatLanes factor[kRows][kTerms];
  const float* row[kTerms];
  float* const sums = p.sums;
  const std::int64_t sums_row = p.sums_row, columns = p.columns;
  for (int t = 0; t < kTerms; ++t) {
    row[t] = p.b + (k + t) * p.b_k;
    for (int r = 0; r < kRows; ++r) factor[r][t] = FloatLanes(p.a[r * p.a_row + (k + t) * p.a_k]);
  }
  const auto add = [&](std::int64_t j, auto read) {
    FloatLanes b[kTerms];
    for (int t = 0; t < kTerms; ++t) b[t] = read(row[t] + j);
    for (int r = 0; r < kRows; ++r) {
      FloatLanes sum = load(sums + r * sums_row + j);
      for (int t = 0; t < kTerms; ++t) sum = fma(factor[r][t], b[t], sum);
      store(sums + r * sums_row + j, sum);
    }
  };
  std::int64_t j = 0;
  for (; j + kLanes <= columns; j += kLanes) add(j, [](const float* q) { return load(q); });
  if (j < columns) add(j, [&](const float* q) { return load_first(q, columns - j); });
}

template <int kRows>
ISOBIT_INLINE void sum_contiguous_rows(const FewRows& p) {
  for (int r = 0; r < kRows; ++r)
    for (std::int64_t j = 0; j < p.sums_row; j += kLanes) store(p.sums + r * p.sums_row + j, FloatLanes(0.0f));
  const std::int64_t end = p.first + p.terms;
  std::int64_t k = p.first;
  for (; k + 4 <= end; k += 4) add_contiguous_rows<kRows, 4>(p, k);
  for (; k < end; ++k) add_contiguous_rows<kRows, 1>(p, k);
}

// Multiples of the floats from column to column that addresses are made of; the compiler would keep a pointer a column.
struct ColumnSteps {
  std::int64_t one, three, five, seven;
  explicit ISOBIT_INLINE ColumnSteps(std::int64_t step) : one(step), three(3 * step), five(5 * step), seven(7 * step) {
    asm("" : "+r"(one), "+r"(three), "+r"(five), "+r"(seven));
  }
};

// Four terms of 8 columns as 4 vectors: halves loaded apart, so that no shuffle crosses them.
ISOBIT_INLINE void load_transposed4(const float* first, const ColumnSteps& step, __m256 (&out)[4]) {
  const auto columns = [](const float* i, const float* four_on) __attribute__((always_inline)) {
    return _mm256_insertf128_ps(_mm256_castps128_ps256(_mm_loadu_ps(i)), _mm_loadu_ps(four_on), 1);
  };
  const __m256 p0 = columns(first, first + 4 * step.one), p1 = columns(first + step.one, first + step.five);
  const __m256 p2 = columns(first + 2 * step.one, first + 2 * step.three);
  const __m256 p3 = columns(first + step.three, first + step.seven);
  const __m256 a = _mm256_unpacklo_ps(p0, p1), b = _mm256_unpackhi_ps(p0, p1);
  const __m256 c = _mm256_unpacklo_ps(p2, p3), d = _mm256_unpackhi_ps(p2, p3);
  out[0] = _mm256_shuffle_ps(a, c, 0x44), out[1] = _mm256_shuffle_ps(a, c, 0xee);
  out[2] = _mm256_shuffle_ps(b, d, 0x44), out[3] = _mm256_shuffle_ps(b, d, 0xee);
}

// b_k == 1: kGroups groups of 8 columns from column j on, a group's whole cache lines before the next group's (columns
// may share few cache sets), or with kFetches two groups' terms in turns. a: the leaf's terms of the first row, side by
// side; rows lie a_row apart.
template <int kRows, int kGroups, bool kFetches>
void sum_columns(const FewRows& p, const float* a, std::int64_t a_row, std::int64_t j) {
  constexpr int kTogether = kFetches ? 2 : 1;
  static_assert(kGroups % kTogether == 0);
  constexpr std::int64_t kEight = 8, kColumns = kGroups * kEight;
  const ColumnSteps step(p.b_column);
  const float* from = p.b + j * p.b_column + p.first;
  const float* ahead = p.b + (j + kColumns) * p.b_column + p.first * kColumns;  // what is read next, as it lies
  const float* group[kGroups];
  for (int g = 0; g < kGroups; ++g) group[g] = from + g * kEight * p.b_column;
  __m256 sum[kRows][kGroups];
  for (int r = 0; r < kRows; ++r)
    for (int g = 0; g < kGroups; ++g) sum[r][g] = _mm256_setzero_ps();
  std::int64_t k = 0;
  for (; k + 16 <= p.terms; k += 16) {
    if constexpr (kFetches) {
      for (std::int64_t i = 0; i < kColumns; ++i) __builtin_prefetch(ahead + k * kColumns + i * 16, 0, 1);
    }
#pragma GCC unroll 4
    for (int first = 0; first < kGroups; first += kTogether) {
#pragma GCC unroll 4
      for (int q = 0; q < 16; q += 4) {
        __m256 block[kTogether][4];
#pragma GCC unroll 2
        for (int g = 0; g < kTogether; ++g) load_transposed4(group[first + g] + q, step, block[g]);
#pragma GCC unroll 4
        for (int r = 0; r < kRows; ++r)
#pragma GCC unroll 4
          for (int i = 0; i < 4; ++i) {
            const __m256 factor = _mm256_set1_ps(a[r * a_row + k + q + i]);
#pragma GCC unroll 2
            for (int g = 0; g < kTogether; ++g)
              sum[r][first + g] = _mm256_fmadd_ps(factor, block[g][i], sum[r][first + g]);
          }
      }
    }
    for (int g = 0; g < kGroups; ++g) group[g] += 16;
  }
  for (int r = 0; r < kRows; ++r) {
    float* sums = p.sums + r * p.sums_row + j;
    for (int g = 0; g < kGroups; ++g) _mm256_storeu_ps(sums + g * kEight, sum[r][g]);
    for (std::int64_t t = k; t < p.terms; ++t)
      for (std::int64_t c = 0; c < kColumns; ++c)
        sums[c] = __builtin_fmaf(a[r * a_row + t], from[c * p.b_column + t], sums[c]);
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

// Columns of several groups at a time: their chains hide each other's latency. Of columns that lie further away than
// the second cache no more than 16, for more streams than that are read more slowly.
template <int kRows>
void sum_all_columns(const FewRows& p) {
  alignas(64) float copy[kRows * contract::kLeaf];
  const bool in_place = p.a_k == 1;
  const float* a = in_place ? p.a + p.first : copy;
  const std::int64_t a_row = in_place ? p.a_row : contract::kLeaf;
  for (int r = 0; !in_place && r < kRows; ++r)
    for (std::int64_t k = 0; k < p.terms; ++k) copy[r * a_row + k] = p.a[r * p.a_row + (p.first + k) * p.a_k];
  std::int64_t j = 0;
  if (p.near) {
    for (; j + 32 <= p.columns; j += 32) sum_columns<kRows, 4, false>(p, a, a_row, j);
  }
  for (; j + 16 <= p.columns; j += 16)
    p.b_column % 1024 == 0 ? sum_columns<kRows, 2, false>(p, a, a_row, j) : sum_columns<kRows, 2, true>(p, a, a_row, j);
  for (; j + 8 <= p.columns; j += 8) sum_columns<kRows, 1, false>(p, a, a_row, j);
  if (j < p.columns) sum_columns<kRows, 1, false>(p, a, a_row, p.columns - 8);  // some of them twice
}

template <int kRows>
void few_rows_leaf(const FewRows& p) {
  if (p.b_column == 1) return sum_contiguous_rows<kRows>(p);
  if (p.columns < 8) return sum_narrow<kRows>(p);
  sum_all_columns<kRows>(p);
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
