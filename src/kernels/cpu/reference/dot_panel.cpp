#include "kernels/cpu/reference/dot_panel.h"

#include <cmath>

namespace isobit::kernels::reference {
namespace {

template <class T>
inline __attribute__((always_inline)) void outer_product(T* __restrict chain, const T* __restrict row,
                                                         std::int64_t rows, const T* __restrict column) {
  for (std::int64_t r = 0; r < rows; ++r) {
    const T factor = row[r];
    for (std::int64_t c = 0; c < kPanelColumns; ++c) {
      T& t = chain[r * kPanelColumns + c];
      t = std::fma(factor, column[c], t);
    }
  }
}

template <class T>
void outer_product_baseline(T* chain, const T* row, std::int64_t rows, const T* column) {
  outer_product(chain, row, rows, column);
}

#if defined(__x86_64__)
// Baseline x86-64 has no fma instruction and libm's function costs a call per term: the same loop again, for
// machines that have one. A pointer of our own and no target_clones: those need ifuncs, which run before a
// sanitizer is ready.
template <class T>
__attribute__((target("avx2,fma"))) void outer_product_with_fma(T* chain, const T* row, std::int64_t rows,
                                                                const T* column) {
  outer_product(chain, row, rows, column);
}

template <class T>
auto* choose() {
  return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") ? outer_product_with_fma<T>
                                                                         : outer_product_baseline<T>;
}
#else
template <class T>
auto* choose() {
  return outer_product_baseline<T>;
}
#endif

}  // namespace

void add_outer_product(float* chain, const float* row, std::int64_t rows, const float* column) {
  static const auto function = choose<float>();
  function(chain, row, rows, column);
}
void add_outer_product(double* chain, const double* row, std::int64_t rows, const double* column) {
  static const auto function = choose<double>();
  function(chain, row, rows, column);
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
