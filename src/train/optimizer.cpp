#include "train/optimizer.h"

#include <ATen/ops/zeros_like.h>
#include <fmt/format.h>

#include "kernels/optimizer.h"
#include "trace/operator_observer.h"
#include "train/lars.h"
#include "train/stock_optimizer.h"

namespace isobit::train {

Optimizer::Optimizer(const OptimizerSettings& settings, std::vector<NamedTensor> parameters,
                     const ArithmeticSettings& arithmetic)
    : settings_(settings), stock_(arithmetic.is_stock()), parameters_(std::move(parameters)) {
  std::vector<const char*> slots;
  if (settings_.name == "adam" || settings_.name == "adamw") slots = {".exp_avg", ".exp_avg_sq"};
  if (settings_.name == "lars" || (settings_.name == "sgd" && settings_.momentum != 0)) slots = {".momentum_buffer"};
  slots_ = slots.size();
  for (const auto& [name, tensor] : parameters_) {
    for (const char* slot : slots) state_.push_back({name + slot, at::zeros_like(tensor.detach())});
  }
}

void Optimizer::step(std::int64_t step, double lr, const std::vector<at::Tensor>& gradients) {
  const trace::OptimizerPhase phase;
  if (stock_) return stock_step(settings_, step, lr, parameters_, gradients, state_);
  if (settings_.name == "lars") {
    lars_step({lr, settings_.eta, settings_.momentum, settings_.weight_decay, settings_.exclude_vectors}, parameters_,
              gradients, state_);
    return;
  }
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    if (!trace::observing()) {
      update(i, step, lr, gradients[i]);
      continue;
    }
    std::vector<at::Tensor> written = {parameters_[i].tensor.detach()};
    for (std::size_t k = 0; k < slots_; ++k) written.push_back(state_[i * slots_ + k].tensor);
    std::vector<at::Tensor> read = written;
    read.push_back(gradients[i]);
    trace::observed(("isobit::" + settings_.name + "_step").c_str(), parameters_[i].name, settings_text(step, lr), read,
                    written, [&] { update(i, step, lr, gradients[i]); });
  }
}

// All that a step depends on beside its tensors.
std::string Optimizer::settings_text(std::int64_t step, double lr) const {
  std::string text = fmt::format("{},{},{}", step, lr, settings_.weight_decay);
  if (settings_.name == "sgd")
    text += fmt::format(",{},{},{}", settings_.momentum, settings_.dampening, settings_.nesterov);
  else
    text += fmt::format(",{},{},{}", settings_.betas[0], settings_.betas[1], settings_.eps);
  return text;
}

void Optimizer::update(std::size_t i, std::int64_t step, double lr, const at::Tensor& gradient_tensor) {
  const at::Tensor& tensor = parameters_[i].tensor;
  float* parameter = tensor.mutable_data_ptr<float>();
  const float* gradient = gradient_tensor.const_data_ptr<float>();
  const auto slot = [&](std::size_t k) { return state_[i * slots_ + k].tensor.mutable_data_ptr<float>(); };
  if (settings_.name == "sgd") {
    const kernels::SgdOptions options{lr, settings_.momentum, settings_.dampening, settings_.weight_decay,
                                      settings_.nesterov};
    kernels::sgd_step(options, step == 1, parameter, gradient, slots_ > 0 ? slot(0) : nullptr, tensor.numel());
  } else {
    const kernels::AdamOptions options{
        lr, settings_.betas[0], settings_.betas[1], settings_.eps, settings_.weight_decay, settings_.name == "adamw"};
    kernels::adam_step(options, step, parameter, gradient, slot(0), slot(1), tensor.numel());
  }
}

}  // namespace isobit::train
