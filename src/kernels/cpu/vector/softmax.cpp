// Softmax and log-softmax over the lane count: along rows that are contiguous (inner = 1), or a register of
// neighbouring rows at a time.
#include <cmath>

#include "contract/extrema.h"
#include "contract/functions.h"
#include "contract/lane_sum.h"
#include "kernels/dispatch/kernel_table.h"
#include "kernels/cpu/vector/lane_leaf.h"
#include "kernels/cpu/vector/lane_map.h"
#include "kernels/threads.h"

namespace isobit::kernels::ISOBIT_ISA {
namespace {

using contract::kLeaf;
constexpr std::int64_t kWorthAThread = 4096;  // elements

struct Larger {
  template <class F>
  ISOBIT_INLINE F operator()(F a, F b) const {
    return contract::maximum(a, b);
  }
};

// ---- one contiguous row
// ------------------------------------------------------------------------------------

// term(t, i, part) takes elements [i, i + kLanes) of the row into the lanes t.
template <class Term>
ISOBIT_INLINE float row_sum(std::int64_t size, Term term) {
  if (size <= kLeaf) return leaf_sum(size, term) + 0.0f;
  contract::PairwiseTreeOf<float> tree;
  for (std::int64_t begin = 0; begin < size; begin += kLeaf) {
    const std::int64_t n = size - begin < kLeaf ? size - begin : kLeaf;
    tree.add(leaf_sum(n, [&](FloatLanes t, std::int64_t i, auto part) { return term(t, begin + i, part); }));
  }
  return tree.result() + 0.0f;
}

float row_maximum(const float* x, std::int64_t size) {
  const auto step = [x](FloatLanes t, std::int64_t i, auto part) {
    return contract::maximum(t, fetch(x + i, part, -INFINITY));
  };
  return leaf_value(size, -INFINITY, step, Larger{});
}

// y = e^(x - m) of a row; returns their sum. In rows shorter than a group the sum takes each register as it comes.
float exponentials(const float* x, float m, float* y, std::int64_t size) {
  if (size < kLanesOf<FloatGroup>) {
    return row_sum(size, [=](FloatLanes t, std::int64_t i, auto part) {
      const FloatLanes e = contract::exp_below(fetch(x + i, part) - FloatLanes(m));
      put(y + i, e, part);
      return t + keep(e, part);
    });
  }
  const auto from_maximum = [m](auto v) __attribute__((always_inline)) {
    return contract::exp_below(v - decltype(v)(m));
  };
  map_range<FloatGroup>(from_maximum, y, 0, size, x);
  return row_sum(size, [=](FloatLanes t, std::int64_t i, auto part) { return t + fetch(y + i, part); });
}

void softmax_row(const float* x, float* y, std::int64_t size) {
  const FloatLanes sum(exponentials(x, row_maximum(x, size), y, size));
  for_each_register(size, [&](std::int64_t i, auto part) { put(y + i, fetch(y + i, part) / sum, part); });
}

// The exponentials go where the results will.
void log_softmax_row(const float* x, float* y, std::int64_t size) {
  const float m = row_maximum(x, size);
  const float log_sum = contract::log(exponentials(x, m, y, size));
  const auto formula = [=](auto v) __attribute__((always_inline)) {
    using Lane = decltype(v);
    return (v - Lane(m)) - Lane(log_sum);
  };
  map_range<FloatGroup>(formula, y, 0, size, x);
}

void softmax_backward_row(const float* dy, const float* y, float* dx, std::int64_t size) {
  const FloatLanes d(row_sum(
      size, [=](FloatLanes t, std::int64_t i, auto part) { return fma(fetch(dy + i, part), fetch(y + i, part), t); }));
  for_each_register(
      size, [&](std::int64_t i, auto part) { put(dx + i, (fetch(dy + i, part) - d) * fetch(y + i, part), part); });
}

void log_softmax_backward_row(const float* dy, const float* y, float* dx, std::int64_t size) {
  const FloatLanes d(row_sum(size, [=](FloatLanes t, std::int64_t i, auto part) { return t + fetch(dy + i, part); }));
  for_each_register(size, [&](std::int64_t i, auto part) {
    put(dx + i, fma(-contract::exp(fetch(y + i, part)), d, fetch(dy + i, part)), part);
  });
}

// ---- a register of neighbouring rows: element r of them at x + r * stride
// --------------------------------------

// term(t, r) takes element r of every row into their lanes.
template <class Term>
ISOBIT_INLINE FloatLanes column_sum(std::int64_t size, Term term) {
  contract::PairwiseTreeOf<FloatLanes> tree;
  for (std::int64_t begin = 0; begin < size; begin += kLeaf) {
    FloatLanes leaf[1];
    column_leaf<1>(
        size - begin < kLeaf ? size - begin : kLeaf, 0.0f,
        [&](FloatLanes t, std::int64_t r, int) { return term(t, begin + r); }, Plus{}, leaf);
    tree.add(leaf[0]);
  }
  return tree.result() + FloatLanes(0.0f);  // size > 0: there is a leaf
}

template <class Extent>
ISOBIT_INLINE FloatLanes column_maximum(const float* x, std::int64_t size, std::int64_t stride, Extent part) {
  FloatLanes m(-INFINITY);
  for (std::int64_t r = 0; r < size; ++r) m = contract::maximum(m, fetch(x + r * stride, part));
  return m;
}

template <class Extent>
ISOBIT_INLINE void softmax_columns(const float* x, float* y, std::int64_t size, std::int64_t stride, Extent part) {
  const FloatLanes m = column_maximum(x, size, stride, part);
  const FloatLanes sum = column_sum(size, [=](FloatLanes t, std::int64_t r) {
    const FloatLanes e = contract::exp_below(fetch(x + r * stride, part) - m);
    put(y + r * stride, e, part);
    return t + e;
  });
  for (std::int64_t r = 0; r < size; ++r) put(y + r * stride, fetch(y + r * stride, part) / sum, part);
}

template <class Extent>
ISOBIT_INLINE void log_softmax_columns(const float* x, float* y, std::int64_t size, std::int64_t stride, Extent part) {
  const FloatLanes m = column_maximum(x, size, stride, part);
  const FloatLanes log_sum = contract::log(column_sum(
      size, [=](FloatLanes t, std::int64_t r) { return t + contract::exp_below(fetch(x + r * stride, part) - m); }));
  for (std::int64_t r = 0; r < size; ++r) put(y + r * stride, (fetch(x + r * stride, part) - m) - log_sum, part);
}

template <class Extent>
ISOBIT_INLINE void softmax_backward_columns(const float* dy, const float* y, float* dx, std::int64_t size,
                                            std::int64_t stride, Extent part) {
  const FloatLanes d = column_sum(size, [=](FloatLanes t, std::int64_t r) {
    return fma(fetch(dy + r * stride, part), fetch(y + r * stride, part), t);
  });
  for (std::int64_t r = 0; r < size; ++r) {
    put(dx + r * stride, (fetch(dy + r * stride, part) - d) * fetch(y + r * stride, part), part);
  }
}

template <class Extent>
ISOBIT_INLINE void log_softmax_backward_columns(const float* dy, const float* y, float* dx, std::int64_t size,
                                                std::int64_t stride, Extent part) {
  const FloatLanes d = column_sum(size, [=](FloatLanes t, std::int64_t r) { return t + fetch(dy + r * stride, part); });
  for (std::int64_t r = 0; r < size; ++r) {
    const FloatLanes e = contract::exp(fetch(y + r * stride, part));
    put(dx + r * stride, fma(-e, d, fetch(dy + r * stride, part)), part);
  }
}

// ---- entry points
// -------------------------------------------------------------------------------------------

// row(first) for contiguous rows; columns(first, part) for registers of neighbouring ones.
template <class Row, class Columns>
void for_each_row(const SoftmaxShape& s, Row row, Columns columns) {
  if (s.size == 0) return;
  if (s.inner == 1) {
    return parallel_for(0, s.outer, kWorthAThread / s.size + 1, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t i = begin; i < end; ++i) row(i * s.size);
    });
  }
  const std::int64_t registers = (s.inner + kLanes - 1) / kLanes;
  const std::int64_t smallest = kWorthAThread / (s.size * kLanes) + 1;
  parallel_for(0, s.outer * registers, smallest, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) {
      const std::int64_t at = i % registers * kLanes, first = i / registers * s.size * s.inner + at;
      if (at + kLanes <= s.inner) {
        columns(first, Whole{});
      } else {
        columns(first, Part{s.inner - at});
      }
    }
  });
}

