// Optimizer steps, one parameter tensor at a time, all states in one pass (contract, section 8).
//
// The same sequence of operations as torch.optim's single-tensor form, each operation as the contract's
// operator (add with alpha = fma, addcmul, addcdiv, lerp as in pointwise.h; mul, div, sqrt IEEE). Host scalars
// are binary64 and become binary32 where torch casts them. In place. Thread-safe; uses the pool.
#pragma once

#include <cstdint>

namespace isobit::kernels {

struct SgdOptions {
  double lr = 1e-3, momentum = 0, dampening = 0, weight_decay = 0;
  bool nesterov = false;
};
// buffer: nullptr where momentum is 0; first_step: the buffer becomes a copy of the gradient.
void sgd_step(const SgdOptions& options, bool first_step, float* parameter, const float* gradient, float* buffer,
              std::int64_t n);

struct AdamOptions {
  double lr = 1e-3, beta1 = 0.9, beta2 = 0.999, eps = 1e-8, weight_decay = 0;
  bool decoupled = false;  // AdamW: parameter *= 1 - lr * weight_decay first, gradient untouched
};
// step counts from 1. exp_avg and exp_avg_sq start at +0.
void adam_step(const AdamOptions& options, std::int64_t step, float* parameter, const float* gradient, float* exp_avg,
               float* exp_avg_sq, std::int64_t n);

}  // namespace isobit::kernels
