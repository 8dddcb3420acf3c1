// What the host side of the kernels needs of the device's runtime. Private to this folder.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/device.h"

// nvcc builds the kernels of a GPU; any other compiler builds the same sources for the emulation, beside them.
#ifndef ISOBIT_CUDA
#ifdef __CUDACC__
#define ISOBIT_CUDA cuda
#else
#define ISOBIT_CUDA emulated
#endif
#endif

namespace isobit::kernels::ISOBIT_CUDA {

// Scratch of the current stream, given back (in stream order) when the object dies.
class Scratch {
 public:
  explicit Scratch(std::int64_t bytes) : stream_(device_stream()) {
    if (bytes > 0) memory_ = device_memory().allocate(static_cast<std::size_t>(bytes), stream_);
  }
  ~Scratch() {
    if (memory_ != nullptr) device_memory().release(memory_, stream_);
  }
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;
  template <class T>
  [[nodiscard]] T* as() const {
    return static_cast<T*>(memory_);
  }

 private:
  void* memory_ = nullptr;
  void* stream_;
};

// Brings a result to the host and waits for it: the only place where kernels wait for the device.
void copy_to_host(void* to, const void* from, std::int64_t bytes);
// In stream order; `from` may be changed as soon as the call returns.
void copy_to_device(void* to, const void* from, std::int64_t bytes);
void fill_bytes(void* memory, int value, std::int64_t bytes);
// Multiprocessors of the current device. Sizes grids; never decides about the order of an operation.
[[nodiscard]] int multiprocessors();
// Bytes of shared memory that a block of the current device may ask for.
[[nodiscard]] std::int64_t shared_memory_limit();

}  // namespace isobit::kernels::ISOBIT_CUDA
