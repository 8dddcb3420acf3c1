#include "kernels/cpu/reference/dot_panel.h"

#include <cmath>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace isobit::kernels::reference {
namespace {

// What a chain begins with, and what is done with its end.
enum class Chain { goes_on, is_added };

template <Chain kChain, class T>
void plain_products(T* chain, const T* row, std::int64_t rows, const T* column, std::int64_t terms) {
  if constexpr (kChain == Chain::is_added) {
    for (std::int64_t r = 0; r < rows; ++r) {
      for (std::int64_t c = 0; c < kPanelColumns; ++c) {
        T t(0);
        for (std::int64_t k = 0; k < terms; ++k)
          t = std::fma(row[k * kPanelRows + r], column[k * kPanelColumns + c], t);
        chain[r * kPanelColumns + c] = chain[r * kPanelColumns + c] + t;
      }
    }
    return;
  }
  for (std::int64_t k = 0; k < terms; ++k) {
    for (std::int64_t r = 0; r < rows; ++r) {
      for (std::int64_t c = 0; c < kPanelColumns; ++c) {
        T& t = chain[r * kPanelColumns + c];
        t = std::fma(row[k * kPanelRows + r], column[k * kPanelColumns + c], t);
      }
    }
  }
}

#if defined(__x86_64__)
// Baseline x86-64 has no fma instruction and libm's function costs a call per term: the same chains again, for machines
// that have one, some of them in registers. A pointer of our own and no target_clones: those need ifuncs, which run
// before a sanitizer is ready.
#define ISOBIT_WITH_FMA __attribute__((target("avx2,fma"), always_inline)) inline
ISOBIT_WITH_FMA __m256 load(const float* p) { return _mm256_loadu_ps(p); }
ISOBIT_WITH_FMA __m256d load(const double* p) { return _mm256_loadu_pd(p); }
ISOBIT_WITH_FMA void store(float* p, __m256 v) { _mm256_storeu_ps(p, v); }
ISOBIT_WITH_FMA void store(double* p, __m256d v) { _mm256_storeu_pd(p, v); }
ISOBIT_WITH_FMA __m256 step(float a, __m256 b, __m256 t) { return _mm256_fmadd_ps(_mm256_set1_ps(a), b, t); }
ISOBIT_WITH_FMA __m256 sum(const float* p, __m256 t) { return _mm256_add_ps(load(p), t); }
ISOBIT_WITH_FMA __m256d sum(const double* p, __m256d t) { return _mm256_add_pd(load(p), t); }
ISOBIT_WITH_FMA __m256d step(double a, __m256d b, __m256d t) { return _mm256_fmadd_pd(_mm256_set1_pd(a), b, t); }

// `kRows` rows and two registers of columns.
template <int kRows, Chain kChain, class T>
ISOBIT_WITH_FMA void tile(T* chain, const T* row, const T* column, std::int64_t terms) {
  constexpr std::int64_t kLanes = 32 / sizeof(T);
  decltype(load(column)) t[kRows][2];
#pragma GCC unroll 4
  for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 2
    for (int j = 0; j < 2; ++j) {
      const T* const begin = chain + r * kPanelColumns + j * kLanes;
      t[r][j] = kChain == Chain::goes_on ? load(begin) : decltype(load(begin)){};
    }
  }
  for (std::int64_t k = 0; k < terms; ++k) {
    const auto first = load(column + k * kPanelColumns), second = load(column + k * kPanelColumns + kLanes);
#pragma GCC unroll 4
    for (int r = 0; r < kRows; ++r) {
      t[r][0] = step(row[k * kPanelRows + r], first, t[r][0]);
      t[r][1] = step(row[k * kPanelRows + r], second, t[r][1]);
    }
  }
#pragma GCC unroll 4
  for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 2
    for (int j = 0; j < 2; ++j) {
      T* const end = chain + r * kPanelColumns + j * kLanes;
      store(end, kChain == Chain::goes_on ? t[r][j] : sum(end, t[r][j]));
    }
  }
}
template <Chain kChain, class T>
__attribute__((target("avx2,fma"))) void products_with_fma(T* chain, const T* row, std::int64_t rows, const T* column,
                                                           std::int64_t terms) {
  constexpr std::int64_t kWidth = 2 * 32 / sizeof(T);
  for (std::int64_t c = 0; c < kPanelColumns; c += kWidth) {
    std::int64_t r = 0;
    for (; r + 4 <= rows; r += 4) tile<4, kChain>(chain + r * kPanelColumns + c, row + r, column + c, terms);
    for (; r < rows; ++r) tile<1, kChain>(chain + r * kPanelColumns + c, row + r, column + c, terms);
  }
}

template <class T, Chain kChain = Chain::goes_on>
auto* choose() {
  return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") ? products_with_fma<kChain, T>
                                                                         : plain_products<kChain, T>;
}
#else
template <class T, Chain kChain = Chain::goes_on>
auto* choose() {
  return plain_products<kChain, T>;
}
#endif

}  // namespace

void add_outer_products(float* chain, const float* row, std::int64_t rows, const float* column, std::int64_t terms) {
  static const auto function = choose<float>();
  function(chain, row, rows, column, terms);
}
void add_outer_products(double* chain, const double* row, std::int64_t rows, const double* column, std::int64_t terms) {
  static const auto function = choose<double>();
  function(chain, row, rows, column, terms);
}

void add_chains(float* sum, const float* row, std::int64_t rows, const float* column, std::int64_t terms) {
  static const auto function = choose<float, Chain::is_added>();
  function(sum, row, rows, column, terms);
}

template <class T>
void PanelTree<T>::add(const T* leaf) {
  std::vector<T> sum(leaf, leaf + size_);
  std::size_t level = 0;
  for (std::int64_t n = count_++; n & 1; n >>= 1, ++level) {
    for (std::size_t i = 0; i < sum.size(); ++i) sum[i] = partial_[level][i] + sum[i];
  }
  if (level == partial_.size()) partial_.emplace_back();
  partial_[level] = std::move(sum);
}

template <class T>
void PanelTree<T>::result(T* out) const {
  std::fill(out, out + size_, T(0));
  bool any = false;
  for (std::size_t level = 0; level < partial_.size(); ++level) {
    if (!(count_ >> level & 1)) continue;
    const std::vector<T>& left = partial_[level];
    for (std::size_t i = 0; i < left.size(); ++i) out[i] = any ? left[i] + out[i] : left[i];
    any = true;
  }
  for (std::int64_t i = 0; i < size_; ++i) out[i] += T(0);
}

template class PanelTree<float>;
template class PanelTree<double>;

}  // namespace isobit::kernels::reference
