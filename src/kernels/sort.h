// Stable sorts of rows (contract, section 1).
//
// Thread-safe; uses the pool. On a device rows longer than a tile take 16 bytes of scratch an element, for as many rows
// at once as fit into 512 MiB (or one).
#pragma once

#include <cstdint>

namespace isobit::kernels {

// Every row of x [rows, n]: its elements in order, and their places in the row, both [rows, n]. Equal values (-0 equals
// +0, any NaN any other) keep their order; NaN comes last, first where descending. values may not be x. n < 2^32, else
// std::length_error.
void sort_rows(bool descending, std::int64_t rows, std::int64_t n, const float* x, float* values, std::int64_t* places);
void sort_rows(bool descending, std::int64_t rows, std::int64_t n, const double* x, double* values,
               std::int64_t* places);

}  // namespace isobit::kernels
