#include "aten/device_work.h"

#include <algorithm>

#include <c10/core/Allocator.h>
#include <c10/core/Stream.h>
#include <c10/core/impl/VirtualGuardImpl.h>

namespace isobit::aten {
namespace {

thread_local const c10::Device* working = nullptr;

constexpr const char* kNoKernels =
    "this build of isobit has no kernels for CUDA devices\n  do     build isobit where nvcc is installed, or use the "
    "CPU";

// The caching allocator serves the device and stream that are current, which DeviceWork has set.
void* allocate(std::size_t bytes, void* /*stream*/) { return c10::GetAllocator(c10::kCUDA)->raw_allocate(bytes); }
void release(void* memory, void* /*stream*/) { c10::GetAllocator(c10::kCUDA)->raw_deallocate(memory); }

void use_torch_memory() {
  static const bool done = (kernels::set_device_memory({allocate, release}), true);
  (void)done;
}

}  // namespace

DeviceWork::DeviceWork(c10::Device device) : device_(device), before_(working) {
  if (!device.is_cuda()) {
    if (working == nullptr) return;
    host_scope_.emplace();
    working = nullptr;
    return;
  }
  if (kernels::device_backend() == nullptr) {
    throw kernels::DeviceError(kNoKernels);
  }
  use_torch_memory();
  guard_.reset_device(device);
  const c10::Stream stream = c10::impl::VirtualGuardImpl(c10::kCUDA).getStream(device);
  scope_.emplace(stream.native_handle());
  working = &device_;
}

DeviceWork::~DeviceWork() { working = before_; }

const c10::Device* working_device() { return working; }

std::vector<std::string> device_names() {
  std::vector<std::string> names;
  const kernels::DeviceBackend* backend = kernels::device_backend();
  if (backend == nullptr || !c10::impl::hasDeviceGuardImpl(c10::kCUDA)) return names;
  const int count = std::min<int>(backend->device_count(), c10::impl::VirtualGuardImpl(c10::kCUDA).deviceCount());
  for (int i = 0; i < count; ++i) names.push_back(backend->device_name(i));
  return names;
}

void require_device(c10::Device device) {
  if (device.is_cpu()) return;
  const auto fail = [&](const std::string& why) { throw kernels::DeviceError(device.str() + ": " + why); };
  if (!device.is_cuda()) fail("isobit computes on cpu and cuda devices");
  if (kernels::device_backend() == nullptr) fail(kNoKernels);
  if (!c10::impl::hasDeviceGuardImpl(c10::kCUDA)) {
    fail("this PyTorch was built without CUDA\n  do     install one with CUDA, or use the CPU");
  }
  const std::vector<std::string> names = device_names();
  if (names.empty()) fail("no NVIDIA GPU answers\n  do     check the driver with nvidia-smi, or use the CPU");
  if (static_cast<std::size_t>(std::max<int>(device.index(), 0)) < names.size()) return;
  std::string there = "there is no such device\n  there are";
  for (std::size_t i = 0; i < names.size(); ++i)
    there += (i == 0 ? " cuda:" : "; cuda:") + std::to_string(i) + ", " + names[i];
  fail(there);
}

}  // namespace isobit::aten
