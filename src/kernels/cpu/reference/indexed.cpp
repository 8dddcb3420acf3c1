// Additions by index and running sums, elements of a row side by side.
#include "kernels/indexed.h"

#include <cmath>
#include <type_traits>

#include "contract/chains.h"
#include "contract/pairwise_tree.h"
#include "contract/platform.h"
#include "kernels/cpu/indexed_lists.h"
#include "kernels/cpu/reference/plain.h"
#include "kernels/dispatch/kernel_table.h"
#include "kernels/threads.h"

namespace isobit::kernels::ISOBIT_PLAIN {
namespace {

// Neighbouring elements of a row, which share their occurrences.
template <class T, std::int64_t kWidth>
struct Piece {
  T v[kWidth] = {};
};
template <class T, std::int64_t kWidth>
Piece<T, kWidth> operator+(const Piece<T, kWidth>& a, const Piece<T, kWidth>& b) {
  Piece<T, kWidth> sum;
  for (std::int64_t j = 0; j < kWidth; ++j) sum.v[j] = a.v[j] + b.v[j];
  return sum;
}

// A leaf's sums of elements [0, width) of the rows order[0 .. n) at `source`.
template <std::int64_t kWidth, class T>
Piece<T, kWidth> leaf_of(const List& list, const std::int64_t* order, std::int64_t n, std::int64_t width,
                         const T* source) {
  Piece<T, kWidth> t;
  for (const std::int64_t* at = order; at < order + n; ++at) {
    fetch_ahead(list, at, source, kWidth);
    const T* const from = source + *at * list.inner;
    if (width == kWidth) {
      for (std::int64_t j = 0; j < kWidth; ++j) t.v[j] = t.v[j] + from[j];
    } else {
      for (std::int64_t j = 0; j < width; ++j) t.v[j] = t.v[j] + from[j];
    }
  }
  return t;
}

template <std::int64_t kWidth, class T>
Piece<T, kWidth> sum_of(const List& list, std::int64_t width, const T* source) {
  if (list.count() <= contract::kLeaf) return leaf_of<kWidth>(list, list.order, list.count(), width, source);
  contract::PairwiseTreeOf<Piece<T, kWidth>> tree;
  for (std::int64_t begin = 0; begin < list.count(); begin += contract::kLeaf) {
    const std::int64_t left = list.count() - begin;
    tree.add(leaf_of<kWidth>(list, list.order + begin, left < contract::kLeaf ? left : contract::kLeaf, width, source));
  }
  return tree.result();
}

// piece(width as a constant, first element, width) for the pieces that a row is cut into.
template <class Use>
void for_pieces(std::int64_t inner, Use use) {
  std::int64_t i = 0;
  for (; i + 256 <= inner; i += 256) use(std::integral_constant<std::int64_t, 256>(), i, std::int64_t{256});
  for (; i + 64 <= inner; i += 64) use(std::integral_constant<std::int64_t, 64>(), i, std::int64_t{64});
  for (; i < inner; i += 16) {
    use(std::integral_constant<std::int64_t, 16>(), i, inner - i < 16 ? inner - i : std::int64_t{16});
  }
}

template <class T>
void indexed_add(const Occurrences& occurrences, std::int64_t outer, std::int64_t source_rows, std::int64_t inner,
                 T alpha, const T* source, T* destination) {
  const std::int64_t rows = occurrences.row == nullptr ? occurrences.rows : occurrences.destination_rows;
  const auto add = [alpha](T before, T sum) {
    return alpha == T(1) ? before + sum : static_cast<T>(std::fma(alpha, sum, before));
  };
  if (inner == 1) {
    return for_lists(occurrences, outer, inner, [&](const List& list, std::int64_t row, std::int64_t o) {
      const T* const from = source + o * source_rows;
      T sum = T(0);
      if (list.count() <= contract::kLeaf) {
        for (const std::int64_t* at = list.order; at < list.end; ++at) sum = sum + from[*at];
      } else {
        sum = contract::sum_in_leaves<T>(list.count(), [&](std::int64_t k) { return from[list.order[k]]; });
      }
      destination[o * rows + row] = add(destination[o * rows + row], sum);
    });
  }
  for_lists(occurrences, outer, inner, [&](const List& list, std::int64_t row, std::int64_t o) {
    for_pieces(inner, [&](auto whole, std::int64_t i, std::int64_t width) {
      const auto sum = sum_of<whole>(list, width, source + o * source_rows * inner + i);
      T* const to = destination + (o * rows + row) * inner + i;
      for (std::int64_t j = 0; j < width; ++j) to[j] = add(to[j], sum.v[j]);
    });
  });
}

// Elements [0, width) of a destination row at `to`, reduced_by_index side by side.
template <std::int64_t kWidth, class T>
void reduce_piece(IndexReduction op, const List& list, bool include_self, std::int64_t width, const T* source, T* to) {
  if (op == IndexReduction::sum || op == IndexReduction::mean) {
    const auto sum = sum_of<kWidth>(list, width, source);
    const T count = static_cast<T>(list.count() + (include_self ? 1 : 0));
    for (std::int64_t j = 0; j < width; ++j) {
      const T total = include_self ? to[j] + sum.v[j] : sum.v[j];
      to[j] = op == IndexReduction::sum ? total : total / count;
    }
    return;
  }
  T t[kWidth] = {};
  const T* const first = source + list.order[0] * list.inner;
  for (std::int64_t j = 0; j < width; ++j)
    t[j] = include_self ? to[j] : op == IndexReduction::product ? T(1) : first[j];
  const auto chain = [&](auto step) {
    for (const std::int64_t* at = list.order; at < list.end; ++at) {
      fetch_ahead(list, at, source, kWidth);
      const T* const from = source + *at * list.inner;
      if (width == kWidth) {
        for (std::int64_t j = 0; j < kWidth; ++j) t[j] = step(t[j], from[j]);
      } else {
        for (std::int64_t j = 0; j < width; ++j) t[j] = step(t[j], from[j]);
      }
    }
  };
  if (op == IndexReduction::product) chain([](T u, T v) { return u * v; });
  if (op == IndexReduction::maximum) chain([](T u, T v) { return contract::maximum(u, v); });
  if (op == IndexReduction::minimum) chain([](T u, T v) { return contract::minimum(u, v); });
  for (std::int64_t j = 0; j < width; ++j) to[j] = t[j];
}

template <class T>
void indexed_reduce(IndexReduction op, const Occurrences& occurrences, std::int64_t inner, bool include_self,
                    const T* source, T* destination) {
  for_lists(occurrences, 1, inner, [&](const List& list, std::int64_t row, std::int64_t) {
    if (inner == 1) {
      destination[row] = contract::reduced_by_index(op, list.count(), destination[row], include_self,
                                                    [&](std::int64_t k) { return source[list.order[k]]; });
      return;
    }
    for_pieces(inner, [&](auto whole, std::int64_t i, std::int64_t width) {
      reduce_piece<whole>(op, list, include_self, width, source + i, destination + row * inner + i);
    });
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
  constexpr std::int64_t kWide = 16;  // lines side by side
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

#ifndef ISOBIT_LANES
void fill_indexed(KernelTable& t) { fill<float>(t); }
#endif
void fill_indexed(HostTable& t) { fill<double>(t); }

}  // namespace isobit::kernels::ISOBIT_PLAIN
