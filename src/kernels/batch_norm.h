// Batch normalisation over [n, c, inner], contiguous; statistics per channel over (n, inner) in row-major
// order by leaf moments (contract, section 4).
//
//   mean, M = moments;  variance = M / n_total;  invstd = 1 / sqrt(variance + eps)
//   s = weight * invstd;  y = fma(x - mean, s, bias)      weight absent: s = invstd; bias absent: +0
//                                                         eps rounded from binary64
//   running = (1 - momentum) * running + momentum * new   products rounded; factors rounded from binary64;
//                                                         new variance M / (n_total - 1), M where that is 0
//   backward: a = section 4 sum of dy;  d = fma-lane sum of dy * (x - mean)
//     dbias = a;  dweight = d * invstd
//     training: g = a / n_total;  k = ((d * invstd) * invstd) / n_total;  dx = fma(-(x - mean), k, dy - g) *
//     s inference: dx = dy * s
//
// No elements (n * inner = 0): mean and variance +0, the running statistics stay as they are.
// Any of weight, bias, running_* and saved_* (in training), dx, dweight, dbias may be nullptr. Thread-safe;
// uses the pool.
#pragma once

#include <cstdint>

namespace isobit::kernels {

struct ChannelShape {
  std::int64_t n = 0, c = 0, inner = 1;
  [[nodiscard]] std::int64_t per_channel() const { return n * inner; }
};

// mean[c], m2[c] (sum of squared deviations), both by leaf moments.
void batch_moments(const ChannelShape& shape, const float* x, float* mean, float* m2);
void batch_moments(const ChannelShape& shape, const double* x, double* mean, double* m2);

template <class T>
struct BatchNormForwardOf {
  ChannelShape shape;
  const T* x = nullptr;
  const T* weight = nullptr;
  const T* bias = nullptr;
  T* running_mean = nullptr;      // updated in training, read in inference
  T* running_variance = nullptr;  // "
  T* y = nullptr;
  T* saved_mean = nullptr;    // [c], written in training
  T* saved_invstd = nullptr;  // [c], written in training
  double momentum = 0.1, eps = 1e-5;
};
using BatchNormForward = BatchNormForwardOf<float>;
void batch_norm_training(const BatchNormForward& problem);
void batch_norm_training(const BatchNormForwardOf<double>& problem);
void batch_norm_inference(const BatchNormForward& problem);
void batch_norm_inference(const BatchNormForwardOf<double>& problem);

template <class T>
struct BatchNormBackwardOf {
  ChannelShape shape;
  bool training = true;
  const T* x = nullptr;
  const T* dy = nullptr;
  const T* weight = nullptr;
  const T* mean = nullptr;    // saved (training) or running (inference)
  const T* invstd = nullptr;  // saved (training) or 1 / sqrt(running + eps) (inference; see invstd_of)
  T* dx = nullptr;
  T* dweight = nullptr;
  T* dbias = nullptr;
};
using BatchNormBackward = BatchNormBackwardOf<float>;
void batch_norm_backward(const BatchNormBackward& problem);
void batch_norm_backward(const BatchNormBackwardOf<double>& problem);

// invstd[i] = 1 / sqrt(variance[i] + eps)
void invstd_of(const float* variance, double eps, float* invstd, std::int64_t n);
void invstd_of(const double* variance, double eps, double* invstd, std::int64_t n);

}  // namespace isobit::kernels
