// The few words of CUDA that our kernels are written in, so that one source runs on a GPU and, thread by
// thread, on a CPU.
//
// A kernel is an ISOBIT_KERNEL function over plain values and device pointers that uses only what stands here:
// blocks are one-dimensional, warps have 32 threads, shared memory is one dynamic piece per thread block.
// nvcc sees CUDA (device_nvcc.h); any other compiler sees the emulation (emulation/), which runs the same body
// with every barrier, shuffle and asynchronous copy checked. The arithmetic comes from src/contract, compiled
// with -fmad=false -ftz=false -prec-div=true -prec-sqrt=true.
//
//   thread_index() block_index() block_count() block_threads()    place of the calling thread
//   barrier()                          every thread of the block reaches the same one
//   shuffle(v, lane) shuffle_xor(v, mask) shuffle_down(v, delta)   every thread of the warp
//   mma_s8(d, a, b)                    every thread of the warp: D += A B on tensor cores, A 16 x 32 and B 32 x 8 of
//                                      int8, D 16 x 8 of int32, spread over the warp as PTX's mma.m16n8k32 has them;
//                                      D must not overflow
//   load_matrices(r, row)              every thread of the warp: four 8 x 8 matrices of 16 bits from shared memory, row
//   i % 8
//                                      of matrix i / 8 at what thread i gives, 16 bytes, aligned to 16; thread t gets
//                                      of each matrix the bytes t % 4 * 4 ... of row t / 4 (PTX's ldmatrix)
//   shared_memory<T>()                 start of the block's shared memory, aligned to 16 bytes
//   copy_async<bytes>(to, from)        global to shared, 4, 8 or 16 bytes, both aligned to that size
//   copy_async_or_zero<bytes>(to, from, inside)   the same; zeros, and `from` not read, where not inside
//   commit_async() wait_async<n>()     after the wait (at most n groups still under way) and a barrier the
//                                      copies of the older groups may be read by every thread
//   load4 store4                       16 bytes at once, aligned
//   nearest_integer(x)                 of a float below 2^31 in magnitude, ties to even
//   atomic_add, atomic_max, atomic_min integers only: sums of floats have an order
//   atomic_exchange atomic_fetch_add   give what stood there; what comes of it must not depend on who came first
//   launch(kernel, {blocks, threads, shared_bytes}, args...)   host: queues on device_stream(), throws
//                                      DeviceError; no blocks: nothing
#pragma once

#include <cstdint>

#include "contract/platform.h"
#include "kernels/cuda/runtime.h"

namespace isobit::kernels::ISOBIT_CUDA {

inline constexpr int kWarp = 32;

struct Launch {
  std::int64_t blocks = 0;
  int threads = 256;
  std::int64_t shared_bytes = 0;
};

struct alignas(16) Float4 {
  float x, y, z, w;
};

[[nodiscard]] ISOBIT_HOST_DEVICE constexpr std::int64_t ceil_div(std::int64_t a, std::int64_t b) {
  return (a + b - 1) / b;
}

}  // namespace isobit::kernels::ISOBIT_CUDA

#ifdef __CUDACC__
#include "kernels/cuda/device_nvcc.h"
#else
#include "kernels/cuda/emulation/emulated_device.h"
#endif
