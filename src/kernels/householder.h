// The QR factorisation by Householder's reflections, as LAPACK's geqrf and orgqr define it, in a fixed order (contract,
// section 13).
//
// Computed in binary64; results of binary32 rounded once, of binary64 as they are. Columns whose squares would leave
// binary64's range are scaled. a [m, n]; k = min(m, n). On the host only: throws DeviceError within a DeviceScope;
// std::bad_alloc. Thread-safe; uses the pool, bits do not depend on its size.
#pragma once

#include <cstdint>

namespace isobit::kernels {

struct QrProblem {
  std::int64_t m = 0, n = 0;
  const float* a = nullptr;
  const double* wide_a = nullptr;  // a of binary64; then wide_q and wide_r are q and r
  std::int64_t row_stride = 0, column_stride = 0;
  // Q's first columns, column after column: element (i, c) at c * m + i; at most m of them, or k. 0: none.
  std::int64_t q_columns = 0;
  float* q = nullptr;
  double* wide_q = nullptr;
  // R's first rows, column after column: element (i, c) at c * r_rows + i; those below k are +0.
  std::int64_t r_rows = 0;
  float* r = nullptr;
  double* wide_r = nullptr;
};
void householder_qr(const QrProblem& problem);

}  // namespace isobit::kernels
