// The models that `isobit bench` times, one side's state each.
//
// Both sides run the same module class with the same weights through autograd. Stock runs at its best: oneDNN
// on, the fused optimizer, the better of contiguous and channels-last layouts. isobit runs with switch and
// guard on and its own fused optimizer.
#pragma once

#include <ATen/core/Tensor.h>

#include <memory>
#include <string>
#include <vector>

#include "train/model.h"
#include "train/optimizer.h"

namespace isobit::bench {

struct Workload {
  std::string name;
  train::ModelSettings model;
  std::int64_t batch, size;  // images of size x size; gpt2: tokens
};

[[nodiscard]] const std::vector<std::string>& workload_names();
// std::invalid_argument for a name that is not among them.
[[nodiscard]] Workload workload(const std::string& name);

// One side's model, input and optimizer state; a step is one training step.
class BenchSide {
 public:
  BenchSide(const Workload& work, bool channels_last);

  void stock_step();
  void isobit_step();
  void inference();
  [[nodiscard]] double parameter_gbytes() const;
  void evaluation_mode() { model_->set_training(false); }
  // The parts of a step.
  void backward();
  void stock_optimizer();
  void isobit_optimizer();

 private:
  [[nodiscard]] std::vector<at::Tensor> gradients() const;

  std::unique_ptr<train::Model> model_;
  at::Tensor x_, target_;
  std::vector<at::Tensor> parameters_, momenta_;
  std::unique_ptr<train::Optimizer> optimizer_;
  std::int64_t steps_ = 0;
};

// The better layout for stock, by a few steps of each.
[[nodiscard]] bool channels_last_is_faster(const Workload& work, int threads, bool inference);

}  // namespace isobit::bench
