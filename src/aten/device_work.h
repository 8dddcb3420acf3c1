// Our kernels on a tensor's device.
//
// While a DeviceWork of a CUDA device lives, the calling thread's kernels (src/kernels/*.h) take that device's
// pointers, run on its current PyTorch stream and take scratch from PyTorch's caching allocator. A DeviceWork of the CPU
// does nothing but end that within it. Needs none of PyTorch's CUDA headers. Thread-safe: an object belongs to its thread; they may nest.
#pragma once

#include <c10/core/Device.h>
#include <c10/core/DeviceGuard.h>

#include <optional>

#include "kernels/device.h"

namespace isobit::aten {

class DeviceWork {
 public:
  // Throws kernels::DeviceError where this build has no kernels for the device.
  explicit DeviceWork(c10::Device device);
  ~DeviceWork();
  DeviceWork(const DeviceWork&) = delete;
  DeviceWork& operator=(const DeviceWork&) = delete;

 private:
  c10::Device device_;
  const c10::Device* before_ = nullptr;
  c10::OptionalDeviceGuard guard_;
  std::optional<kernels::DeviceScope> scope_;
  std::optional<kernels::HostScope> host_scope_;
};

// The device of the calling thread's innermost DeviceWork; nullptr on the CPU.
[[nodiscard]] const c10::Device* working_device();

}  // namespace isobit::aten
