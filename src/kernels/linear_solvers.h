// Factorisations and solutions of linear systems in binary64, each sum in a fixed order (contract, section 14).
//
// Matrices are binary64, column after column: element (i, j) of n rows at j * n + i. Right-hand sides and solutions are
// row after row: element (i, c) at i * columns + c. No fma, every operation rounded. Thread-safe; bits do not depend on
// threads. On the host only.
#pragma once

#include <cstdint>

namespace isobit::kernels {

// The lower triangle of a [n, n] becomes L with a = L L^T; what is above is not read. 0, or 1 + the first column whose
// remaining diagonal element is not positive: that column and those after it are then NaN.
[[nodiscard]] std::int32_t factor_cholesky(double* a, std::int64_t n);

// a [m, n] becomes L below the diagonal and U from it on, of P a = L U; row k was exchanged with row pivots[k] - 1 >= k
// at step k, the first of the largest. 0, or 1 + the first column whose pivot is 0; such a column is not divided.
[[nodiscard]] std::int32_t factor_lu(double* a, std::int64_t m, std::int64_t n, std::int32_t* pivots);

struct Triangle {
  const double* a = nullptr;  // [n, n]; only the triangle is read
  std::int64_t n = 0;
  bool upper = false;
  bool transposed = false;  // a^T is meant, of which `upper` says what a is
  bool unit = false;        // the diagonal is 1 and not read
};
// x [n, columns] becomes the solution y of (a or a^T) y = x.
void solve_triangle(const Triangle& t, double* x, std::int64_t columns);

// x becomes the solution of a y = x or a^T y = x, a's factors and pivots from factor_lu.
void solve_lu(const double* lu, const std::int32_t* pivots, std::int64_t n, bool transposed, double* x,
              std::int64_t columns);

// The determinant as sign * e^logarithm and as a product down the diagonal.
struct Determinant {
  double sign = 1, logarithm = 0, product = 1;
};
[[nodiscard]] Determinant determinant_of(const double* lu, const std::int32_t* pivots, std::int64_t n);

}  // namespace isobit::kernels
