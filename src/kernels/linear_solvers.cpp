// Columns are worked on whole: what is subtracted from one element keeps its order, and neighbours share the loop.
#include "kernels/linear_solvers.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "contract/functions_wide.h"
#include "kernels/device.h"
#include "kernels/float_environment.h"
#include "kernels/threads.h"

namespace isobit::kernels {
namespace {

constexpr std::int64_t kSmallestRows = 4096;

void require_host() {
  if (in_device_scope()) throw DeviceError("linear systems have no GPU kernel");
}

// y[i] -= x[i] * factor for begin <= i < end.
void subtract_multiple(double* y, const double* x, double factor, std::int64_t begin, std::int64_t end) {
  for (std::int64_t i = begin; i < end; ++i) {
    const double product = x[i] * factor;
    y[i] = y[i] - product;
  }
}

}  // namespace

std::int32_t factor_cholesky(double* a, std::int64_t n) {
  require_host();
  const FloatEnvironment environment;
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
  require_host();
  const FloatEnvironment environment;
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
  require_host();
  const FloatEnvironment environment;
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

void solve_lu(const double* lu, const std::int32_t* pivots, std::int64_t n, bool transposed, double* x,
              std::int64_t columns) {
  const auto exchange = [&](std::int64_t k) {
    const std::int64_t other = pivots[k] - 1;
    if (other != k) std::swap_ranges(x + k * columns, x + (k + 1) * columns, x + other * columns);
  };
  const Triangle lower{.a = lu, .n = n, .upper = false, .transposed = transposed, .unit = true};
  const Triangle upper{.a = lu, .n = n, .upper = true, .transposed = transposed, .unit = false};
  if (!transposed) {
    for (std::int64_t k = 0; k < n; ++k) exchange(k);
  }
  solve_triangle(transposed ? upper : lower, x, columns);
  solve_triangle(transposed ? lower : upper, x, columns);
  if (transposed) {
    for (std::int64_t k = n - 1; k >= 0; --k) exchange(k);
  }
}

Determinant determinant_of(const double* lu, const std::int32_t* pivots, std::int64_t n) {
  const FloatEnvironment environment;
  Determinant d;
  for (std::int64_t k = 0; k < n; ++k) {
    const double u = lu[k * n + k];
    if (pivots[k] != k + 1) d.sign = -d.sign, d.product = -d.product;
    d.product = d.product * u;
    if (u < 0.0) d.sign = -d.sign;
    if (u == 0.0) d.sign = 0.0;
    if (u != u) d.sign = u;
    const double size = std::fabs(u);  // subnormal ones by their multiple
    d.logarithm = d.logarithm + (u == 0.0           ? -std::numeric_limits<double>::infinity()
                                 : u != u           ? u
                                 : size < 0x1p-1000 ? contract::log_of(size * 0x1p100) - 0x1.1542457337d43p+6
                                                    : contract::log_of(size));
  }
  return d;
}

}  // namespace isobit::kernels
