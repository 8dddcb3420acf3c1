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
struct Piece {
  float v[kWide] = {};
};
Piece operator+(const Piece& a, const Piece& b) {
  Piece sum;
  for (std::int64_t j = 0; j < kWide; ++j) sum.v[j] = a.v[j] + b.v[j];
  return sum;
}

// The sum of `count` occurrences of elements [0, width) of rows at `source`.
Piece sum_of(const std::int64_t* order, std::int64_t count, std::int64_t inner, std::int64_t width,
             const float* source) {
  contract::PairwiseTreeOf<Piece> tree;
  for (std::int64_t begin = 0; begin < count; begin += contract::kLeaf) {
    const std::int64_t end = begin + contract::kLeaf < count ? begin + contract::kLeaf : count;
    Piece t;
    for (std::int64_t k = begin; k < end; ++k) {
      const float* const from = source + order[k] * inner;
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

void indexed_add(const Occurrences& occurrences, std::int64_t outer, std::int64_t source_rows, std::int64_t inner,
                 float alpha, const float* source, float* destination) {
  const std::int64_t rows = occurrences.rows;
  parallel_for(0, outer * rows, 4096 / (inner + 1) + 1, [&](std::int64_t first, std::int64_t last) {
    for (std::int64_t line = first; line < last; ++line) {
      const std::int64_t o = line / rows, r = line % rows;
      const std::int64_t begin = occurrences.begin[r], count = occurrences.begin[r + 1] - begin;
      if (count == 0) continue;
      for (std::int64_t i = 0; i < inner; i += kWide) {
        const std::int64_t width = inner - i < kWide ? inner - i : kWide;
        const Piece sum = sum_of(occurrences.order + begin, count, inner, width, source + o * source_rows * inner + i);
        float* const to = destination + line * inner + i;
        for (std::int64_t j = 0; j < width; ++j) {
          to[j] = alpha == 1.0f ? to[j] + sum.v[j] : std::fma(alpha, sum.v[j], to[j]);
        }
      }
    }
  });
}

void indexed_reduce(IndexReduction op, const Occurrences& occurrences, bool include_self, const float* source,
                    float* destination) {
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
template <class Step>
void run_rows(std::int64_t rows, std::int64_t size, float start, const float* x, float* y, Step step) {
  constexpr std::int64_t kRows = 8;
  parallel_for(0, (rows + kRows - 1) / kRows, 512 / (size + 1) + 1, [&](std::int64_t first, std::int64_t last) {
    for (std::int64_t row = first * kRows; row < last * kRows && row < rows; row += kRows) {
      float t[kRows];
      for (float& each : t) each = start;
      const std::int64_t count = rows - row < kRows ? rows - row : kRows;
      const float* const from = x + row * size;
      float* const to = y + row * size;
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

template <class Step>
void run(std::int64_t outer, std::int64_t size, std::int64_t inner, float start, const float* x, float* y, Step step) {
  if (inner == 1) return run_rows(outer, size, start, x, y, step);
  const std::int64_t pieces = (inner + kWide - 1) / kWide;
  parallel_for(0, outer * pieces, 4096 / (size + 1) + 1, [&](std::int64_t first, std::int64_t last) {
    for (std::int64_t piece = first; piece < last; ++piece) {
      const std::int64_t i = piece % pieces * kWide, width = inner - i < kWide ? inner - i : kWide;
      const std::int64_t at = piece / pieces * size * inner + i;
      float t[kWide];
      for (float& each : t) each = start;
      for (std::int64_t k = 0; k < size; ++k) {
        for (std::int64_t j = 0; j < width; ++j) y[at + k * inner + j] = t[j] = step(t[j], x[at + k * inner + j]);
      }
    }
  });
}

void cumulative(Cumulative op, std::int64_t outer, std::int64_t size, std::int64_t inner, const float* x, float* y) {
  if (op == Cumulative::sum) {
    run(outer, size, inner, 0.0f, x, y, [](float t, float v) { return t + v; });
  } else {
    run(outer, size, inner, 1.0f, x, y, [](float t, float v) { return t * v; });
  }
}

}  // namespace

void fill_indexed(KernelTable& t) {
  t.indexed_add = indexed_add;
  t.indexed_reduce = indexed_reduce;
  t.cumulative = cumulative;
}

}  // namespace isobit::kernels::reference
