// Linear systems, column by column, as linear_solvers.h writes them: what is subtracted from one element keeps its
// order.
#include "kernels/linear_solvers.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "kernels/dispatch/kernel_table.h"
#include "kernels/threads.h"

namespace isobit::kernels::reference {
namespace {

constexpr std::int64_t kSmallestRows = 4096;

// y[i] -= x[i] * factor for begin <= i < end.
void subtract_multiple(double* y, const double* x, double factor, std::int64_t begin, std::int64_t end) {
  for (std::int64_t i = begin; i < end; ++i) {
    const double product = x[i] * factor;
    y[i] = y[i] - product;
  }
}

std::int32_t factor_cholesky(double* a, std::int64_t n) {
  for (std::int64_t j = 0; j < n; ++j) {
    double* const column = a + j * n;
    parallel_for(j, n, kSmallestRows, [=](std::int64_t begin, std::int64_t end) {
      for (std::int64_t k = 0; k < j; ++k) subtract_multiple(column, a + k * n, a[k * n + j], begin, end);
    });
    if (!(column[j] > 0.0)) {
      for (std::int64_t c = j; c < n; ++c) {
        for (std::int64_t i = c; i < n; ++i) a[c * n + i] = std::numeric_limits<double>::quiet_NaN();
      }
      return static_cast<std::int32_t>(j + 1);
    }
    const double root = std::sqrt(column[j]);
    column[j] = root;
    for (std::int64_t i = j + 1; i < n; ++i) column[i] = column[i] / root;
  }
  return 0;
}

std::int32_t factor_lu(double* a, std::int64_t m, std::int64_t n, std::int32_t* pivots) {
  const std::int64_t steps = std::min(m, n);
  std::int32_t info = 0;
  for (std::int64_t j = 0; j < n; ++j) {
    double* const column = a + j * m;
    for (std::int64_t k = 0; k < std::min(j, m); ++k) std::swap(column[k], column[pivots[k] - 1]);
    for (std::int64_t k = 0; k < std::min(j, m); ++k) subtract_multiple(column, a + k * m, column[k], k + 1, m);
    if (j >= steps) continue;
    std::int64_t best = j;
    for (std::int64_t i = j + 1; i < m; ++i) {
      if (std::fabs(column[i]) > std::fabs(column[best])) best = i;
    }
    pivots[j] = static_cast<std::int32_t>(best + 1);
    if (best != j) {
      for (std::int64_t c = 0; c <= j; ++c) std::swap(a[c * m + j], a[c * m + best]);
    }
    if (column[j] == 0.0) {
      if (info == 0) info = static_cast<std::int32_t>(j + 1);
      continue;
    }
    for (std::int64_t i = j + 1; i < m; ++i) column[i] = column[i] / column[j];
  }
  return info;
}

// Rows are solved in the direction in which they are known; from each those before it are subtracted in that order.
void solve_triangle(const Triangle& t, double* x, std::int64_t columns) {
  const bool down = t.upper == t.transposed;  // the first row is known first
  const auto element = [&](std::int64_t i, std::int64_t k) {
    return t.transposed ? t.a[i * t.n + k] : t.a[k * t.n + i];
  };
  const std::int64_t smallest = std::max<std::int64_t>(1, kSmallestRows / std::max<std::int64_t>(t.n, 1));
  parallel_for(0, columns, smallest, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t step = 0; step < t.n; ++step) {
      const std::int64_t i = down ? step : t.n - 1 - step;
      double* const row = x + i * columns;
      for (std::int64_t before = 0; before < step; ++before) {
        const std::int64_t k = down ? before : t.n - 1 - before;
        subtract_multiple(row, x + k * columns, element(i, k), begin, end);
      }
      if (t.unit) continue;
      const double divisor = element(i, i);
      for (std::int64_t c = begin; c < end; ++c) row[c] = row[c] / divisor;
    }
  });
}

}  // namespace

void fill_linear_solvers(HostTable& t) {
  t.factor_cholesky = factor_cholesky;
  t.factor_lu = factor_lu;
  t.solve_triangle = solve_triangle;
}

}  // namespace isobit::kernels::reference