void softmax(const SoftmaxShape& s, const float* x, float* y) {
  for_each_row(
      s, [&](std::int64_t at) { softmax_row(x + at, y + at, s.size); },
      [&](std::int64_t at, auto part) { softmax_columns(x + at, y + at, s.size, s.inner, part); });
}

void log_softmax(const SoftmaxShape& s, const float* x, float* y) {
  for_each_row(
      s, [&](std::int64_t at) { log_softmax_row(x + at, y + at, s.size); },
      [&](std::int64_t at, auto part) { log_softmax_columns(x + at, y + at, s.size, s.inner, part); });
}

void softmax_backward(const SoftmaxShape& s, const float* dy, const float* y, float* dx) {
  for_each_row(
      s, [&](std::int64_t at) { softmax_backward_row(dy + at, y + at, dx + at, s.size); },
      [&](std::int64_t at, auto part) { softmax_backward_columns(dy + at, y + at, dx + at, s.size, s.inner, part); });
}

void log_softmax_backward(const SoftmaxShape& s, const float* dy, const float* y, float* dx) {
  for_each_row(
      s, [&](std::int64_t at) { log_softmax_backward_row(dy + at, y + at, dx + at, s.size); },
      [&](std::int64_t at, auto part) {
        log_softmax_backward_columns(dy + at, y + at, dx + at, s.size, s.inner, part);
      });
}

}  // namespace

void fill_softmax(KernelTable& t) {
  t.softmax = softmax;
  t.log_softmax = log_softmax;
  t.softmax_backward = softmax_backward;
  t.log_softmax_backward = log_softmax_backward;
}

}  // namespace isobit::kernels::ISOBIT_ISA
