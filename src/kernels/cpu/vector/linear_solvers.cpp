// Linear systems in halves: one half of the columns (or of the unknowns), what it takes from the other half by tiles in
// registers, the other half. Each element's terms still come one after another in the order of linear_solvers.h.
#include "kernels/linear_solvers.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <utility>

#include "kernels/cpu/vector/subtract_products.h"
#include "kernels/dispatch/kernel_table.h"

namespace isobit::kernels::ISOBIT_ISA {
namespace {

constexpr std::int64_t kFew = 8;  // columns or unknowns that are not halved

// The first of two parts, a multiple of kFew: so are then all pieces but the last.
std::int64_t half_of(std::int64_t count) { return (count / 2 + kFew - 1) / kFew * kFew; }

// y[i] -= x[i] * factor for begin <= i < end.
void subtract_multiple(double* __restrict y, const double* __restrict x, double factor, std::int64_t begin,
                       std::int64_t end) {
  for (std::int64_t i = begin; i < end; ++i) y[i] = y[i] - x[i] * factor;
}

// ---- substitution

// Element (i, k) of a triangle at i * row + k * column; the first unknown is known first where it goes down.
struct Unknowns {
  const double* a;
  std::int64_t row, column;
  bool unit, down;
};
// Right-hand sides: element (i, c) at i * row + c * column, one of which is 1.
struct RightSides {
  double* x;
  std::int64_t row, column, count;
};

// A few unknowns [first, first + count) from each other. T holds one right-hand side or a register of them.
struct FewUnknowns {
  double a[kFew][kFew] = {};  // [i][k] in the order in which they become known
  std::int64_t at[kFew];
  std::int64_t count;
  bool unit;
  FewUnknowns(const Unknowns& t, std::int64_t first, std::int64_t n) : count(n), unit(t.unit) {
    for (std::int64_t s = 0; s < n; ++s) at[s] = t.down ? first + s : first + n - 1 - s;
    for (std::int64_t s = 0; s < n; ++s)
      for (std::int64_t b = 0; b < s + (unit ? 0 : 1); ++b) a[s][b] = t.a[at[s] * t.row + at[b] * t.column];
  }
  template <class T, class Wide>
  ISOBIT_INLINE void solve(T (&x)[kFew], Wide wide) const {
    for (std::int64_t s = 0; s < count; ++s) {
      for (std::int64_t b = 0; b < s; ++b) x[s] = x[s] - x[b] * wide(a[s][b]);
      if (!unit) x[s] = x[s] / wide(a[s][s]);
    }
  }
};

void solve_few(const Unknowns& t, std::int64_t first, std::int64_t count, const RightSides& r) {
  const FewUnknowns few(t, first, count);
  const auto one = [](double x) __attribute__((always_inline)) { return x; };
  if (r.column != 1) {
    for (std::int64_t c = 0; c < r.count; ++c) {
      double* const column = r.x + c * r.column;
      double x[kFew] = {};
      for (std::int64_t s = 0; s < count; ++s) x[s] = column[few.at[s]];
      few.solve(x, one);
      for (std::int64_t s = 0; s < count; ++s) column[few.at[s]] = x[s];
    }
    return;
  }
  for (std::int64_t c = 0; c < r.count; c += kWideLanes) {
    const std::int64_t lanes = r.count - c < kWideLanes ? r.count - c : kWideLanes;
    WideDouble x[kFew] = {};
    for (std::int64_t s = 0; s < count; ++s) x[s] = wide_load_first(r.x + few.at[s] * r.row + c, lanes);
    few.solve(
        x, [](double value) __attribute__((always_inline)) { return wide_double(value); });
    for (std::int64_t s = 0; s < count; ++s) wide_store_first(r.x + few.at[s] * r.row + c, x[s], lanes);
  }
}

// What the unknowns of `known` contribute is subtracted from those of `open`, both [first, first + count).
struct Span {
  std::int64_t first, count;
};
void subtract_known(const Unknowns& t, Span known, Span open, const RightSides& r) {
  const std::int64_t first = t.down ? known.first : known.first + known.count - 1, step = t.down ? 1 : -1;
  const double* const a = t.a + open.first * t.row + first * t.column;
  double *const x = r.x + first * r.row, *const c = r.x + open.first * r.row;
  if (r.column == 1) {  // right-hand sides are lanes
    return subtract_products({.rows = r.count,
                              .columns = open.count,
                              .terms = known.count,
                              .p = x,
                              .p_row = 1,
                              .p_term = step * r.row,
                              .q = a,
                              .q_term = step * t.column,
                              .q_column = t.row,
                              .c = c,
                              .c_column = r.row});
  }
  subtract_products({.rows = open.count,
                     .columns = r.count,
                     .terms = known.count,
                     .p = a,
                     .p_row = t.row,
                     .p_term = step * t.column,
                     .q = x,
                     .q_term = step,
                     .q_column = r.column,
                     .c = c,
                     .c_column = r.column});
}
void solve_span(const Unknowns& t, Span all, const RightSides& r) {
  if (all.count <= kFew) return solve_few(t, all.first, all.count, r);
  const std::int64_t half = half_of(all.count), rest = all.count - half;
  const Span known{t.down ? all.first : all.first + rest, half}, open{t.down ? all.first + half : all.first, rest};
  solve_span(t, known, r);
  subtract_known(t, known, open, r);
  solve_span(t, open, r);
}
// Right-hand sides are shared out, where there are many.
void solve_all(const Unknowns& t, std::int64_t n, const RightSides& r) {
  constexpr std::int64_t kShare = 2 * kTileRows;
  parallel_for(0, (r.count + kShare - 1) / kShare, n * n * kShare > 32768 ? 1 : 32768 / (n * n * kShare + 1) + 1,
               [&](std::int64_t begin, std::int64_t end) {
                 RightSides share = r;
                 share.x += begin * kShare * r.column;
                 share.count = std::min(r.count, end * kShare) - begin * kShare;
                 solve_span(t, {0, n}, share);
               });
}

void solve_triangle(const Triangle& t, double* x, std::int64_t columns) {
  if (t.n == 0 || columns == 0) return;
  const Unknowns unknowns{t.a, t.transposed ? t.n : 1, t.transposed ? 1 : t.n, t.unit, t.upper == t.transposed};
  if (columns >= kWideLanes) return solve_all(unknowns, t.n, {x, columns, 1, columns});
  Workspace workspace;  // of a few right-hand sides the unknowns are lanes
  double* const turned = static_cast<double*>(workspace.bytes(sizeof(double) * t.n * columns));
  for (std::int64_t i = 0; i < t.n; ++i)
    for (std::int64_t c = 0; c < columns; ++c) turned[c * t.n + i] = x[i * columns + c];
  solve_span(unknowns, {0, t.n}, {turned, 1, t.n, columns});
  for (std::int64_t i = 0; i < t.n; ++i)
    for (std::int64_t c = 0; c < columns; ++c) x[i * columns + c] = turned[c * t.n + i];
}

// ---- Cholesky

struct Definite {
  double* a;
  std::int64_t n;
};
std::int32_t factor_few(const Definite& d, std::int64_t first, std::int64_t count) {
  for (std::int64_t j = first; j < first + count; ++j) {
    double* const column = d.a + j * d.n;
    if (!(column[j] > 0.0)) return static_cast<std::int32_t>(j + 1);
    const double root = std::sqrt(column[j]);
    column[j] = root;
    for (std::int64_t i = j + 1; i < d.n; ++i) column[i] = column[i] / root;
    for (std::int64_t c = j + 1; c < first + count; ++c) subtract_multiple(d.a + c * d.n, column, column[c], c, d.n);
  }
  return 0;
}
std::int32_t factor_columns(const Definite& d, std::int64_t first, std::int64_t count) {
  if (count <= kFew) return factor_few(d, first, count);
  const std::int64_t half = half_of(count), next = first + half;
  if (const std::int32_t info = factor_columns(d, first, half)) return info;
  const double* const known = d.a + first * d.n + next;
  subtract_products({.rows = d.n - next,
                     .columns = count - half,
                     .terms = half,
                     .p = known,
                     .p_row = 1,
                     .p_term = d.n,
                     .q = known,
                     .q_term = d.n,
                     .q_column = 1,
                     .c = d.a + next * d.n + next,
                     .c_column = d.n,
                     .lower = true});
  return factor_columns(d, next, count - half);
}
std::int32_t factor_cholesky(double* a, std::int64_t n) {
  const std::int32_t info = factor_columns({a, n}, 0, n);
  for (std::int64_t c = info - 1; info > 0 && c < n; ++c)
    std::fill(a + c * n + c, a + (c + 1) * n, std::numeric_limits<double>::quiet_NaN());
  return info;
}

// ---- LU

struct General {
  double* a;
  std::int64_t m;
  std::int32_t *pivots, *info;
};
// Of rows [first, end) the first of the largest magnitudes; a NaN is it only where it stands first.
std::int64_t place_of_largest(const double* x, std::int64_t first, std::int64_t end) {
  double largest = std::fabs(x[first]);
  if (largest != largest) return first;
  std::int64_t i = first + 1;
  WideDouble most = wide_double(largest);
  for (; i + kWideLanes <= end; i += kWideLanes) {
    const WideDouble size = wide_magnitude(wide_read(x + i));
    most = wide_larger(size, most);  // what is held where one of both is NaN
  }
  double lane[kWideLanes];
  wide_write(lane, most);
  for (int l = 0; l < kWideLanes; ++l) largest = lane[l] > largest ? lane[l] : largest;
  for (; i < end; ++i) largest = std::fabs(x[i]) > largest ? std::fabs(x[i]) : largest;
  for (i = first; std::fabs(x[i]) != largest; ++i) {
  }
  return i;
}
// The exchanges of steps [first, end) in columns [from, to).
void exchange(const General& g, std::int64_t first, std::int64_t end, std::int64_t from, std::int64_t to) {
  for (std::int64_t c = from; c < to; ++c) {
    double* const column = g.a + c * g.m;
    for (std::int64_t k = first; k < end; ++k) std::swap(column[k], column[g.pivots[k] - 1]);
  }
}
void factor_few(const General& g, std::int64_t first, std::int64_t count) {
  for (std::int64_t j = first; j < first + count; ++j) {
    double* const column = g.a + j * g.m;
    const std::int64_t best = place_of_largest(column, j, g.m);
    g.pivots[j] = static_cast<std::int32_t>(best + 1);
    exchange(g, j, j + 1, first, first + count);
    const double pivot = column[j];
    if (pivot == 0.0) {
      if (*g.info == 0) *g.info = static_cast<std::int32_t>(j + 1);
    } else {
      for (std::int64_t i = j + 1; i < g.m; ++i) column[i] = column[i] / pivot;
    }
    for (std::int64_t c = j + 1; c < first + count; ++c)
      subtract_multiple(g.a + c * g.m, column, g.a[c * g.m + j], j + 1, g.m);
  }
}
// Columns [next, next + count) after the steps [first, next): exchanges, and rows of U.
void take_steps(const General& g, std::int64_t first, std::int64_t next, std::int64_t from, std::int64_t count) {
  exchange(g, first, next, from, from + count);
  double* const known = g.a + first * g.m + first;
  solve_all({known, 1, g.m, true, true}, next - first, {g.a + from * g.m + first, 1, g.m, count});
}
void factor_columns(const General& g, std::int64_t first, std::int64_t count) {
  if (count <= kFew) return factor_few(g, first, count);
  const std::int64_t half = half_of(count), next = first + half, rest = count - half;
  factor_columns(g, first, half);
  take_steps(g, first, next, next, rest);
  subtract_products({.rows = g.m - next,
                     .columns = rest,
                     .terms = half,
                     .p = g.a + first * g.m + next,
                     .p_row = 1,
                     .p_term = g.m,
                     .q = g.a + next * g.m + first,
                     .q_term = 1,
                     .q_column = g.m,
                     .c = g.a + next * g.m + next,
                     .c_column = g.m});
  factor_columns(g, next, rest);
  exchange(g, next, next + rest, first, next);
}
std::int32_t factor_lu(double* a, std::int64_t m, std::int64_t n, std::int32_t* pivots) {
  std::int32_t info = 0;
  const General g{a, m, pivots, &info};
  const std::int64_t steps = std::min(m, n);
  if (steps == 0) return 0;
  factor_columns(g, 0, steps);
  if (n > steps) take_steps(g, 0, steps, steps, n - steps);
  return info;
}

}  // namespace

void fill_linear_solvers(HostTable& t) {
  t.factor_cholesky = factor_cholesky;
  t.factor_lu = factor_lu;
  t.solve_triangle = solve_triangle;
}

}  // namespace isobit::kernels::ISOBIT_ISA
