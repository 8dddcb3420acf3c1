#include "aten/device_composites.h"

#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/native_batch_norm.h>
#include <ATen/ops/zeros.h>
#include <torch/library.h>

#include <algorithm>
#include <optional>
#include <tuple>

namespace isobit::aten {
namespace {

using at::Tensor;
using Optional = std::optional<Tensor>;

constexpr std::string_view kNames[] = {"aten::_batch_norm_impl_index", "aten::dropout", "aten::dropout_"};

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

// Without cuDNN; the index says which backward belongs to it.
std::tuple<Tensor, Tensor, Tensor, Tensor, std::int64_t> batch_norm(const Tensor& x, const Optional& weight,
                                                                    const Optional& bias, const Optional& running_mean,
                                                                    const Optional& running_variance, bool training,
                                                                    double momentum, double eps, bool /*cudnn*/) {
  const auto [y, mean, invstd] =
      at::native_batch_norm(x, weight, bias, running_mean, running_variance, training, momentum, eps);
  return {y, mean, invstd, at::empty({0}, x.options().dtype(at::kByte)), 0};
}

}  // namespace

bool is_device_composite(std::string_view full_name) {
  return std::find(std::begin(kNames), std::end(kNames), full_name) != std::end(kNames);
}

void register_device_composites(torch::Library& device, torch::Library& autograd) {
  for (torch::Library* library : {&device, &autograd}) {
    library->impl("dropout", TORCH_FN(dropout));
    library->impl("dropout_", TORCH_FN(dropout_));
    library->impl("_batch_norm_impl_index", TORCH_FN(batch_norm));
  }
}

}  // namespace isobit::aten
