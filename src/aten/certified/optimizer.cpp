// The fused optimizer steps (contract, section 8): the single-tensor sequence, tensor after tensor.
//
// SGD and Adam are one pass each (kernels/optimizer.h); amsgrad and Adagrad are composed of certified operators. Loss
// scaling (grad_scale, found_inf) is refused: it belongs to 16-bit training.
#include "kernels/optimizer.h"

#include <ATen/ops/cat.h>
#include <ATen/ops/maximum.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <optional>
#include <string>
#include <vector>

#include "aten/adam_batch.h"
#include "aten/certified/support/entry.h"
#include "aten/certified/support/tensors.h"
#include "aten/memory_overlap.h"
#include "aten/refusal.h"
#include "contract/host_scalars.h"

namespace isobit::aten {
namespace {

using at::Tensor;
using at::TensorList;
using Optional = std::optional<Tensor>;

void check_lists(const char* op, std::initializer_list<TensorList> lists, const Optional& scale,
                 const Optional& found) {
  if ((scale && scale->defined()) || (found && found->defined())) {
    refuse(op, "does not take scaled losses", "train in float32 without GradScaler");
  }
  for (const TensorList& list : lists) {
    TORCH_CHECK(list.size() == lists.begin()->size(), op, ": lists of the same length expected, got ",
                lists.begin()->size(), " and ", list.size(), " tensors");
    for (const Tensor& tensor : list) require_float(op, tensor);
  }
}

std::vector<const Tensor*> all_of(std::initializer_list<TensorList> lists) {
  std::vector<const Tensor*> all;
  for (const TensorList& list : lists)
    for (const Tensor& tensor : list) all.push_back(&tensor);
  return all;
}

// The same elements at the same places, on one device.
template <std::size_t N>
bool are_alike(const std::array<Tensor, N>& tensors) {
  const Tensor& first = tensors[0];
  return first.is_non_overlapping_and_dense() && std::all_of(tensors.begin(), tensors.end(), [&](const Tensor& t) {
           return t.sizes() == first.sizes() && t.strides() == first.strides() && t.device() == first.device();
         });
}

// On a device: tensors that lie apart are stepped in one launch, and their numbers of steps come in one copy.
bool may_be_together(TensorList parameters, std::initializer_list<TensorList> lists) {
  return parameters.size() > 1 && !parameters[0].is_cpu() && lie_apart(all_of(lists));
}
std::vector<std::int64_t> counts_of(TensorList steps) {
  std::vector<std::int64_t> counts;
  const bool at_once = steps.size() > 1 && std::none_of(steps.begin(), steps.end(),
                                                        [](const Tensor& t) { return t.is_cpu() || t.numel() != 1; });
  Tensor all;
  if (at_once) {
    std::vector<Tensor> flat;
    for (const Tensor& t : steps) flat.push_back(t.reshape({1}));
    all = at::cat(flat).cpu();
  }
  for (std::size_t i = 0; i < steps.size(); ++i) {
    const Tensor one = at_once ? all[static_cast<std::int64_t>(i)] : steps[i];
    counts.push_back(static_cast<std::int64_t>(one.item<double>()));
  }
  return counts;
}

// Calls step(data...) on arrays in which the same elements have the same places, and copies back where that took
// copies. The first `written` of the tensors are written.
template <std::size_t N, class Step>
void in_same_order(std::array<Tensor, N> tensors, std::size_t written, const Step& step) {
  const bool alike = are_alike(tensors);
  std::array<Tensor, N> used = tensors;
  std::array<float*, N> data{};
  for (std::size_t i = 0; i < N; ++i) {
    TORCH_CHECK(tensors[i].sizes() == tensors[0].sizes(),
                "optimizer step: a parameter and its state differ in size: ", tensors[0].sizes(), " and ",
                tensors[i].sizes());
    TORCH_CHECK(tensors[i].device() == tensors[0].device(),
                "optimizer step: a parameter and its state are on two devices: ", tensors[0].device(), " and ",
                tensors[i].device());
    if (!alike) used[i] = tensors[i].contiguous();
    data[i] = static_cast<float*>(used[i].data_ptr());
  }
  step(data, tensors[0].numel());
  for (std::size_t i = 0; i < written; ++i) {
    if (!used[i].is_same(tensors[i])) tensors[i].copy_(used[i]);
  }
}

// ---- SGD

void sgd(TensorList parameters, TensorList gradients, TensorList buffers, double weight_decay, double momentum,
         double lr, double dampening, bool nesterov, bool maximize, bool is_first_step, const Optional& scale,
         const Optional& found) {
  constexpr const char* op = "aten::_fused_sgd_";
  check_lists(op, {parameters, gradients}, scale, found);
  if (momentum != 0) check_lists(op, {parameters, buffers}, {}, {});
  const kernels::SgdOptions options{lr, momentum, dampening, weight_decay, nesterov};
  const bool together = may_be_together(parameters, {parameters, gradients, momentum != 0 ? buffers : TensorList()});
  std::vector<kernels::SgdArrays> arrays;
  std::vector<Tensor> kept;  // until the launch
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    const Tensor gradient = maximize ? gradients[i].neg() : gradients[i];
    const Tensor& buffer = momentum != 0 ? buffers[i] : parameters[i];
    if (together && are_alike<3>({parameters[i], gradient, buffer})) {
      kept.push_back(gradient);
      arrays.push_back({parameters[i].mutable_data_ptr<float>(), gradient.const_data_ptr<float>(),
                        momentum != 0 ? buffer.mutable_data_ptr<float>() : nullptr, gradient.numel()});
    } else if (momentum != 0) {
      in_same_order<3>({parameters[i], buffers[i], gradient}, 2, [&](const auto& data, std::int64_t n) {
        kernels::sgd_step(options, is_first_step, data[0], data[2], data[1], n);
      });
    } else {
      in_same_order<2>({parameters[i], gradient}, 1, [&](const auto& data, std::int64_t n) {
        kernels::sgd_step(options, is_first_step, data[0], data[1], nullptr, n);
      });
    }
  }
  kernels::sgd_steps(options, is_first_step, arrays.data(), static_cast<std::int64_t>(arrays.size()));
}
void sgd_tensor_lr(TensorList parameters, TensorList gradients, TensorList buffers, double weight_decay,
                   double momentum, const Tensor& lr, double dampening, bool nesterov, bool maximize,
                   bool is_first_step, const Optional& scale, const Optional& found) {
  sgd(parameters, gradients, buffers, weight_decay, momentum, lr.item<double>(), dampening, nesterov, maximize,
      is_first_step, scale, found);
}

// ---- Adam, AdamW

// The single-tensor sequence with the running maximum of the squares.
void amsgrad_step(const kernels::AdamOptions& o, std::int64_t step, const Tensor& parameter, Tensor gradient,
                  const Tensor& average, const Tensor& square, const Tensor& largest) {
  if (o.weight_decay != 0) {
    if (o.decoupled) {
      parameter.mul_(1 - o.lr * o.weight_decay);
    } else {
      gradient = gradient.add(parameter, o.weight_decay);
    }
  }
  average.lerp_(gradient, 1 - o.beta1);
  square.mul_(o.beta2).addcmul_(gradient, gradient, 1 - o.beta2);
  largest.copy_(at::maximum(largest, square));
  const double correction1 = 1 - contract::power_rounded(o.beta1, static_cast<std::uint64_t>(step));
  const double correction2 = 1 - contract::power_rounded(o.beta2, static_cast<std::uint64_t>(step));
  const Tensor denominator = largest.sqrt().div_(std::sqrt(correction2)).add_(o.eps);
  parameter.addcdiv_(average, denominator, -(o.lr / correction1));
}

template <bool decoupled>
void adam(TensorList parameters, TensorList gradients, TensorList averages, TensorList squares, TensorList largest,
          TensorList steps, double lr, double beta1, double beta2, double weight_decay, double eps, bool amsgrad,
          bool maximize, const Optional& scale, const Optional& found) {
  constexpr const char* op = decoupled ? "aten::_fused_adamw_" : "aten::_fused_adam_";
  check_lists(op, {parameters, gradients, averages, squares, steps}, scale, found);
  if (amsgrad) check_lists(op, {parameters, largest}, {}, {});
  const kernels::AdamOptions options{lr, beta1, beta2, eps, weight_decay, decoupled};
  const std::vector<std::int64_t> counts = counts_of(steps);
  const bool together = !amsgrad && may_be_together(parameters, {parameters, gradients, averages, squares});
  AdamBatch batch(options);
  std::vector<Tensor> kept;  // until the batch has run
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    const Tensor gradient = maximize ? gradients[i].neg() : gradients[i];
    const std::int64_t step = counts[i];
    if (together && are_alike<4>({parameters[i], averages[i], squares[i], gradient})) {
      kept.push_back(gradient);
      batch.add(step, {parameters[i].mutable_data_ptr<float>(), gradient.const_data_ptr<float>(),
                       averages[i].mutable_data_ptr<float>(), squares[i].mutable_data_ptr<float>(), gradient.numel()});
      continue;
    }
    if (amsgrad) {
      amsgrad_step(options, step, parameters[i], gradient, averages[i], squares[i], largest[i]);
      continue;
    }
    in_same_order<4>({parameters[i], averages[i], squares[i], gradient}, 3, [&](const auto& data, std::int64_t n) {
      kernels::adam_step(options, step, data[0], data[3], data[1], data[2], n);
    });
  }
  batch.run();
}
template <bool decoupled>
void adam_tensor_lr(TensorList parameters, TensorList gradients, TensorList averages, TensorList squares,
                    TensorList largest, TensorList steps, const Tensor& lr, double beta1, double beta2,
                    double weight_decay, double eps, bool amsgrad, bool maximize, const Optional& scale,
                    const Optional& found) {
  adam<decoupled>(parameters, gradients, averages, squares, largest, steps, lr.item<double>(), beta1, beta2,
                  weight_decay, eps, amsgrad, maximize, scale, found);
}

