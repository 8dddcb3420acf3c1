// Softmax and log-softmax, row after row, as softmax.h writes it.
#include <cmath>
#include <limits>

#include "contract/extrema.h"
#include "contract/functions_binary64.h"
#include "contract/functions.h"
#include "contract/lane_sum.h"
#include "kernels/cpu/reference/plain.h"
#include "kernels/dispatch/kernel_table.h"
#include "kernels/threads.h"

namespace isobit::kernels::ISOBIT_PLAIN {
namespace {

// function(first, stride): the row is elements first + i * stride, i < size.
template <class Function>
void for_each_row(const SoftmaxShape& s, Function function) {
  parallel_for(0, s.outer * s.inner, 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t row = begin; row < end; ++row) {
      function(row / s.inner * s.size * s.inner + row % s.inner);
    }
  });
}

template <class T>
T row_maximum(const SoftmaxShape& s, const T* x) {
  T m = -std::numeric_limits<T>::infinity();
  for (std::int64_t i = 0; i < s.size; ++i) m = contract::maximum(m, x[i * s.inner]);
  return m;
}

template <class T>
T sum_of_exponentials(const SoftmaxShape& s, const T* x, T m) {
  contract::LaneSumOf<T> sum;
  for (std::int64_t i = 0; i < s.size; ++i) sum.add(contract::exp(x[i * s.inner] - m));
  return sum.result();
}

template <class T>
void softmax(const SoftmaxShape& s, const T* x, T* y) {
  for_each_row(s, [&](std::int64_t first) {
    const T m = row_maximum(s, x + first);
    contract::LaneSumOf<T> exponentials;
    for (std::int64_t i = 0; i < s.size; ++i) {
      const std::int64_t at = first + i * s.inner;
      y[at] = contract::exp(x[at] - m);
      exponentials.add(y[at]);
    }
    const T sum = exponentials.result();
    for (std::int64_t i = 0; i < s.size; ++i) y[first + i * s.inner] = y[first + i * s.inner] / sum;
  });
}

template <class T>
void log_softmax(const SoftmaxShape& s, const T* x, T* y) {
  for_each_row(s, [&](std::int64_t first) {
    const T m = row_maximum(s, x + first);
    const T log_sum = contract::log(sum_of_exponentials(s, x + first, m));
    for (std::int64_t i = 0; i < s.size; ++i) {
      const std::int64_t at = first + i * s.inner;
      const T t = x[at] - m;
      y[at] = t - log_sum;
    }
  });
}

template <class T>
void softmax_backward(const SoftmaxShape& s, const T* dy, const T* y, T* dx) {
  for_each_row(s, [&](std::int64_t first) {
    contract::LaneSumOf<T> dot;
    for (std::int64_t i = 0; i < s.size; ++i) dot.add_product(dy[first + i * s.inner], y[first + i * s.inner]);
    const T d = dot.result();
    for (std::int64_t i = 0; i < s.size; ++i) {
      const std::int64_t at = first + i * s.inner;
      dx[at] = (dy[at] - d) * y[at];
    }
  });
}

template <class T>
void log_softmax_backward(const SoftmaxShape& s, const T* dy, const T* y, T* dx) {
  for_each_row(s, [&](std::int64_t first) {
    contract::LaneSumOf<T> sum;
    for (std::int64_t i = 0; i < s.size; ++i) sum.add(dy[first + i * s.inner]);
    const T d = sum.result();
    for (std::int64_t i = 0; i < s.size; ++i) {
      const std::int64_t at = first + i * s.inner;
      dx[at] = std::fma(-contract::exp(y[at]), d, dy[at]);
    }
  });
}

template <class T, class Table>
void fill_softmax(Table& t) {
  t.softmax = softmax<T>;
  t.log_softmax = log_softmax<T>;
  t.softmax_backward = softmax_backward<T>;
  t.log_softmax_backward = log_softmax_backward<T>;
}

}  // namespace

#ifndef ISOBIT_LANES
void fill_softmax(KernelTable& t) { fill_softmax<float>(t); }
#endif
void fill_softmax(HostTable& t) { fill_softmax<double>(t); }

}  // namespace isobit::kernels::ISOBIT_PLAIN
