#include "aten/device_composites.h"

#include "aten/tensordot.h"

#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/grid_sampler_2d.h>
#include <ATen/ops/grid_sampler_3d.h>
#include <ATen/ops/native_batch_norm.h>
#include <ATen/ops/zeros.h>
#include <ATen/ops/max.h>
#include <ATen/ops/median.h>
#include <ATen/ops/min.h>
#include <ATen/ops/nanmedian.h>
#include <ATen/ops/where.h>
#include <ATen/ops/zeros_like.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/library.h>

#include <algorithm>
#include <optional>
#include <tuple>

namespace isobit::aten {
namespace {

using at::Tensor;
using Optional = std::optional<Tensor>;

constexpr std::string_view kNames[] = {"aten::_batch_norm_impl_index", "aten::dropout", "aten::dropout_",
                                       "aten::grid_sampler", kTensordot};

// Undefined where the input stays as it is.
Tensor dropout_factors(const Tensor& x, double p, bool train) {
  TORCH_CHECK(p >= 0 && p <= 1, "dropout probability has to be between 0 and 1, but got ", p);
  if (p == 0 || !train || x.numel() == 0) return {};
  if (p == 1) return at::zeros({}, x.options());
  return at::empty_like(x).bernoulli_(1 - p).div_(1 - p);
}
Tensor dropout(const Tensor& x, double p, bool train) {
  const Tensor factors = dropout_factors(x, p, train);
  return factors.defined() ? x.mul(factors) : x;
}
Tensor& dropout_(Tensor& x, double p, bool train) {
  const Tensor factors = dropout_factors(x, p, train);
  return factors.defined() ? x.mul_(factors) : x;
}

using Normalized = std::tuple<Tensor, Tensor, Tensor, Tensor, std::int64_t>;

// Nothing, but a part of the graph.
Normalized batch_norm_of_nothing(const Tensor& x, const Optional& weight, const Optional& bias) {
  Tensor y = x.clone();
  if (weight && weight->defined()) y = y.mul(weight->select(0, 0));
  if (bias && bias->defined()) y = y.add(bias->select(0, 0));
  const Tensor moment = at::empty({x.dim() > 1 ? x.size(1) : 0}, x.options());
  return {y, moment, moment.clone(), at::empty({0}, x.options().dtype(at::kByte)), 0};
}

// Without cuDNN; the index says which backward belongs to it.
Normalized batch_norm(const Tensor& x, const Optional& weight, const Optional& bias, const Optional& running_mean,
                      const Optional& running_variance, bool training, double momentum, double eps, bool /*cudnn*/) {
  if (x.numel() == 0 && x.dim() > 0) return batch_norm_of_nothing(x, weight, bias);
  const auto [y, mean, invstd] =
      at::native_batch_norm(x, weight, bias, running_mean, running_variance, training, momentum, eps);
  return {y, mean, invstd, at::empty({0}, x.options().dtype(at::kByte)), 0};
}

// Without cuDNN, whatever torch.backends.cudnn.enabled says.
Tensor grid_sampler(const Tensor& x, const Tensor& grid, std::int64_t mode, std::int64_t padding, bool align_corners) {
  TORCH_CHECK(x.dim() == 4 || x.dim() == 5, "aten::grid_sampler: an input of 4 or 5 dimensions expected, got ",
              x.sizes());
  return x.dim() == 4 ? at::grid_sampler_2d(x, grid, mode, padding, align_corners)
                      : at::grid_sampler_3d(x, grid, mode, padding, align_corners);
}
bool never_flattens_weights() { return false; }

// The gradient goes in equal parts to all places of the extremum or median; every other place is filled with +0. (Stock
// multiplies by a mask for CUDA tensors, which gives the zeros signs and makes NaN of an infinite gradient.)
template <Tensor (*extremum)(const Tensor&)>
struct Extremum : torch::autograd::Function<Extremum<extremum>> {
  static Tensor forward(torch::autograd::AutogradContext* context, const Tensor& x) {
    const at::AutoDispatchBelowADInplaceOrView below;
    const Tensor value = extremum(x);
    context->save_for_backward({x, value});
    return value;
  }
  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 const torch::autograd::variable_list& gradients) {
    const auto saved = context->get_saved_variables();
    const Tensor &x = saved[0], &value = saved[1];
    const Tensor places = at::where(value.isnan(), x.isnan(), x.eq(value));
    return {at::zeros_like(x).masked_fill_(places, gradients[0].div(places.sum()))};
  }
};
Tensor max(const Tensor& x) { return Extremum<at::max>::apply(x); }
Tensor min(const Tensor& x) { return Extremum<at::min>::apply(x); }
Tensor median(const Tensor& x) { return Extremum<at::median>::apply(x); }
Tensor nanmedian(const Tensor& x) { return Extremum<at::nanmedian>::apply(x); }

}  // namespace

bool is_device_composite(std::string_view full_name) {
  return std::find(std::begin(kNames), std::end(kNames), full_name) != std::end(kNames);
}

void register_device_composites(torch::Library& device, torch::Library& autograd) {
  for (torch::Library* library : {&device, &autograd}) {
    library->impl("dropout", TORCH_FN(dropout));
    library->impl("dropout_", TORCH_FN(dropout_));
    library->impl("_batch_norm_impl_index", TORCH_FN(batch_norm));
    library->impl("grid_sampler", TORCH_FN(grid_sampler));
  }
  autograd.impl("max", TORCH_FN(isobit::aten::max));
  autograd.impl("min", TORCH_FN(isobit::aten::min));
  autograd.impl("median", TORCH_FN(isobit::aten::median));
  autograd.impl("nanmedian", TORCH_FN(isobit::aten::nanmedian));
}

void register_cudnn_answers(torch::Library& composites) {
  composites.impl("_use_cudnn_rnn_flatten_weight", TORCH_FN(never_flattens_weights));
}

}  // namespace isobit::aten
