#include "kernels/device.h"

#include <utility>

#include "kernels/dispatch/kernel_table.h"

namespace isobit::kernels {

#ifdef ISOBIT_HAVE_CUDA
namespace cuda {
const DeviceBackend& backend();
}
#endif

namespace {

const DeviceBackend* installed = nullptr;
DeviceMemory given_memory{nullptr, nullptr};
thread_local void* stream = nullptr;

}  // namespace

thread_local const KernelTable* device_table = nullptr;

const DeviceBackend* device_backend() {
#ifdef ISOBIT_HAVE_CUDA
  if (installed == nullptr) return &cuda::backend();
#endif
  return installed == nullptr || installed->table == nullptr ? nullptr : installed;
}

void set_device_backend(const DeviceBackend* backend) { installed = backend; }

void set_device_memory(DeviceMemory memory) { given_memory = memory; }

const DeviceMemory& device_memory() {
  return given_memory.allocate != nullptr ? given_memory : device_backend()->memory;
}

DeviceScope::DeviceScope(void* scope_stream) : table_before_(device_table), stream_before_(stream) {
  device_table = device_backend()->table;
  stream = scope_stream;
}

DeviceScope::~DeviceScope() {
  device_table = table_before_;
  stream = stream_before_;
}

HostScope::HostScope() : table_before_(std::exchange(device_table, nullptr)) {}
HostScope::~HostScope() { device_table = table_before_; }

bool in_device_scope() { return device_table != nullptr; }

void* device_stream() { return stream; }

}  // namespace isobit::kernels
