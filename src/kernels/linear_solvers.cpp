// What is made of factors; the factors themselves are kernels (dispatch/kernel_list.h).
#include "kernels/linear_solvers.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "contract/functions_wide.h"
#include "kernels/float_environment.h"

namespace isobit::kernels {

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
