// Softmax and log-softmax, row after row, as softmax.h writes it.
#include <cmath>

#include "contract/extrema.h"
#include "contract/functions.h"
#include "contract/lane_sum.h"
#include "kernels/dispatch/kernel_table.h"
#include "kernels/threads.h"

namespace isobit::kernels::reference {
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

float row_maximum(const SoftmaxShape& s, const float* x) {
  float m = -INFINITY;
  for (std::int64_t i = 0; i < s.size; ++i) m = contract::maximum(m, x[i * s.inner]);
  return m;
}

float sum_of_exponentials(const SoftmaxShape& s, const float* x, float m) {
  contract::LaneSum sum;
  for (std::int64_t i = 0; i < s.size; ++i) sum.add(contract::exp(x[i * s.inner] - m));
  return sum.result();
}

void softmax(const SoftmaxShape& s, const float* x, float* y) {
  for_each_row(s, [&](std::int64_t first) {
    const float m = row_maximum(s, x + first);
    const float sum = sum_of_exponentials(s, x + first, m);
    for (std::int64_t i = 0; i < s.size; ++i) {
      const std::int64_t at = first + i * s.inner;
      y[at] = contract::exp(x[at] - m) / sum;
    }
  });
}

void log_softmax(const SoftmaxShape& s, const float* x, float* y) {
  for_each_row(s, [&](std::int64_t first) {
    const float m = row_maximum(s, x + first);
    const float log_sum = contract::log(sum_of_exponentials(s, x + first, m));
    for (std::int64_t i = 0; i < s.size; ++i) {
      const std::int64_t at = first + i * s.inner;
      const float t = x[at] - m;
      y[at] = t - log_sum;
    }
  });
}

void softmax_backward(const SoftmaxShape& s, const float* dy, const float* y, float* dx) {
  for_each_row(s, [&](std::int64_t first) {
    contract::LaneSum dot;
    for (std::int64_t i = 0; i < s.size; ++i) dot.add_product(dy[first + i * s.inner], y[first + i * s.inner]);
    const float d = dot.result();
    for (std::int64_t i = 0; i < s.size; ++i) {
      const std::int64_t at = first + i * s.inner;
      dx[at] = (dy[at] - d) * y[at];
    }
  });
}

void log_softmax_backward(const SoftmaxShape& s, const float* dy, const float* y, float* dx) {
  for_each_row(s, [&](std::int64_t first) {
    contract::LaneSum sum;
    for (std::int64_t i = 0; i < s.size; ++i) sum.add(dy[first + i * s.inner]);
    const float d = sum.result();
    for (std::int64_t i = 0; i < s.size; ++i) {
      const std::int64_t at = first + i * s.inner;
      dx[at] = std::fma(-contract::exp(y[at]), d, dy[at]);
    }
  });
}

}  // namespace

void fill_softmax(KernelTable& t) {
  t.softmax = softmax;
  t.log_softmax = log_softmax;
  t.softmax_backward = softmax_backward;
  t.log_softmax_backward = log_softmax_backward;
}

}  // namespace isobit::kernels::reference
