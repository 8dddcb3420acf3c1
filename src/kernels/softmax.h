// Softmax and log-softmax along the middle of [outer, size, inner], contiguous (contract, section 4).
//
//   m = maximum of the row (section 1 rule); t = x - m; e = exp(t); s = section 4 sum of e
//   softmax e / s;  log-softmax t - log(s)
//   gradients: softmax d = fma-lane sum of dy * y, dx = (dy - d) * y;  log-softmax d = section 4 sum of dy,
//   dx = fma(-exp(y), d, dy)
//
// Results must not overlap inputs. Thread-safe; uses the pool.
#pragma once

#include <cstdint>

namespace isobit::kernels {

struct SoftmaxShape {
  std::int64_t outer = 0, size = 0, inner = 1;
};

void softmax(const SoftmaxShape& shape, const float* x, float* y);
void softmax(const SoftmaxShape& shape, const double* x, double* y);
void log_softmax(const SoftmaxShape& shape, const float* x, float* y);
void log_softmax(const SoftmaxShape& shape, const double* x, double* y);
void softmax_backward(const SoftmaxShape& shape, const float* dy, const float* y, float* dx);
void softmax_backward(const SoftmaxShape& shape, const double* dy, const double* y, double* dx);
void log_softmax_backward(const SoftmaxShape& shape, const float* dy, const float* y, float* dx);
void log_softmax_backward(const SoftmaxShape& shape, const double* dy, const double* y, double* dx);

}  // namespace isobit::kernels
