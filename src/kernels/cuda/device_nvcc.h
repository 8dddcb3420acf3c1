// device.h as nvcc sees it.
#pragma once

#include <cuda_runtime.h>

#define ISOBIT_KERNEL __global__
#define ISOBIT_DEVICE __device__ __forceinline__
// At most `threads` per block, and at least `blocks` blocks per multiprocessor (which bounds the registers).
#define ISOBIT_LAUNCH_BOUNDS(threads, blocks) __launch_bounds__(threads, blocks)

namespace isobit::kernels::cuda {

ISOBIT_DEVICE int thread_index() { return static_cast<int>(threadIdx.x); }
ISOBIT_DEVICE std::int64_t block_index() { return blockIdx.x; }
ISOBIT_DEVICE std::int64_t block_count() { return gridDim.x; }
ISOBIT_DEVICE int block_threads() { return static_cast<int>(blockDim.x); }

ISOBIT_DEVICE void barrier() { __syncthreads(); }

template <class T>
ISOBIT_DEVICE T shuffle(T value, int lane) {
  return __shfl_sync(0xffffffffu, value, lane);
}
template <class T>
ISOBIT_DEVICE T shuffle_xor(T value, int mask) {
  return __shfl_xor_sync(0xffffffffu, value, mask);
}
template <class T>
ISOBIT_DEVICE T shuffle_down(T value, int delta) {
  return __shfl_down_sync(0xffffffffu, value, delta);
}

// Turing has the instruction for a quarter of it: 8 x 16 by 16 x 8, whose fragments are parts of these.
ISOBIT_DEVICE void mma_s8(int (&d)[4], const std::uint32_t (&a)[4], const std::uint32_t (&b)[2]) {
#if __CUDA_ARCH__ >= 800
  asm("mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
      : "+r"(d[0]), "+r"(d[1]), "+r"(d[2]), "+r"(d[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
#elif __CUDA_ARCH__ >= 750
  for (int deep = 0; deep < 2; ++deep) {
    for (int half = 0; half < 2; ++half) {
      asm("mma.sync.aligned.m8n8k16.row.col.s32.s8.s8.s32 {%0, %1}, {%2}, {%3}, {%0, %1};"
          : "+r"(d[2 * half]), "+r"(d[2 * half + 1])
          : "r"(a[2 * deep + half]), "r"(b[deep]));
    }
  }
#elif defined(__CUDA_ARCH__)
#error "products of int8 need compute capability 7.5"
#endif
}

ISOBIT_DEVICE void load_matrices(std::uint32_t (&r)[4], const void* row) {
  const auto address = static_cast<unsigned>(__cvta_generic_to_shared(row));
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
               : "r"(address)
               : "memory");
}

template <class T>
ISOBIT_DEVICE T* shared_memory() {
  extern __shared__ __align__(16) unsigned char isobit_shared_memory[];
  return reinterpret_cast<T*>(isobit_shared_memory);
}

// Before Ampere an ordinary load and store: delivered earlier than promised, which is allowed.
template <int bytes, class T>
ISOBIT_DEVICE void copy_async(T* to, const T* from) {
  static_assert(bytes == 4 || bytes == 8 || bytes == 16);
#if __CUDA_ARCH__ >= 800
  const auto address = static_cast<unsigned>(__cvta_generic_to_shared(to));
  if constexpr (bytes == 16) {
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(address), "l"(from) : "memory");
  } else {
    asm volatile("cp.async.ca.shared.global [%0], [%1], %2;" ::"r"(address), "l"(from), "n"(bytes) : "memory");
  }
#else
  if constexpr (bytes == 16) {
    *reinterpret_cast<int4*>(to) = *reinterpret_cast<const int4*>(from);
  } else if constexpr (bytes == 8) {
    *reinterpret_cast<int2*>(to) = *reinterpret_cast<const int2*>(from);
  } else {
    *reinterpret_cast<int*>(to) = *reinterpret_cast<const int*>(from);
  }
#endif
}
template <int bytes, class T>
ISOBIT_DEVICE void copy_async_or_zero(T* to, const T* from, bool inside) {
  static_assert(bytes == 4 || bytes == 16);
#if __CUDA_ARCH__ >= 800
  const auto address = static_cast<unsigned>(__cvta_generic_to_shared(to));
  const int read = inside ? bytes : 0;
  if constexpr (bytes == 16) {
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(address), "l"(from), "r"(read) : "memory");
  } else {
    asm volatile("cp.async.ca.shared.global [%0], [%1], 4, %2;" ::"r"(address), "l"(from), "r"(read) : "memory");
  }
#else
  if constexpr (bytes == 16) {
    *reinterpret_cast<float4*>(to) = inside ? *reinterpret_cast<const float4*>(from) : float4{};
  } else {
    *reinterpret_cast<float*>(to) = inside ? *reinterpret_cast<const float*>(from) : 0.0f;
  }
#endif
}
ISOBIT_DEVICE void commit_async() {
#if __CUDA_ARCH__ >= 800
  asm volatile("cp.async.commit_group;" ::: "memory");
#endif
}
template <int groups>
ISOBIT_DEVICE void wait_async() {
#if __CUDA_ARCH__ >= 800
  asm volatile("cp.async.wait_group %0;" ::"n"(groups) : "memory");
#endif
}

ISOBIT_DEVICE Float4 load4(const float* from) { return *reinterpret_cast<const Float4*>(from); }
ISOBIT_DEVICE void store4(float* to, Float4 value) { *reinterpret_cast<Float4*>(to) = value; }

ISOBIT_DEVICE int nearest_integer(float x) { return __float2int_rn(x); }

ISOBIT_DEVICE void atomic_add(std::uint64_t* place, std::uint64_t value) {
  atomicAdd(reinterpret_cast<unsigned long long*>(place), static_cast<unsigned long long>(value));
}
ISOBIT_DEVICE void atomic_max(int* place, int value) { atomicMax(place, value); }
ISOBIT_DEVICE void atomic_min(std::int64_t* place, std::int64_t value) {
  atomicMin(reinterpret_cast<long long*>(place), static_cast<long long>(value));
}
ISOBIT_DEVICE int atomic_exchange(int* place, int value) { return atomicExch(place, value); }
ISOBIT_DEVICE int atomic_fetch_add(int* place, int value) { return atomicAdd(place, value); }

// Host side of launch: a grid's size checked, shared memory above 48 KiB asked for, the error thrown.
[[nodiscard]] unsigned grid_size(std::int64_t blocks);
void allow_shared_memory(const void* kernel, std::int64_t bytes);
void check_launch();

template <class... Parameter, class... Argument>
void launch(void (*kernel)(Parameter...), const Launch& shape, Argument&&... arguments) {
  if (shape.blocks == 0) return;
  allow_shared_memory(reinterpret_cast<const void*>(kernel), shape.shared_bytes);
  kernel<<<grid_size(shape.blocks), static_cast<unsigned>(shape.threads), static_cast<std::size_t>(shape.shared_bytes),
           static_cast<cudaStream_t>(device_stream())>>>(static_cast<Parameter>(arguments)...);
  check_launch();
}

}  // namespace isobit::kernels::cuda
