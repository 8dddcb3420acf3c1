// LARS (You, Gitman and Ginsburg, 2017, algorithm 1) by certified operators (contract, section 8).
//
// Of each parameter w with gradient g and velocity v: the rate is lr * trust, trust = eta |w| / (|g| + decay |w|) by
// the parameter's own norms; v = momentum v + rate (g + decay w), so that the velocity holds past rates, as published;
// w -= v. Where a norm is 0, trust is 1.
#pragma once

#include <span>

#include "trace/tensor_fingerprint.h"

namespace isobit::train {

struct LarsOptions {
  double lr = 0, eta = 0, momentum = 0, weight_decay = 0;
  bool exclude_vectors = false;  // parameters of fewer than two dimensions: trust 1, no decay
};

// One step in place; the gradients and velocities are like the parameters, in their order, all on one device. Every
// norm is taken before anything changes: throws grains::NotFinite where one exceeds binary32's range, then nothing has.
// Precondition: the operator switch is on (std::logic_error). One thread.
void lars_step(const LarsOptions& options, std::span<const trace::NamedTensor> parameters,
               std::span<const at::Tensor> gradients, std::span<const trace::NamedTensor> velocities);

// The same by whatever operators are in force.
void lars_by_operators(const LarsOptions& options, std::span<const trace::NamedTensor> parameters,
                       std::span<const at::Tensor> gradients, std::span<const trace::NamedTensor> velocities);

}  // namespace isobit::train
