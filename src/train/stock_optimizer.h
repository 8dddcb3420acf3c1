// The optimizers' updates by PyTorch's own operators, for experiments of stock arithmetic: torch.optim's single-tensor
// form, one operator after the other, and LARS as lars.h describes it.
#pragma once

#include <cstdint>
#include <span>

#include "trace/tensor_fingerprint.h"
#include "train/experiment.h"

namespace isobit::train {

// Step number `step` (from 1) at rate `lr`, in place. `state`: `slots` tensors per parameter as Optimizer has them.
// LARS throws grains::NotFinite before it changes anything.
void stock_step(const OptimizerSettings& settings, std::int64_t step, double lr,
                std::span<const trace::NamedTensor> parameters, std::span<const at::Tensor> gradients,
                std::span<const trace::NamedTensor> state);

}  // namespace isobit::train
