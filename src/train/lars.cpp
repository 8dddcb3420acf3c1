#include "train/lars.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/linalg_vector_norm.h>
#include <ATen/ops/stack.h>
#include <fmt/format.h>

#include <cmath>
#include <stdexcept>
#include <vector>

#include "aten/operator_switch.h"
#include "grains/grain_sums.h"

namespace isobit::train {
namespace {

// The 2-norms as the contract has them, section 4; one transfer from a device.
std::vector<double> norms_of(const std::vector<at::Tensor>& tensors) {
  std::vector<at::Tensor> norms;
  for (const at::Tensor& tensor : tensors) norms.push_back(at::linalg_vector_norm(tensor));
  const at::Tensor all = at::stack(norms).cpu();
  return {all.const_data_ptr<float>(), all.const_data_ptr<float>() + all.numel()};
}

// In binary64, each operation rounded.
double rate_of(const LarsOptions& options, double weight, double gradient) {
  if (weight == 0 || gradient == 0) return options.lr;
  return options.lr * (options.eta * weight / (gradient + options.weight_decay * weight));
}

}  // namespace

void lars_step(const LarsOptions& options, std::span<const trace::NamedTensor> parameters,
               std::span<const at::Tensor> gradients, std::span<const trace::NamedTensor> velocities) {
  if (!aten::OperatorSwitch::on()) throw std::logic_error("LARS without the operator switch");
  lars_by_operators(options, parameters, gradients, velocities);
}

void lars_by_operators(const LarsOptions& options, std::span<const trace::NamedTensor> parameters,
                       std::span<const at::Tensor> gradients, std::span<const trace::NamedTensor> velocities) {
  if (parameters.empty()) return;
  const at::NoGradGuard no_grad;
  std::vector<at::Tensor> measured;
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    measured.push_back(parameters[i].tensor);
    measured.push_back(gradients[i]);
  }
  const std::vector<double> norms = norms_of(measured);
  for (std::size_t i = 0; i < norms.size(); ++i) {
    if (!std::isfinite(norms[i]))
      throw grains::NotFinite(fmt::format("the norm of {}{} exceeds float32's range (lars)",
                                          i % 2 == 0 ? "" : "the gradient of ", parameters[i / 2].name));
  }
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    const at::Tensor &weight = parameters[i].tensor, &velocity = velocities[i].tensor;
    const bool plain = options.exclude_vectors && weight.dim() < 2;
    const double rate = plain ? options.lr : rate_of(options, norms[2 * i], norms[2 * i + 1]);
    const double decay = plain ? 0 : options.weight_decay;
    velocity.mul_(options.momentum);
    velocity.add_(decay == 0 ? gradients[i] : gradients[i].add(weight, decay), rate);
    weight.sub_(velocity);
  }
}

}  // namespace isobit::train