// ---- Adagrad

void adagrad(TensorList parameters, TensorList gradients, TensorList sums, TensorList steps, double lr, double lr_decay,
             double weight_decay, double eps, bool maximize, const Optional& scale, const Optional& found) {
  check_lists("aten::_fused_adagrad_", {parameters, gradients, sums, steps}, scale, found);
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    Tensor gradient = maximize ? gradients[i].neg() : gradients[i];
    if (weight_decay != 0) gradient = gradient.add(parameters[i], weight_decay);
    const double rate = lr / (1 + (steps[i].item<double>() - 1) * lr_decay);
    sums[i].addcmul_(gradient, gradient, 1.0);
    parameters[i].addcdiv_(gradient, sums[i].sqrt().add_(eps), -rate);
  }
}
void adagrad_tensor_lr(TensorList parameters, TensorList gradients, TensorList sums, TensorList steps, const Tensor& lr,
                       double lr_decay, double weight_decay, double eps, bool maximize, const Optional& scale,
                       const Optional& found) {
  adagrad(parameters, gradients, sums, steps, lr.item<double>(), lr_decay, weight_decay, eps, maximize, scale, found);
}

}  // namespace

std::vector<Entry> optimizer_operators() {
  constexpr std::string_view section = "8: the single-tensor sequence";
  constexpr DeviceRules kHostRate{DeviceIntegers::ours, true};
  return {
      certify<sgd>("aten::_fused_sgd_", "", section),
      certify<sgd_tensor_lr, kHostRate>("aten::_fused_sgd_", "tensor_lr", section),
      certify<adam<false>>("aten::_fused_adam_", "", section),
      certify<adam_tensor_lr<false>, kHostRate>("aten::_fused_adam_", "tensor_lr", section),
      certify<adam<true>>("aten::_fused_adamw_", "", section),
      certify<adam_tensor_lr<true>, kHostRate>("aten::_fused_adamw_", "tensor_lr", section),
      certify<adagrad>("aten::_fused_adagrad_", "", section),
      certify<adagrad_tensor_lr, kHostRate>("aten::_fused_adagrad_", "tensor_lr", section),
  };
}

}  // namespace isobit::aten
