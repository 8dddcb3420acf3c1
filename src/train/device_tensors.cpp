#include "train/device_tensors.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>
#include <fmt/format.h>

#include <map>
#include <stdexcept>

namespace isobit::train {

at::Tensor on_host(const at::Tensor& tensor) { return tensor.detach().to(at::kCPU); }

std::vector<NamedTensor> on_host(const std::vector<NamedTensor>& tensors) {
  std::vector<NamedTensor> result;
  for (const auto& [name, tensor] : tensors) result.push_back({name, on_host(tensor)});
  return result;
}

std::vector<NamedTensor> copies(const std::vector<NamedTensor>& tensors) {
  std::vector<NamedTensor> result;
  for (const auto& [name, tensor] : tensors) result.push_back({name, tensor.detach().clone()});
  return result;
}

at::Tensor scalar(float value, c10::Device device) {
  at::Tensor tensor = at::empty({}, at::kFloat);
  *tensor.mutable_data_ptr<float>() = value;
  return tensor.to(device);
}

void copy_values(const std::vector<NamedTensor>& from, const std::vector<NamedTensor>& to) {
  const auto fail = [](const std::string& name) {
    throw std::invalid_argument("the state does not fit the model: " + name);
  };
  std::map<std::string, at::Tensor> source;
  for (const auto& [name, tensor] : from) source[name] = tensor;
  if (from.size() != to.size()) fail(fmt::format("{} tensors for {}", from.size(), to.size()));
  const at::NoGradGuard no_grad;
  for (const auto& [name, tensor] : to) {
    const auto found = source.find(name);
    if (found == source.end()) fail(name);
    if (found->second.scalar_type() != tensor.scalar_type() || found->second.sizes() != tensor.sizes()) fail(name);
    tensor.copy_(found->second);
  }
}

std::int64_t bytes_of(const std::vector<NamedTensor>& tensors) {
  std::int64_t bytes = 0;
  for (const auto& [name, tensor] : tensors) bytes += static_cast<std::int64_t>(tensor.nbytes());
  return bytes;
}

}  // namespace isobit::train
