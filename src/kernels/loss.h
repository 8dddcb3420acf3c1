// Negative log-likelihood of class targets over [n, classes], contiguous (contract, section 8).
//
//   term_i = -(weight[t_i] * x[i, t_i]), w_i = weight[t_i] (1 without weights; then term_i = -x[i, t_i])
//   a row whose target is ignore_index has term +0 and w +0
//   none: term_i;  sum: section 4 sum of terms;  mean: sum / (section 4 sum of w_i)
//   backward: dx[i, t_i] = -(w_i * g) with g = dy (none: dy_i; mean: dy / total_weight), +0 elsewhere
//
// Targets outside [0, classes) other than ignore_index: nothing is written, the row is returned.
// Thread-safe; uses the pool.
#pragma once

#include <cstdint>

namespace isobit::kernels {

enum class Reduction { none = 0, mean = 1, sum = 2 };  // the values of at::Reduction

struct NllShape {
  std::int64_t n = 0, classes = 0;
  std::int64_t ignore_index = -100;
  Reduction reduction = Reduction::mean;
};

// loss: [n] for none, else one value; total_weight: one value. Returns -1, or the first row with a target
// out of range.
[[nodiscard]] std::int64_t nll_forward(const NllShape& shape, const float* x, const std::int64_t* target,
                                       const float* weight, float* loss, float* total_weight);
[[nodiscard]] std::int64_t nll_forward(const NllShape& shape, const double* x, const std::int64_t* target,
                                       const double* weight, double* loss, double* total_weight);
[[nodiscard]] std::int64_t nll_backward(const NllShape& shape, const float* dy, const std::int64_t* target,
                                        const float* weight, const float* total_weight, float* dx);
[[nodiscard]] std::int64_t nll_backward(const NllShape& shape, const double* dy, const std::int64_t* target,
                                        const double* weight, const double* total_weight, double* dx);

}  // namespace isobit::kernels
