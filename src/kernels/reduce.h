// Sums, means, extrema over any dimensions (contract, section 4; extrema section 1).
//
// The reduced index is row-major over the reduced dimensions in logical order, whatever the strides.
// Output is contiguous over the kept dimensions in logical order. A sum over nothing is +0, a mean over
// nothing NaN (0 / 0). Extrema over nothing are the caller's error.
// Thread-safe; uses the pool.
#pragma once

#include <cstdint>

namespace isobit::kernels {

inline constexpr int kMaxReduceRank = 16;

struct ReduceShape {
  int kept_rank = 0, reduced_rank = 0;
  std::int64_t kept_size[kMaxReduceRank] = {}, kept_stride[kMaxReduceRank] = {};
  std::int64_t reduced_size[kMaxReduceRank] = {}, reduced_stride[kMaxReduceRank] = {};

  [[nodiscard]] std::int64_t kept_count() const;
  [[nodiscard]] std::int64_t reduced_count() const;
};

void sum(const ReduceShape& shape, const float* x, float* out);
void sum(const ReduceShape& shape, const double* x, double* out);
// sum / RN(count)
void mean(const ReduceShape& shape, const float* x, float* out);
void mean(const ReduceShape& shape, const double* x, double* out);
// sqrt of the fma-lane sum of squares
void norm2(const ReduceShape& shape, const float* x, float* out);
void norm2(const ReduceShape& shape, const double* x, double* out);
// A maximum that is a zero is +0, any NaN makes the canonical NaN.
void maximum(const ReduceShape& shape, const float* x, float* out);
void maximum(const ReduceShape& shape, const double* x, double* out);
void minimum(const ReduceShape& shape, const float* x, float* out);
void minimum(const ReduceShape& shape, const double* x, double* out);
// Index (row-major over the reduced dimensions) of the first NaN, else of the first of the largest.
void argmax(const ReduceShape& shape, const float* x, std::int64_t* out);
void argmax(const ReduceShape& shape, const double* x, std::int64_t* out);

}  // namespace isobit::kernels
