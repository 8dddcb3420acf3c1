// The optimizers by name: over the fused kernels, with the bits of torch.optim's single-tensor form, and LARS (lars.h;
// contract, section 8).
//
// State tensors per parameter p: lars, and sgd with momentum "p.momentum_buffer"; adam and adamw "p.exp_avg",
// "p.exp_avg_sq". One thread per object.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "trace/tensor_fingerprint.h"
#include "train/experiment.h"

namespace isobit::train {

using trace::NamedTensor;

class Optimizer {
 public:
  // Parameters: contiguous float32 tensors, updated in place.
  Optimizer(const OptimizerSettings& settings, std::vector<NamedTensor> parameters,
            const ArithmeticSettings& arithmetic = {});

  // Step number `step` (from 1) with one gradient per parameter, in their order, contiguous.
  // lars throws grains::NotFinite before it changes anything, and needs the operator switch. Under stock arithmetic
  // PyTorch's own operators update (stock_optimizer.h).
  void step(std::int64_t step, double lr, const std::vector<at::Tensor>& gradients);

  // Named state, sharing memory. Before the first step every state tensor is zero.
  [[nodiscard]] const std::vector<NamedTensor>& state() const { return state_; }

 private:
  // Of the parameters first .. last - 1.
  void update(std::size_t first, std::size_t last, std::int64_t step, double lr,
              const std::vector<at::Tensor>& gradients);
  [[nodiscard]] std::string settings_text(std::int64_t step, double lr) const;

  OptimizerSettings settings_;
  bool stock_;
  std::vector<NamedTensor> parameters_;
  std::vector<NamedTensor> state_;  // slots_ tensors per parameter, one parameter after the other
  std::size_t slots_ = 0;
};

}  // namespace isobit::train
