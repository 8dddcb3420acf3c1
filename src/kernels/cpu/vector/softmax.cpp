// Softmax and log-softmax over the lane count: along rows that are contiguous (inner = 1), or a register of
// neighbouring rows at a time.
#include <cmath>

#include "contract/extrema.h"
#include "contract/functions.h"
#include "contract/lane_sum.h"
#include "kernels/dispatch/kernel_table.h"
#include "kernels/cpu/vector/by_size.h"
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
  if (size <= kLeaf) {
    FloatLanes leaf[1];
    column_leaf<1>(
        size, 0.0f, [&](FloatLanes t, std::int64_t r, int) { return term(t, r); }, Plus{}, leaf);
    return leaf[0] + FloatLanes(0.0f);
  }
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

// ---- rows of so few elements that all of a register of rows are held in registers
// -------------------------------------------------------------------------------------------

constexpr int kFew = 8;

struct FirstTerms {  // each lane of a leaf has one term, which is its first step already
  static constexpr float kStart = 0.0f;
  static ISOBIT_INLINE FloatLanes step(FloatLanes, FloatLanes term) { return term; }
  ISOBIT_INLINE FloatLanes operator()(FloatLanes a, FloatLanes b) const { return a + b; }
};
template <int kSize, class Term>
ISOBIT_INLINE FloatLanes few_sum(Term term) {
  return short_leaf<FirstTerms, FloatLanes>(kSize, term) + FloatLanes(0.0f);
}
template <int kSize>
ISOBIT_INLINE FloatLanes few_maximum(const FloatLanes (&x)[kSize]) {
  FloatLanes m(-INFINITY);
  for (int r = 0; r < kSize; ++r) m = contract::maximum(m, x[r]);
  return m;
}

struct FewSoftmax {
  template <int kSize>
  static ISOBIT_INLINE void run(FloatLanes (&y)[kSize], const FloatLanes (&x)[kSize]) {
    const FloatLanes m = few_maximum(x), zero(0.0f);
    for (int r = 0; r < kSize; ++r) y[r] = contract::exp_below(x[r] - m);
    const FloatLanes sum = few_sum<kSize>([&](std::int64_t r) { return zero + y[r]; });
    for (int r = 0; r < kSize; ++r) y[r] = y[r] / sum;
  }
};
struct FewLogSoftmax {
  template <int kSize>
  static ISOBIT_INLINE void run(FloatLanes (&y)[kSize], const FloatLanes (&x)[kSize]) {
    const FloatLanes m = few_maximum(x), zero(0.0f);
    const FloatLanes log_sum =
        contract::log(few_sum<kSize>([&](std::int64_t r) { return zero + contract::exp_below(x[r] - m); }));
    for (int r = 0; r < kSize; ++r) y[r] = (x[r] - m) - log_sum;
  }
};
struct FewSoftmaxBackward {
  template <int kSize>
  static ISOBIT_INLINE void run(FloatLanes (&dx)[kSize], const FloatLanes (&dy)[kSize], const FloatLanes (&y)[kSize]) {
    const FloatLanes d = few_sum<kSize>([&](std::int64_t r) { return fma(dy[r], y[r], FloatLanes(0.0f)); });
    for (int r = 0; r < kSize; ++r) dx[r] = (dy[r] - d) * y[r];
  }
};
struct FewLogSoftmaxBackward {
  template <int kSize>
  static ISOBIT_INLINE void run(FloatLanes (&dx)[kSize], const FloatLanes (&dy)[kSize], const FloatLanes (&y)[kSize]) {
    const FloatLanes d = few_sum<kSize>([&](std::int64_t r) { return FloatLanes(0.0f) + dy[r]; });
    for (int r = 0; r < kSize; ++r) dx[r] = fma(-contract::exp(y[r]), d, dy[r]);
  }
};

// Neighbouring rows [0, rows): element r of them at x + r * stride.
template <class Formula, int kSize, class... Input>
void few_columns(std::int64_t rows, std::int64_t stride, float* y, const Input*... inputs) {
  struct Elements {
    FloatLanes of[kSize];
  };
  for_each_register(
      rows, [&](std::int64_t i, auto part) __attribute__((always_inline)) {
        const auto elements = [&](const float* x) __attribute__((always_inline)) {
          Elements e;
          for (int r = 0; r < kSize; ++r) e.of[r] = fetch(x + i + r * stride, part);
          return e;
        };
        Elements result;
        Formula::template run<kSize>(result.of, elements(inputs).of...);
        for (int r = 0; r < kSize; ++r) put(y + i + r * stride, result.of[r], part);
      });
}

template <class Formula, class... Input>
void few_in_columns(const SoftmaxShape& s, float* y, const Input*... inputs) {
  if (s.size == 0) return;
  static constexpr auto kFunctions =
      by_size<kFew>([](auto size) { return &few_columns<Formula, decltype(size)::value, Input...>; });
  constexpr std::int64_t kBlock = 1024;  // rows
  const std::int64_t blocks = (s.inner + kBlock - 1) / kBlock;
  const std::int64_t smallest = kWorthAThread / (s.size * (s.inner < kBlock ? s.inner : kBlock)) + 1;
  parallel_for(0, s.outer * blocks, smallest, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) {
      const std::int64_t at = i % blocks * kBlock, first = i / blocks * s.size * s.inner + at;
      kFunctions.of[s.size](s.inner - at < kBlock ? s.inner - at : kBlock, s.inner, y + first, inputs + first...);
    }
  });
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
  if (s.inner > 1 && s.size <= kFew) return few_in_columns<FewSoftmax>(s, y, x);
  for_each_row(
      s, [&](std::int64_t at, std::int64_t rows) { softmax_rows(x + at, y + at, s.size, rows); },
      [&](std::int64_t at, auto part) { softmax_columns(x + at, y + at, s.size, s.inner, part); });
}

void log_softmax(const SoftmaxShape& s, const float* x, float* y) {
  if (s.inner > 1 && s.size <= kFew) return few_in_columns<FewLogSoftmax>(s, y, x);
  for_each_row(
      s, [&](std::int64_t at, std::int64_t rows) { log_softmax_rows(x + at, y + at, s.size, rows); },
      [&](std::int64_t at, auto part) { log_softmax_columns(x + at, y + at, s.size, s.inner, part); });
}

void softmax_backward(const SoftmaxShape& s, const float* dy, const float* y, float* dx) {
  if (s.inner > 1 && s.size <= kFew) return few_in_columns<FewSoftmaxBackward>(s, dx, dy, y);
  for_each_row(
      s, [&](std::int64_t at, std::int64_t rows) { softmax_backward_rows(dy + at, y + at, dx + at, s.size, rows); },
      [&](std::int64_t at, auto part) { softmax_backward_columns(dy + at, y + at, dx + at, s.size, s.inner, part); });
}

void log_softmax_backward(const SoftmaxShape& s, const float* dy, const float* y, float* dx) {
  if (s.inner > 1 && s.size <= kFew) return few_in_columns<FewLogSoftmaxBackward>(s, dx, dy, y);
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
