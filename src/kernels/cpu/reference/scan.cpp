// Products and running values.
#include "kernels/scan.h"

#include "contract/chains.h"
#include "contract/functions_wide.h"
#include "kernels/cpu/reference/plain.h"
#include "kernels/dispatch/kernel_table.h"
#include "kernels/threads.h"

namespace isobit::kernels::ISOBIT_PLAIN {
namespace {

// line(first): elements first, first + inner, ... of the array.
template <class Line>
void each_line(std::int64_t outer, std::int64_t size, std::int64_t inner, std::int64_t grain, Line line) {
  parallel_for(0, outer * inner, grain / (size + 1) + 1, [=](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) line(i, i / inner * size * inner + i % inner);
  });
}

// Some lines side by side: one line's chain alone would wait for each of its multiplications.
constexpr std::int64_t kLines = 8;
template <class T>
void product(std::int64_t outer, std::int64_t size, std::int64_t inner, const T* x, T* y) {
  const std::int64_t lines = outer * inner;
  parallel_for(0, (lines + kLines - 1) / kLines, 1024 / (size + 1) + 1, [=](std::int64_t first, std::int64_t last) {
    for (std::int64_t line = first * kLines; line < last * kLines && line < lines; line += kLines) {
      const std::int64_t count = lines - line < kLines ? lines - line : kLines;
      const T* from[kLines];
      for (std::int64_t j = 0; j < kLines; ++j) {
        const std::int64_t i = line + (j < count ? j : 0);
        from[j] = x + i / inner * size * inner + i % inner;
      }
      contract::PairwiseTreeOf<contract::FactorOf<T>> tree[kLines];
      for (std::int64_t begin = 0; begin < size; begin += contract::kLeaf) {
        contract::FactorOf<T> leaf[kLines];
        const std::int64_t end = size < begin + contract::kLeaf ? size : begin + contract::kLeaf;
        for (std::int64_t k = begin; k < end; ++k) {
#pragma GCC unroll 8  // chains in registers
          for (std::int64_t j = 0; j < kLines; ++j) leaf[j] = leaf[j] + contract::FactorOf<T>{from[j][k * inner]};
        }
        for (std::int64_t j = 0; j < kLines; ++j) tree[j].add(leaf[j]);
      }
      for (std::int64_t j = 0; j < count; ++j) y[line + j] = tree[j].result().value;
    }
  });
}

#ifndef ISOBIT_LANES  // of binary32 alone
void running_log_sum(std::int64_t outer, std::int64_t size, std::int64_t inner, const float* x, float* y) {
  each_line(outer, size, inner, 128, [=](std::int64_t, std::int64_t first) {
    double sum = -contract::kInfinityWide;
    for (std::int64_t k = 0; k < size; ++k) {
      sum = contract::log_add_exp_of(sum, static_cast<double>(x[first + k * inner]));
      y[first + k * inner] = contract::rounded(sum);
    }
  });
}
#endif

template <class T>
void running_extremum(bool largest, std::int64_t outer, std::int64_t size, std::int64_t inner, const T* x, T* values,
                      std::int64_t* places) {
  each_line(outer, size, inner, 4096, [=](std::int64_t, std::int64_t first) {
    std::int64_t best = 0;
    for (std::int64_t k = 0; k < size; ++k) {
      if (contract::takes_over(largest, x[first + k * inner], x[first + best * inner])) best = k;
      values[first + k * inner] = x[first + best * inner];
      places[first + k * inner] = best;
    }
  });
}

}  // namespace

#ifndef ISOBIT_LANES
void fill_scan(KernelTable& t) {
  t.product = product<float>;
  t.running_log_sum = running_log_sum;
  t.running_extremum = running_extremum<float>;
}
#endif
void fill_scan(HostTable& t) {
  t.product = product<double>;
  t.running_extremum = running_extremum<double>;
}

}  // namespace isobit::kernels::ISOBIT_PLAIN
