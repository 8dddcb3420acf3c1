// Kernels on a device (a GPU): which calls go there, on which stream, with whose memory.
//
// Within a DeviceScope the public kernels of this folder take device pointers, run on the device's
// implementation and return when their work is queued on the scope's stream; kernels that return a value wait
// for it. The bits are those of every other implementation (docs/contract.md). Errors of the device are thrown
// as DeviceError. Thread-safe: a scope belongs to its thread; the setters are for program start.
#pragma once

#include <cstddef>
#include <stdexcept>
#include <string>

namespace isobit::kernels {

struct KernelTable;

class DeviceError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// Where kernels get scratch memory: usable on the stream, aligned to 256 bytes. release may be called while
// work that uses the memory is still queued on that stream.
struct DeviceMemory {
  void* (*allocate)(std::size_t bytes, void* stream);
  void (*release)(void* memory, void* stream);
};

struct DeviceBackend {
  const char* name;  // "cuda", or "emulated" in tests
  const KernelTable* table;
  DeviceMemory memory;                // used unless set_device_memory gives another
  int (*device_count)();              // usable ones; 0 without a driver
  std::string (*device_name)(int i);  // "NVIDIA H200, compute capability 9.0, 132 multiprocessors"
};

// nullptr: this build has no kernels for a device.
[[nodiscard]] const DeviceBackend* device_backend();
// For tests: the emulation instead of a device; nullptr: what the build has; one without a table: as if it had none.
void set_device_backend(const DeviceBackend* backend);
// src/aten gives PyTorch's caching allocator here.
void set_device_memory(DeviceMemory memory);
[[nodiscard]] const DeviceMemory& device_memory();

// Precondition: device_backend() is not null, the device of the pointers is current.
class DeviceScope {
 public:
  explicit DeviceScope(void* stream);  // a cudaStream_t; nullptr: the default stream
  ~DeviceScope();
  DeviceScope(const DeviceScope&) = delete;
  DeviceScope& operator=(const DeviceScope&) = delete;

 private:
  const KernelTable* table_before_;
  void* stream_before_;
};

// Within a DeviceScope: back on the host while it lives.
class HostScope {
 public:
  HostScope();
  ~HostScope();
  HostScope(const HostScope&) = delete;
  HostScope& operator=(const HostScope&) = delete;

 private:
  const KernelTable* table_before_;
};

[[nodiscard]] bool in_device_scope();
[[nodiscard]] void* device_stream();  // of the innermost scope

}  // namespace isobit::kernels
