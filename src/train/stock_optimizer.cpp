#include "train/stock_optimizer.h"

#include <ATen/core/Tensor.h>
#include <ATen/core/grad_mode.h>

#include <cmath>

#include "train/lars.h"

namespace isobit::train {
namespace {

// torch.optim.SGD, _single_tensor_sgd.
void sgd(const OptimizerSettings& o, std::int64_t step, double lr, const at::Tensor& parameter, at::Tensor gradient,
         const at::Tensor* velocity) {
  if (o.weight_decay != 0) gradient = gradient.add(parameter, o.weight_decay);
  if (velocity != nullptr) {
    if (step == 1) velocity->copy_(gradient);
    if (step > 1) velocity->mul_(o.momentum).add_(gradient, 1 - o.dampening);
    gradient = o.nesterov ? gradient.add(*velocity, o.momentum) : *velocity;
  }
  parameter.add_(gradient, -lr);
}

// torch.optim.Adam and AdamW, _single_tensor_adam.
void adam(const OptimizerSettings& o, std::int64_t step, double lr, const at::Tensor& parameter, at::Tensor gradient,
          const at::Tensor& average, const at::Tensor& squares) {
  const double beta1 = o.betas[0], beta2 = o.betas[1];
  if (o.weight_decay != 0 && o.name == "adamw") parameter.mul_(1 - lr * o.weight_decay);
  if (o.weight_decay != 0 && o.name == "adam") gradient = gradient.add(parameter, o.weight_decay);
  average.lerp_(gradient, 1 - beta1);
  squares.mul_(beta2).addcmul_(gradient, gradient, 1 - beta2);
  const double correction1 = 1 - std::pow(beta1, static_cast<double>(step)),
               correction2 = std::sqrt(1 - std::pow(beta2, static_cast<double>(step)));
  const at::Tensor denominator = squares.sqrt().div_(correction2).add_(o.eps);
  parameter.addcdiv_(average, denominator, -lr / correction1);
}

}  // namespace

void stock_step(const OptimizerSettings& settings, std::int64_t step, double lr,
                std::span<const trace::NamedTensor> parameters, std::span<const at::Tensor> gradients,
                std::span<const trace::NamedTensor> state) {
  const at::NoGradGuard no_grad;
  if (settings.name == "lars") {
    const LarsOptions options{lr, settings.eta, settings.momentum, settings.weight_decay, settings.exclude_vectors};
    return lars_by_operators(options, parameters, gradients, state);
  }
  const std::size_t slots = parameters.empty() ? 0 : state.size() / parameters.size();
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    const at::Tensor& parameter = parameters[i].tensor;
    if (settings.name == "sgd") {
      sgd(settings, step, lr, parameter, gradients[i], slots == 0 ? nullptr : &state[i * slots].tensor);
    } else {
      adam(settings, step, lr, parameter, gradients[i], state[i * slots].tensor, state[i * slots + 1].tensor);
    }
  }
}

}  // namespace isobit::train
