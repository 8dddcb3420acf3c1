// c -= p q in binary64 for the factors and solutions of linear systems (contract, section 14): of each element the
// products are rounded and subtracted one after another, in the order of k. Which elements are worked on together, and
// in how many calls a sum is taken up again, changes no bit.
#pragma once

#include "kernels/cpu/vector/by_size.h"
#include "kernels/cpu/vector/wide_memory.h"
#include "kernels/dispatch/workspace.h"
#include "kernels/threads.h"

namespace isobit::kernels::ISOBIT_ISA {
namespace {

// Rows are neighbours in memory and become lanes.
struct Subtraction {
  std::int64_t rows, columns, terms;
  const double* p;  // element (row, k) at row * p_row + k * p_term
  std::int64_t p_row, p_term;
  const double* q;  // element (k, column) at k * q_term + column * q_column
  std::int64_t q_term, q_column;
  double* c;  // element (row, column) at row + column * c_column
  std::int64_t c_column;
  bool lower = false;  // only rows >= columns; the rest is not written
};

// What 16 registers hold, or 32.
constexpr int kRegisters = kWideLanes == 8 ? 3 : 2, kTogether = kWideLanes == 8 ? 8 : 4;
constexpr std::int64_t kTileRows = std::int64_t{kRegisters} * kWideLanes;

// A tile of kV registers of rows, of the last one its first `last` lanes, by kColumns columns.
template <int kV, int kColumns, bool kWhole>
void subtract_tile(const Subtraction& s, std::int64_t last) {
  const auto read = [last](const double* p, std::int64_t v) __attribute__((always_inline)) {
    return kWhole || v + 1 < kV ? wide_read(p + v * kWideLanes) : wide_load_first(p + v * kWideLanes, last);
  };
  WideDouble t[kColumns][kV];
  for (int j = 0; j < kColumns; ++j)
    for (std::int64_t v = 0; v < kV; ++v) t[j][v] = read(s.c + j * s.c_column, v);
  const double *p = s.p, *q = s.q;
  for (std::int64_t k = 0; k < s.terms; ++k, p += s.p_term, q += s.q_term) {
    WideDouble x[kV];
    for (std::int64_t v = 0; v < kV; ++v) x[v] = read(p, v);
    for (int j = 0; j < kColumns; ++j) {
      const WideDouble factor = wide_double(q[j * s.q_column]);
      for (std::int64_t v = 0; v < kV; ++v) t[j][v] = t[j][v] - x[v] * factor;
    }
  }
  for (int j = 0; j < kColumns; ++j) {
    for (std::int64_t v = 0; v < kV; ++v) {
      double* const to = s.c + j * s.c_column + v * kWideLanes;
      kWhole || v + 1 < kV ? wide_write(to, t[j][v]) : wide_store_first(to, t[j][v], last);
    }
  }
}

using SubtractTile = void (*)(const Subtraction&, std::int64_t last);
template <int kV, bool kWhole>
SubtractTile tile_of(std::int64_t columns) {
  static constexpr auto kTiles = by_size<kTogether>([](auto j) { return &subtract_tile<kV, j, kWhole>; });
  return kTiles.of[columns];
}

// Up to kTileRows rows by kTogether columns.
inline void subtract_in_registers(const Subtraction& s) {
  const std::int64_t registers = (s.rows + kWideLanes - 1) / kWideLanes, last = s.rows - (registers - 1) * kWideLanes;
  const bool whole = last == kWideLanes;
  const SubtractTile tile =
      registers == 1   ? (whole ? tile_of<1, true>(s.columns) : tile_of<1, false>(s.columns))
      : registers == 2 ? (whole ? tile_of<2, true>(s.columns) : tile_of<2, false>(s.columns))
                       : (whole ? tile_of<kRegisters, true>(s.columns) : tile_of<kRegisters, false>(s.columns));
  tile(s, last);
}

// A tile that the diagonal crosses, `above` its rows before its first column: in a place of its own, of which the lower
// part goes back.
inline void subtract_on_diagonal(Subtraction s, std::int64_t above) {
  double tile[kTileRows * std::int64_t{kTogether}] = {};
  double* const c = s.c;
  const std::int64_t c_column = s.c_column;
  const auto for_lower = [&](auto use) __attribute__((always_inline)) {
    for (std::int64_t j = 0; j < s.columns; ++j) {
      const std::int64_t first = above + j;
      for (std::int64_t i = first < 0 ? 0 : first; i < s.rows; ++i) use(tile[j * kTileRows + i], c[j * c_column + i]);
    }
  };
  for_lower([](double& to, double from) { to = from; });
  s.c = tile, s.c_column = kTileRows;
  subtract_in_registers(s);
  for_lower([](double from, double& to) { to = from; });
}

// [kTileRows] values of each term side by side.
inline void pack_rows_of_terms(const Subtraction& s, double* panel) {
  if (s.p_row == 1) {
    for (std::int64_t k = 0; k < s.terms; ++k, panel += kTileRows)
      std::memcpy(panel, s.p + k * s.p_term, sizeof(double) * s.rows);
    return;
  }
  for (std::int64_t i = 0; i < s.rows; ++i) {
    const double* const row = s.p + i * s.p_row;
    for (std::int64_t k = 0; k < s.terms; ++k) panel[k * kTileRows + i] = row[k * s.p_term];
  }
}

// [terms][kTogether] of each kTogether columns.
inline void pack_columns_of_terms(const Subtraction& s, double* packed) {
  for (std::int64_t k = 0; k < s.terms; ++k) {
    const double* const from = s.q + k * s.q_term;
    for (std::int64_t j = 0; j < s.columns; ++j)
      packed[(j / kTogether * s.terms + k) * kTogether + j % kTogether] = from[j * s.q_column];
  }
}

inline void subtract_terms(const Subtraction& whole) {
  constexpr std::int64_t kGroup = std::int64_t{8} * kTogether;  // columns of a piece of work
  const std::int64_t panels = (whole.rows + kTileRows - 1) / kTileRows, groups = (whole.columns + kGroup - 1) / kGroup;
  const bool packs = whole.p_row != 1 || whole.columns > std::int64_t{2} * kTogether;
  const bool packs_columns =
      whole.q_term != 1 && panels >= 4;  // terms that lie pages apart fall into one set of the cache
  const std::int64_t work = whole.terms * kTileRows * (whole.columns < kGroup ? whole.columns : kGroup);
  parallel_for(0, panels * groups, 32768 / work + 1, [&](std::int64_t begin, std::int64_t end) {
    Workspace workspace;
    const auto doubles = [&](std::int64_t count) {
      return static_cast<double*>(workspace.bytes(sizeof(double) * static_cast<std::size_t>(count)));
    };
    double* const panel = packs ? doubles(whole.terms * kTileRows) : nullptr;
    double* const columns = packs_columns ? doubles(whole.terms * (whole.columns + kTogether)) : nullptr;
    if (packs_columns) pack_columns_of_terms(whole, columns);
    std::int64_t packed = -1;
    for (std::int64_t task = begin; task < end; ++task) {
      const std::int64_t row = task / groups * kTileRows, first = task % groups * kGroup;
      const std::int64_t rows = whole.rows - row < kTileRows ? whole.rows - row : kTileRows;
      if (whole.lower && row + rows <= first) continue;
      Subtraction s = whole;
      s.rows = rows, s.p = whole.p + row * whole.p_row;
      if (packs) {
        if (packed != row) pack_rows_of_terms(s, panel), packed = row;
        s.p = panel, s.p_row = 1, s.p_term = kTileRows;
      }
      const std::int64_t last = whole.columns < first + kGroup ? whole.columns : first + kGroup;
      for (std::int64_t j = first; j < last; j += kTogether) {
        if (whole.lower && row + rows <= j) break;
        s.columns = last - j < kTogether ? last - j : kTogether;
        if (packs_columns) {
          s.q = columns + j * whole.terms, s.q_term = kTogether, s.q_column = 1;
        } else {
          s.q = whole.q + j * whole.q_column;
        }
        s.c = whole.c + row + j * whole.c_column;
        if (whole.lower && row < j + s.columns - 1) {
          subtract_on_diagonal(s, j - row);
        } else {
          subtract_in_registers(s);
        }
      }
    }
  });
}

// So many terms at a time that a panel stays in a cache, and what is packed in bounds; the sums are taken up again.
inline void subtract_products(const Subtraction& whole) {
  constexpr std::int64_t kTerms = 512;
  if (whole.rows <= 0 || whole.columns <= 0) return;
  for (std::int64_t k = 0; k < whole.terms; k += kTerms) {
    Subtraction part = whole;
    part.terms = whole.terms - k < kTerms ? whole.terms - k : kTerms;
    part.p += k * whole.p_term, part.q += k * whole.q_term;
    subtract_terms(part);
  }
}

}  // namespace
}  // namespace isobit::kernels::ISOBIT_ISA
