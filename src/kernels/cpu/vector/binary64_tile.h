// The innermost loop of binary64's matrix products, a tile of outputs in registers, and the panels that it reads.
//
//   chain[r][c] = fma(a[k][r], b[k][c], chain[r][c]) for terms k in their order        r < kTileRows, c < kTileColumns
//
// Rows are broadcast, columns are lanes, so each output is its own chain. A chain may be stored and taken up again,
// which changes no bit.
#pragma once

#include <algorithm>
#include <cstdint>

#include "kernels/cpu/vector/binary64_one_row.h"
#include "kernels/cpu/vector/by_size.h"
#include "kernels/cpu/vector/wide_memory.h"

namespace isobit::kernels::ISOBIT_ISA {
namespace {

// What 32 registers hold, or 16.
constexpr std::int64_t kTileRows = kWideLanes == 8 ? 14 : 6;
constexpr std::int64_t kTileColumns = std::int64_t{2} * kWideLanes;
constexpr std::int64_t kTileSize = kTileRows * kTileColumns;

enum class RowsAt { packed, along_terms };            // [terms][kTileRows]; a row's terms side by side
enum class ColumnsAt { packed, in_place, to_panel };  // [terms][kTileColumns]; as given; copied to a panel on the way

struct TileWork {
  const double* a;
  std::int64_t row;  // along_terms: from a row to the next
  const double* b;
  std::int64_t b_term;  // not packed: from a term to the next
  double* panel;        // to_panel
  std::int64_t terms;
  const double* resumed;  // the chains so far, a tile; nullptr: +0
  // At the end sums of leaves to the left are added, tiles `level` apart, one for each set bit, the lowest first.
  const double* left;
  std::int64_t level;
  std::uint64_t left_levels;
  double* out;
  std::int64_t out_row;
};

// Three rows a pointer: as many pointers as there are rows would not stay in registers.
template <RowsAt kRowsAt, int kRows>
struct TileRows {
  static constexpr int kPointers = kRowsAt == RowsAt::packed ? 1 : (kRows + 2) / 3;
  const double* at[kPointers];
  std::int64_t row;
  explicit ISOBIT_INLINE TileRows(const TileWork& w) : row(w.row) {
#pragma GCC unroll 8
    for (std::int64_t i = 0; i < kPointers; ++i) at[i] = w.a + 3 * i * row;
  }
  [[nodiscard]] ISOBIT_INLINE double factor(int r) const {
    return kRowsAt == RowsAt::packed ? at[0][r] : at[r / 3][r % 3 * row];
  }
  ISOBIT_INLINE void step() {
#pragma GCC unroll 8
    for (int i = 0; i < kPointers; ++i) at[i] += kRowsAt == RowsAt::packed ? kTileRows : 1;
  }
};

// Not inlined: register allocation then depends on nothing but this loop.
template <RowsAt kRowsAt, ColumnsAt kColumnsAt, int kRows, int kVectors>
__attribute__((noinline)) void tile_terms(const TileWork& w) {
  WideDouble t[kRows][kVectors];
  const auto each = [&](auto use) __attribute__((always_inline)) {
#pragma GCC unroll 16
    for (int r = 0; r < kRows; ++r)
#pragma GCC unroll 2
      for (std::int64_t v = 0; v < kVectors; ++v) use(t[r][v], r, v * kWideLanes);
  };
  if (w.resumed == nullptr) {
    each([](WideDouble & x, int, std::int64_t) __attribute__((always_inline)) { x = wide_double(0.0); });
  } else {
    const double* const from = w.resumed;
    each([from](WideDouble & x, int r, std::int64_t c)
             __attribute__((always_inline)) { x = wide_read(from + r * kTileColumns + c); });
  }
  TileRows<kRowsAt, kRows> rows(w);
  const double* b = w.b;
  double* panel = w.panel;
  const std::int64_t b_step = kColumnsAt == ColumnsAt::packed ? kTileColumns : w.b_term;
#pragma GCC unroll 4
  for (std::int64_t k = 0; k < w.terms; ++k, b += b_step) {
    WideDouble column[kVectors];
    for (std::int64_t v = 0; v < kVectors; ++v) column[v] = wide_read(b + v * kWideLanes);
    if constexpr (kColumnsAt == ColumnsAt::packed) {
      __builtin_prefetch(b + 16 * kTileColumns);
    } else {
      __builtin_prefetch(b + 16 * b_step);
      __builtin_prefetch(b + 16 * b_step + kTileColumns - 1);
    }
    if constexpr (kColumnsAt == ColumnsAt::to_panel) {
      for (std::int64_t v = 0; v < kVectors; ++v) wide_write(panel + v * kWideLanes, column[v]);
      panel += kTileColumns;
    }
#pragma GCC unroll 16
    for (int r = 0; r < kRows; ++r) {
      const WideDouble factor = wide_double(rows.factor(r));
#pragma GCC unroll 2
      for (int v = 0; v < kVectors; ++v) t[r][v] = multiply_add(factor, column[v], t[r][v]);
    }
    rows.step();
  }
  each([](WideDouble & x, int, std::int64_t) __attribute__((always_inline)) { x = x + wide_double(0.0); });  // never -0
  for (std::uint64_t levels = w.left_levels; levels != 0; levels &= levels - 1) {
    const double* const left = w.left + __builtin_ctzll(levels) * w.level;
    each([left](WideDouble & x, int r, std::int64_t c)
             __attribute__((always_inline)) { x = wide_read(left + r * kTileColumns + c) + x; });
  }
  double* const out = w.out;
  const std::int64_t out_row = w.out_row;
  each([ out, out_row ](WideDouble & x, int r, std::int64_t c)
           __attribute__((always_inline)) { wide_write(out + r * out_row + c, x); });
}

// Tiles of fewer rows take less time, and those of no more columns than a register holds half.
template <RowsAt kRowsAt>
struct TileFunctions {
  static constexpr auto kPacked =
      by_size<kTileRows>([](auto rows) { return &tile_terms<kRowsAt, ColumnsAt::packed, rows, 2>; });
  static constexpr auto kPackedHalf =
      by_size<kTileRows>([](auto rows) { return &tile_terms<kRowsAt, ColumnsAt::packed, rows, 1>; });
  static constexpr auto kInPlace =
      by_size<kTileRows>([](auto rows) { return &tile_terms<kRowsAt, ColumnsAt::in_place, rows, 2>; });
  static constexpr auto kToPanel = &tile_terms<kRowsAt, ColumnsAt::to_panel, kTileRows, 2>;
};

// ---- packing

// to[k][0 .. count) = element (line, k) of `count` <= kWidth lines, at line * line_step + k * term_step; with kFill the
// other lines are 0.
template <std::int64_t kWidth, bool kFill>
void pack_lines(const double* from, std::int64_t count, std::int64_t line_step, std::int64_t terms,
                std::int64_t term_step, double* to) {
  if (kFill && count < kWidth) std::fill(to, to + terms * kWidth, 0.0);
  if (line_step == 1) {
    for (std::int64_t k = 0; k < terms; ++k, from += term_step, to += kWidth) {
      __builtin_prefetch(from + 8 * term_step);
      __builtin_prefetch(from + 8 * term_step + kWidth - 1);
      for (std::int64_t i = 0; i < count; i += kWideLanes) {
        const std::int64_t some = std::min<std::int64_t>(kWideLanes, count - i);
        wide_store_first(to + i, wide_load_first(from + i, some), some);
      }
    }
    return;
  }
  if (term_step != 1) {
    for (std::int64_t k = 0; k < terms; ++k)
      for (std::int64_t i = 0; i < count; ++i) to[k * kWidth + i] = from[i * line_step + k * term_step];
    return;
  }
  // Squares, in runs of terms whose rows of the panel stay in the first level of the cache.
  constexpr std::int64_t kRun = 64;
  for (std::int64_t first = 0; first < terms; first += kRun) {
    const std::int64_t end = std::min(terms, first + kRun);
    for (std::int64_t i = 0; i < count; i += kWideLanes) {
      const std::int64_t some = std::min<std::int64_t>(kWideLanes, count - i);
      const double* line[kWideLanes];
      for (std::int64_t l = 0; l < kWideLanes; ++l) line[l] = from + (i + std::min(l, some - 1)) * line_step;
      std::int64_t k = first;
      for (; k + kWideLanes <= end; k += kWideLanes) {
        WideDouble x[kWideLanes];
        for (int l = 0; l < kWideLanes; ++l) {
          x[l] = wide_read(line[l] + k);
          __builtin_prefetch(line[l] + k + kRun);
        }
        turn_square(x);
        for (std::int64_t l = 0; l < kWideLanes; ++l) {
          double* const at = to + (k + l) * kWidth + i;
          some == kWideLanes ? wide_write(at, x[l]) : wide_store_first(at, x[l], some);
        }
      }
      for (; k < end; ++k)
        for (std::int64_t l = 0; l < some; ++l) to[k * kWidth + i + l] = line[l][k];
    }
  }
}

// [rows / kTileRows][terms][kTileRows].
inline void pack_tiles_of_rows(const double* from, std::int64_t rows, std::int64_t row, std::int64_t terms,
                               std::int64_t term, double* to) {
  for (std::int64_t r = 0; r < rows; r += kTileRows, to += terms * kTileRows)
    pack_lines<kTileRows, false>(from + r * row, std::min(kTileRows, rows - r), row, terms, term, to);
}

}  // namespace
}  // namespace isobit::kernels::ISOBIT_ISA
