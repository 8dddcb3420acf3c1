// torch.optim's steps of many parameters in one pass each, where that gives the bits of its own sequence of operators.
//
// The single-tensor sequence (contract, section 8) calls ten operators a parameter, and Python between them: most of a
// small model's step, and ten passes over a large one's states. A step here does the whole sequence element by element
// (kernels/optimizer.h): parameter after parameter on the CPU, many of them in one launch on a device.
//
// Taken or not: false, and nothing has changed, where the sequence could do or show something else. That is where
// anybody watches operators (profilers, traces, modes), a tensor is not a plain one of binary32, they are
// on several devices, a parameter and its states differ in their sizes or strides or share memory, gradients are
// recorded, or a scalar is out of the range in which every coefficient is finite. Then the caller runs the sequence. No
// locks: as in-place operators are.
#pragma once

#include <ATen/core/Tensor.h>

#include <span>

#include "kernels/optimizer.h"

namespace isobit::aten {

// Whose memory no other parameter's may be: each parameter's own, as the single-tensor form comes to it; or all at
// once, as the foreach form does each operator over all parameters.
enum class Order { one_by_one, all_at_once };

struct AdamTensors {
  at::Tensor parameter, gradient, average, square, step;  // step: of the steps done; one on the CPU, counted up here
};
[[nodiscard]] bool adam_in_one_pass(std::span<const AdamTensors> all, const kernels::AdamOptions& options, Order order);

struct SgdTensors {
  at::Tensor parameter, gradient, buffer;  // buffer: undefined where momentum is 0
};
// Not a first step: buffers are there.
[[nodiscard]] bool sgd_in_one_pass(std::span<const SgdTensors> all, const kernels::SgdOptions& options, Order order);

}  // namespace isobit::aten
