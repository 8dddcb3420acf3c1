// Group and layer normalisation over [n, c, inner], contiguous; statistics per sample and group of c / groups
// neighbouring channels, over (channel, inner) in row-major order by leaf moments (contract, section 4). Layer
// normalisation of [rows, size] is n = rows, c = size, inner = 1, groups = 1.
//
//   mean, M = moments of the row;  variance = M / count;  invstd = 1 / sqrt(variance + eps)
//   s = weight * invstd;  y = fma(x - mean, s, bias)      weight absent: s = invstd; bias absent: +0
//                                                         eps rounded from binary64
//   backward: g = dy * weight (dy without one), of the row a = section 4 sum of g, d = fma-lane sum of
//     g * (x - mean);  k = ((d * invstd) * invstd) / count;  dx = fma(-(x - mean), k, g - a / count) * invstd
//     per channel over (n, inner): dbias = section 4 sum of dy; dweight = fma-lane sum of dy * ((x - mean) * invstd)
//
// Rows without elements: mean +0, variance +0. weight, bias, dx, dweight, dbias may be nullptr. Precondition: groups
// divides c. Thread-safe; uses the pool.
#pragma once

#include <cstdint>

namespace isobit::kernels {

struct GroupShape {
  std::int64_t n = 0, c = 0, inner = 1, groups = 1;
  [[nodiscard]] std::int64_t rows() const { return n * groups; }
  [[nodiscard]] std::int64_t group_channels() const { return c / groups; }
  [[nodiscard]] std::int64_t per_row() const { return group_channels() * inner; }
};

template <class T>
struct GroupNormForwardOf {
  GroupShape shape;
  const T* x = nullptr;
  const T* weight = nullptr;  // [c]
  const T* bias = nullptr;    // [c]
  T* y = nullptr;
  T* mean = nullptr;    // [rows], written
  T* invstd = nullptr;  // [rows], written
  double eps = 1e-5;
};
using GroupNormForward = GroupNormForwardOf<float>;
void group_norm(const GroupNormForward& problem);
void group_norm(const GroupNormForwardOf<double>& problem);

template <class T>
struct GroupNormBackwardOf {
  GroupShape shape;
  const T* x = nullptr;
  const T* dy = nullptr;
  const T* weight = nullptr;
  const T* mean = nullptr;    // [rows]
  const T* invstd = nullptr;  // [rows]
  T* dx = nullptr;
  T* dweight = nullptr;
  T* dbias = nullptr;
};
using GroupNormBackward = GroupNormBackwardOf<float>;
void group_norm_backward(const GroupNormBackward& problem);
void group_norm_backward(const GroupNormBackwardOf<double>& problem);

}  // namespace isobit::kernels
