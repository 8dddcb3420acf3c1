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
  if (!trace::observing()) return update(0, parameters_.size(), step, lr, gradients);
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    std::vector<at::Tensor> written = {parameters_[i].tensor.detach()};
    for (std::size_t k = 0; k < slots_; ++k) written.push_back(state_[i * slots_ + k].tensor);
    std::vector<at::Tensor> read = written;
    read.push_back(gradients[i]);
    trace::observed(("isobit::" + settings_.name + "_step").c_str(), parameters_[i].name, settings_text(step, lr), read,
                    written, [&] { update(i, i + 1, step, lr, gradients); });
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

void Optimizer::update(std::size_t first, std::size_t last, std::int64_t step, double lr,
                       const std::vector<at::Tensor>& gradients) {
  const auto data = [](const NamedTensor& t) { return t.tensor.mutable_data_ptr<float>(); };
  const auto slot = [&](std::size_t i, std::size_t k) { return data(state_[i * slots_ + k]); };
  if (settings_.name == "sgd") {
    std::vector<kernels::SgdArrays> arrays;
    for (std::size_t i = first; i < last; ++i) {
      arrays.push_back({data(parameters_[i]), gradients[i].const_data_ptr<float>(), slots_ > 0 ? slot(i, 0) : nullptr,
                        gradients[i].numel()});
    }
    kernels::sgd_steps({lr, settings_.momentum, settings_.dampening, settings_.weight_decay, settings_.nesterov},
                       step == 1, arrays.data(), static_cast<std::int64_t>(arrays.size()));
  } else {
    std::vector<kernels::AdamArrays> arrays;
    for (std::size_t i = first; i < last; ++i) {
      arrays.push_back(
          {data(parameters_[i]), gradients[i].const_data_ptr<float>(), slot(i, 0), slot(i, 1), gradients[i].numel()});
    }
    kernels::adam_steps(
        {lr, settings_.betas[0], settings_.betas[1], settings_.eps, settings_.weight_decay, settings_.name == "adamw"},
        step, arrays.data(), static_cast<std::int64_t>(arrays.size()));
  }
}

}  // namespace isobit::train
