// Optimizer steps of many parameter tensors, all states in one pass (contract, section 8).
//
// The same sequence of operations as torch.optim's single-tensor form, each operation as the contract's
// operator (add with alpha = fma, addcmul, addcdiv, lerp as in pointwise.h; mul, div, sqrt IEEE). Host scalars
// are binary64 and become binary32 where torch casts them. In place. On a device no array may overlap one of another
// tensor: many are stepped in one launch. Thread-safe; uses the pool.
#pragma once

#include <cstdint>

namespace isobit::kernels {

struct SgdOptions {
  double lr = 1e-3, momentum = 0, dampening = 0, weight_decay = 0;
  bool nesterov = false;
};
struct SgdArrays {
  float* parameter;
  const float* gradient;
  float* buffer;  // nullptr where momentum is 0
  std::int64_t n;
};
// first_step: the buffers become copies of the gradients.
void sgd_steps(const SgdOptions& options, bool first_step, const SgdArrays* tensors, std::int64_t count);
inline void sgd_step(const SgdOptions& options, bool first_step, float* parameter, const float* gradient, float* buffer,
                     std::int64_t n) {
  const SgdArrays one{parameter, gradient, buffer, n};
  sgd_steps(options, first_step, &one, 1);
}

struct AdamOptions {
  double lr = 1e-3, beta1 = 0.9, beta2 = 0.999, eps = 1e-8, weight_decay = 0;
  bool decoupled = false;  // AdamW: parameter *= 1 - lr * weight_decay first, gradient untouched
};
struct AdamArrays {
  float* parameter;
  const float* gradient;
  float *exp_avg, *exp_avg_sq;
  std::int64_t n;
};
// step counts from 1 and is that of all tensors. exp_avg and exp_avg_sq start at +0.
void adam_steps(const AdamOptions& options, std::int64_t step, const AdamArrays* tensors, std::int64_t count);
inline void adam_step(const AdamOptions& options, std::int64_t step, float* parameter, const float* gradient,
                      float* exp_avg, float* exp_avg_sq, std::int64_t n) {
  const AdamArrays one{parameter, gradient, exp_avg, exp_avg_sq, n};
  adam_steps(options, step, &one, 1);
}

}  // namespace isobit::kernels
