// Optimizer steps for one element (contract, section 8): torch.optim's single-tensor sequence, operation by
// operation. Source: torch 2.13, torch/optim/{sgd,adam,adamw}.py, `_single_tensor_*`, not capturable.
//
// Templates over the lane type: float here, FloatLanes in the vector kernels. Coefficients are the host
// scalars after torch's cast to binary32; how they are made stands in host_scalars.h. Host and device.
#pragma once

#include "contract/scalar_ops.h"

// Plain data: one type for every instruction set, so that host code can make it and vector code use it.
namespace isobit::contract {

struct SgdCoefficients {
  float weight_decay;  // RN(weight_decay)
  float momentum;      // RN(momentum)
  float undampened;    // RN(1 - dampening), the difference in binary64
  float minus_lr;      // RN(-lr)
  bool with_weight_decay, with_momentum, nesterov, first_step;
};

struct AdamCoefficients {
  float shrink;            // RN(1 - lr * weight_decay), binary64 inside; AdamW only
  float weight_decay;      // RN(weight_decay)
  float lerp_weight;       // RN(1 - beta1)
  float beta2;             // RN(beta2)
  float square_weight;     // RN(1 - beta2)
  float root_correction2;  // RN(sqrt(1 - beta2^step))
  float eps;               // RN(eps)
  float minus_step_size;   // RN(-(lr / (1 - beta1^step)))
  bool with_weight_decay, decoupled;
};

}  // namespace isobit::contract

ISOBIT_CONTRACT_BEGIN

// a + (b - a) * weight, as the contract writes torch's lerp for one scalar weight.
template <class Lane, class Weight>
[[nodiscard]] ISOBIT_HOST_DEVICE inline Lane lerp_step(Lane a, Lane b, Weight weight) {
  const Lane d = b - a;
  const bool near_a = (weight < 0 ? -weight : weight) < Weight(0.5);
  return near_a ? fma(Lane(weight), d, a) : fma(Lane(weight - Weight(1)), d, b);
}

// buffer is read unless first_step and written where with_momentum.
template <class Lane>
ISOBIT_HOST_DEVICE inline void sgd_element(const SgdCoefficients& c, Lane& parameter, Lane gradient, Lane& buffer) {
  if (c.with_weight_decay) gradient = fma(Lane(c.weight_decay), parameter, gradient);
  if (c.with_momentum) {
    buffer = c.first_step ? gradient : fma(Lane(c.undampened), gradient, buffer * Lane(c.momentum));
    gradient = c.nesterov ? fma(Lane(c.momentum), buffer, gradient) : buffer;
  }
  parameter = fma(Lane(c.minus_lr), gradient, parameter);
}

template <class Lane>
ISOBIT_HOST_DEVICE inline void adam_element(const AdamCoefficients& c, Lane& parameter, Lane gradient, Lane& exp_avg,
                                            Lane& exp_avg_sq) {
  if (c.with_weight_decay) {
    if (c.decoupled)
      parameter = parameter * Lane(c.shrink);
    else
      gradient = fma(Lane(c.weight_decay), parameter, gradient);
  }
  exp_avg = lerp_step(exp_avg, gradient, c.lerp_weight);
  exp_avg_sq = fma(Lane(c.square_weight) * gradient, gradient, exp_avg_sq * Lane(c.beta2));
  const Lane denominator = sqrt(exp_avg_sq) / Lane(c.root_correction2) + Lane(c.eps);
  parameter = fma(Lane(c.minus_step_size), exp_avg / denominator, parameter);
}

ISOBIT_CONTRACT_END
