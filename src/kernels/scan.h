// Products and running values along the middle of [outer, size, inner]: chains in the source's own order (contract,
// sections 1, 4 and 10). Running sums and products: kernels/indexed.h.
//
// Thread-safe; uses the pool.
#pragma once

#include <cstdint>

namespace isobit::kernels {

// y [outer, inner]: leaves of 512, each a chain of products from 1, and the pairwise tree of the leaves; 1 for no
// elements.
void product(std::int64_t outer, std::int64_t size, std::int64_t inner, const float* x, float* y);
void product(std::int64_t outer, std::int64_t size, std::int64_t inner, const double* x, double* y);

// s = -inf; y[k] = RN(s = ln(e^s + e^x[k])), s in binary64 (contract/functions_wide.h). y may be x.
void running_log_sum(std::int64_t outer, std::int64_t size, std::int64_t inner, const float* x, float* y);

// The largest (smallest) element so far and its place along the dimension: the last of equals; from a NaN on the last
// NaN.
void running_extremum(bool largest, std::int64_t outer, std::int64_t size, std::int64_t inner, const float* x,
                      float* values, std::int64_t* places);
void running_extremum(bool largest, std::int64_t outer, std::int64_t size, std::int64_t inner, const double* x,
                      double* values, std::int64_t* places);

}  // namespace isobit::kernels
