// Additions by index and running sums. Every host uses these: what they cost is memory, and a chain has no lanes.
#include "kernels/indexed.h"

#include <cmath>

#include "contract/pairwise_tree.h"
#include "contract/platform.h"
#include "kernels/dispatch/kernel_table.h"
#include "kernels/threads.h"

namespace isobit::kernels::reference {
namespace {

// Neighbouring elements of a row, which share their occurrences.
constexpr std::int64_t kWide = 16;
template <class T>
struct Piece {
  T v[kWide] = {};
};
template <class T>
Piece<T> operator+(const Piece<T>& a, const Piece<T>& b) {
  Piece<T> sum;
  for (std::int64_t j = 0; j < kWide; ++j) sum.v[j] = a.v[j] + b.v[j];
  return sum;
}

// The sum of `count` occurrences of elements [0, width) of rows at `source`.
template <class T>
Piece<T> sum_of(const std::int64_t* order, std::int64_t count, std::int64_t inner, std::int64_t width,
                const T* source) {
  contract::PairwiseTreeOf<Piece<T>> tree;
  for (std::int64_t begin = 0; begin < count; begin += contract::kLeaf) {
    const std::int64_t end = begin + contract::kLeaf < count ? begin + contract::kLeaf : count;
    Piece<T> t;
    for (std::int64_t k = begin; k < end; ++k) {
      const T* const from = source + order[k] * inner;
      if (width == kWide) {
        for (std::int64_t j = 0; j < kWide; ++j) t.v[j] = t.v[j] + from[j];
      } else {
        for (std::int64_t j = 0; j < width; ++j) t.v[j] = t.v[j] + from[j];
      }
    }
    tree.add(t);
  }
  return tree.result();
}

template <class T>
void indexed_add(const Occurrences& occurrences, std::int64_t outer, std::int64_t source_rows, std::int64_t inner,
                 T alpha, const T* source, T* destination) {
  const std::int64_t rows = occurrences.rows;
  parallel_for(0, outer * rows, 4096 / (inner + 1) + 1, [&](std::int64_t first, std::int64_t last) {
    for (std::int64_t line = first; line < last; ++line) {
      const std::int64_t o = line / rows, r = line % rows;
      const std::int64_t begin = occurrences.begin[r], count = occurrences.begin[r + 1] - begin;
      if (count == 0) continue;
      for (std::int64_t i = 0; i < inner; i += kWide) {
        const std::int64_t width = inner - i < kWide ? inner - i : kWide;
        const Piece<T> sum =
            sum_of(occurrences.order + begin, count, inner, width, source + o * source_rows * inner + i);
        T* const to = destination + line * inner + i;
        for (std::int64_t j = 0; j < width; ++j) {
          to[j] = alpha == T(1) ? to[j] + sum.v[j] : std::fma(alpha, sum.v[j], to[j]);
        }
      }
    }
  });
}

template <class T>
void indexed_reduce(IndexReduction op, const Occurrences& occurrences, bool include_self, const T* source,
                    T* destination) {
  parallel_for(0, occurrences.rows, 1024, [=](std::int64_t first, std::int64_t last) {
    for (std::int64_t r = first; r < last; ++r) {
      const std::int64_t count = occurrences.begin[r + 1] - occurrences.begin[r];
      const std::int64_t* const order = occurrences.order + occurrences.begin[r];
      if (count == 0) continue;
      destination[r] = contract::reduced_by_index(op, count, destination[r], include_self,
                                                  [=](std::int64_t k) { return source[order[k]]; });
    }
  });
}

// Rows, some at a time: one row's chain alone would wait for each of its steps.
template <class T, class Step>
void run_rows(std::int64_t rows, std::int64_t size, T start, const T* x, T* y, Step step) {
  constexpr std::int64_t kRows = 8;
  parallel_for(0, (rows + kRows - 1) / kRows, 512 / (size + 1) + 1, [&](std::int64_t first, std::int64_t last) {
    for (std::int64_t row = first * kRows; row < last * kRows && row < rows; row += kRows) {
      T t[kRows];
      for (T& each : t) each = start;
      const std::int64_t count = rows - row < kRows ? rows - row : kRows;
      const T* const from = x + row * size;
      T* const to = y + row * size;
      if (count == kRows) {
        for (std::int64_t k = 0; k < size; ++k) {
          for (std::int64_t j = 0; j < kRows; ++j) to[j * size + k] = t[j] = step(t[j], from[j * size + k]);
        }
        continue;
      }
      for (std::int64_t j = 0; j < count; ++j) {
        for (std::int64_t k = 0; k < size; ++k) to[j * size + k] = t[j] = step(t[j], from[j * size + k]);
      }
    }
  });
}

template <class T, class Step>
void run(std::int64_t outer, std::int64_t size, std::int64_t inner, T start, const T* x, T* y, Step step) {
  if (inner == 1) return run_rows(outer, size, start, x, y, step);
  const std::int64_t pieces = (inner + kWide - 1) / kWide;
  parallel_for(0, outer * pieces, 4096 / (size + 1) + 1, [&](std::int64_t first, std::int64_t last) {
    for (std::int64_t piece = first; piece < last; ++piece) {
      const std::int64_t i = piece % pieces * kWide, width = inner - i < kWide ? inner - i : kWide;
      const std::int64_t at = piece / pieces * size * inner + i;
      T t[kWide];
      for (T& each : t) each = start;
      for (std::int64_t k = 0; k < size; ++k) {
        for (std::int64_t j = 0; j < width; ++j) y[at + k * inner + j] = t[j] = step(t[j], x[at + k * inner + j]);
      }
    }
  });
}

template <class T>
void cumulative(Cumulative op, std::int64_t outer, std::int64_t size, std::int64_t inner, const T* x, T* y) {
  if (op == Cumulative::sum) {
    run(outer, size, inner, T(0), x, y, [](T t, T v) { return t + v; });
  } else {
    run(outer, size, inner, T(1), x, y, [](T t, T v) { return t * v; });
  }
}

template <class T, class Table>
void fill(Table& t) {
  t.indexed_add = indexed_add<T>;
  t.indexed_reduce = indexed_reduce<T>;
  t.cumulative = cumulative<T>;
}

}  // namespace

void fill_indexed(KernelTable& t) { fill<float>(t); }
void fill_indexed(HostTable& t) { fill<double>(t); }

}  // namespace isobit::kernels::reference
