// The device's runtime behind runtime.h and device_nvcc.h, and the backend that the library offers.
#include "kernels/cuda/runtime.h"

#include <cstdio>
#include <string>

#include "kernels/cuda/device.h"
#include "kernels/cuda/table.h"

namespace isobit::kernels::cuda {
namespace {

void check(cudaError_t status, const char* what) {
  if (status == cudaSuccess) return;
  (void)cudaGetLastError();  // errors that are not sticky do not meet the next caller
  throw DeviceError(std::string("CUDA: ") + what + ": " + cudaGetErrorString(status));
}

cudaStream_t stream() { return static_cast<cudaStream_t>(device_stream()); }

void* allocate(std::size_t bytes, void* on) {
  void* memory = nullptr;
  const cudaError_t status = cudaMallocAsync(&memory, bytes, static_cast<cudaStream_t>(on));
  if (status == cudaErrorMemoryAllocation) {
    (void)cudaGetLastError();
    std::size_t available = 0, total = 0;
    check(cudaMemGetInfo(&available, &total), "asking for free memory");
    throw DeviceError("CUDA: out of memory: " + std::to_string(bytes) + " bytes asked for, " +
                      std::to_string(available) + " of " + std::to_string(total) + " free");
  }
  check(status, "allocating memory");
  return memory;
}
void release(void* memory, void* on) { (void)cudaFreeAsync(memory, static_cast<cudaStream_t>(on)); }

int device_count() {
  int count = 0;
  if (cudaGetDeviceCount(&count) != cudaSuccess) {
    (void)cudaGetLastError();
    return 0;
  }
  return count;
}

int attribute(cudaDeviceAttr which, const char* what) {
  int device = 0, value = 0;
  check(cudaGetDevice(&device), "asking for the current device");
  check(cudaDeviceGetAttribute(&value, which, device), what);
  return value;
}

std::string device_name(int i) {
  cudaDeviceProp p;
  check(cudaGetDeviceProperties(&p, i), "asking for a device's properties");
  return std::string(p.name) + ", compute capability " + std::to_string(p.major) + "." + std::to_string(p.minor) +
         ", " + std::to_string(p.multiProcessorCount) + " multiprocessors";
}

}  // namespace

void copy_to_host(void* to, const void* from, std::int64_t bytes) {
  check(cudaMemcpyAsync(to, from, static_cast<std::size_t>(bytes), cudaMemcpyDeviceToHost, stream()),
        "copying to the host");
  check(cudaStreamSynchronize(stream()), "waiting for the device");
}
// From pageable memory: the runtime has staged it when the call returns.
void copy_to_device(void* to, const void* from, std::int64_t bytes) {
  check(cudaMemcpyAsync(to, from, static_cast<std::size_t>(bytes), cudaMemcpyHostToDevice, stream()),
        "copying to the device");
}
void fill_bytes(void* memory, int value, std::int64_t bytes) {
  check(cudaMemsetAsync(memory, value, static_cast<std::size_t>(bytes), stream()), "filling memory");
}

int multiprocessors() { return attribute(cudaDevAttrMultiProcessorCount, "asking for multiprocessors"); }

std::int64_t shared_memory_limit() {
  return attribute(cudaDevAttrMaxSharedMemoryPerBlockOptin, "asking for a block's shared memory");
}

unsigned grid_size(std::int64_t blocks) {
  if (blocks > 0x7fffffff) throw DeviceError("CUDA: a grid of " + std::to_string(blocks) + " blocks is too large");
  return static_cast<unsigned>(blocks);
}

void allow_shared_memory(const void* kernel, std::int64_t bytes) {
  if (bytes <= 48 * 1024) return;
  check(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, static_cast<int>(bytes)),
        ("asking for " + std::to_string(bytes) + " bytes of shared memory").c_str());
}

void check_launch() { check(cudaGetLastError(), "launching a kernel"); }

const DeviceBackend& backend() {
  static const KernelTable table = make_table();
  static const DeviceBackend backend{"cuda", &table, {allocate, release}, device_count, device_name};
  return backend;
}

}  // namespace isobit::kernels::cuda
