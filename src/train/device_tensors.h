// Tensors between the host and the device that a run computes on.
//
// On the CPU nothing is copied: on_host and to() give the tensor itself. One thread per tensor.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/Device.h>

#include <string>
#include <vector>

#include "trace/tensor_fingerprint.h"

namespace isobit::train {

using trace::NamedTensor;

[[nodiscard]] at::Tensor on_host(const at::Tensor& tensor);
[[nodiscard]] std::vector<NamedTensor> on_host(const std::vector<NamedTensor>& tensors);
[[nodiscard]] std::vector<NamedTensor> copies(const std::vector<NamedTensor>& tensors);
// A float32 tensor of no dimension.
[[nodiscard]] at::Tensor scalar(float value, c10::Device device);
// Values by name, over devices; std::invalid_argument where names, types or shapes are not the same.
void copy_values(const std::vector<NamedTensor>& from, const std::vector<NamedTensor>& to);
[[nodiscard]] std::int64_t bytes_of(const std::vector<NamedTensor>& tensors);

}  // namespace isobit::train
