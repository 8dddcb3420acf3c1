// Our kernels on a tensor's device.
//
// While a DeviceWork of a CUDA device lives, the calling thread's kernels (src/kernels/*.h) take that device's
// pointers, run on its current PyTorch stream and take scratch from PyTorch's caching allocator. A DeviceWork of the
// CPU does nothing but end that within it. Where memory runs out c10::OutOfMemoryError says the size asked and the size
// free. Needs none of PyTorch's CUDA headers. Thread-safe: an object belongs to its thread; they may nest.
#pragma once

#include <c10/core/Device.h>
#include <c10/core/DeviceGuard.h>

#include <optional>
#include <string>
#include <vector>

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

// Devices that tensors can be brought to and that this build has kernels for: "NVIDIA H200, compute capability 9.0,
// 132 multiprocessors"; the place in the list is the index.
[[nodiscard]] std::vector<std::string> device_names();

// Passes the CPU and every device of device_names(). Throws kernels::DeviceError for others, saying which of these it
// is and what to do: no kernels in this build, a PyTorch without CUDA, no device, no device of that index.
void require_device(c10::Device device);

// The device of the calling thread's innermost DeviceWork; nullptr on the CPU.
[[nodiscard]] const c10::Device* working_device();

}  // namespace isobit::aten
