#include "aten/device_work.h"

#include <c10/core/Allocator.h>
#include <c10/core/Stream.h>
#include <c10/core/impl/VirtualGuardImpl.h>

namespace isobit::aten {
namespace {

thread_local const c10::Device* working = nullptr;

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
    throw kernels::DeviceError("this build of isobit has no kernels for CUDA devices");
  }
  use_torch_memory();
  guard_.reset_device(device);
  const c10::Stream stream = c10::impl::VirtualGuardImpl(c10::kCUDA).getStream(device);
  scope_.emplace(stream.native_handle());
  working = &device_;
}

DeviceWork::~DeviceWork() {
  working = before_;
}

const c10::Device* working_device() { return working; }

}  // namespace isobit::aten
