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

// y = e^(x - m) of each row, and the rows' sums; at most kRowsTogether rows.
void exponentials(const float* x, const float* m, float* y, std::int64_t size, std::int64_t rows, float* sums) {
  for (std::int64_t r = 0; r < rows; ++r) {
    const auto from_maximum = [m = m[r]](auto v) __attribute__((always_inline)) {
      return contract::exp_below(v - decltype(v)(m));
    };
    map_range<FloatGroup>(from_maximum, y + r * size, 0, size, x + r * size);
  }
  for (std::int64_t r = 0; r < rows; ++r) {
    const float* const e = y + r * size;
    sums[r] = row_sum(size, [=](FloatLanes t, std::int64_t i, auto part) { return t + fetch(e + i, part); });
  }
}

void softmax_rows(const float* x, float* y, std::int64_t size, std::int64_t rows) {
  float m[kRowsTogether], sums[kRowsTogether];
  for (std::int64_t r = 0; r < rows; ++r) m[r] = row_maximum(x + r * size, size);
  exponentials(x, m, y, size, rows, sums);
  for (std::int64_t r = 0; r < rows; ++r) {
    float* const e = y + r * size;
    const FloatLanes sum(sums[r]);
    for_each_register(size, [&](std::int64_t i, auto part) { put(e + i, fetch(e + i, part) / sum, part); });
  }
}

// The exponentials go where the results will.
void log_softmax_rows(const float* x, float* y, std::int64_t size, std::int64_t rows) {
  float m[kRowsTogether], sums[kRowsTogether];
  for (std::int64_t r = 0; r < rows; ++r) m[r] = row_maximum(x + r * size, size);
  exponentials(x, m, y, size, rows, sums);
  for (std::int64_t r = 0; r < rows; ++r) {
    const auto formula = [ m = m[r], log_sum = contract::log(sums[r]) ](auto v) __attribute__((always_inline)) {
      using Lane = decltype(v);
      return (v - Lane(m)) - Lane(log_sum);
    };
    map_range<FloatGroup>(formula, y + r * size, 0, size, x + r * size);
  }
}

void softmax_backward_rows(const float* dy, const float* y, float* dx, std::int64_t size, std::int64_t rows) {
  float d[kRowsTogether];
  for (std::int64_t r = 0; r < rows; ++r) {
    const float *const a = dy + r * size, *const b = y + r * size;
    d[r] = row_sum(
        size, [=](FloatLanes t, std::int64_t i, auto part) { return fma(fetch(a + i, part), fetch(b + i, part), t); });
  }
  for (std::int64_t r = 0; r < rows; ++r) {
    const auto formula = [d = d[r]](auto u, auto v) __attribute__((always_inline)) { return (u - decltype(u)(d)) * v; };
    map_range<FloatGroup>(formula, dx + r * size, 0, size, dy + r * size, y + r * size);
  }
}

void log_softmax_backward_rows(const float* dy, const float* y, float* dx, std::int64_t size, std::int64_t rows) {
  float d[kRowsTogether];
  for (std::int64_t r = 0; r < rows; ++r) {
    const float* const a = dy + r * size;
    d[r] = row_sum(size, [=](FloatLanes t, std::int64_t i, auto part) { return t + fetch(a + i, part); });
  }
  for (std::int64_t r = 0; r < rows; ++r) {
    const auto formula = [d = d[r]](auto u, auto v) __attribute__((always_inline)) {
      return fma(-contract::exp(v), decltype(u)(d), u);
    };
    map_range<FloatGroup>(formula, dx + r * size, 0, size, dy + r * size, y + r * size);
  }
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

// row(first element, rows) for contiguous rows, some at a time; columns(first, part) for registers of neighbouring
// ones.
template <class Row, class Columns>
void for_each_row(const SoftmaxShape& s, Row row, Columns columns) {
  if (s.size == 0) return;
  if (s.inner == 1) {
    return parallel_for(0, s.outer, kWorthAThread / s.size + 1, [&](std::int64_t begin, std::int64_t end) {
      rows_in_turn(s.size, begin, end, [&](std::int64_t r, std::int64_t rows) { row(r * s.size, rows); });
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
      s, [&](std::int64_t at, std::int64_t rows) { softmax_rows(x + at, y + at, s.size, rows); },
      [&](std::int64_t at, auto part) { softmax_columns(x + at, y + at, s.size, s.inner, part); });
}

void log_softmax(const SoftmaxShape& s, const float* x, float* y) {
  for_each_row(
      s, [&](std::int64_t at, std::int64_t rows) { log_softmax_rows(x + at, y + at, s.size, rows); },
      [&](std::int64_t at, auto part) { log_softmax_columns(x + at, y + at, s.size, s.inner, part); });
}

void softmax_backward(const SoftmaxShape& s, const float* dy, const float* y, float* dx) {
  for_each_row(
      s, [&](std::int64_t at, std::int64_t rows) { softmax_backward_rows(dy + at, y + at, dx + at, s.size, rows); },
      [&](std::int64_t at, auto part) { softmax_backward_columns(dy + at, y + at, dx + at, s.size, s.inner, part); });
}

void log_softmax_backward(const SoftmaxShape& s, const float* dy, const float* y, float* dx) {
  for_each_row(
      s, [&](std::int64_t at, std::int64_t rows) { log_softmax_backward_rows(dy + at, y + at, dx + at, s.size, rows); },
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
