// A formula over arrays: one thread per element, neighbours side by side. Private to this folder.
#pragma once

#include "kernels/cuda/device.h"

namespace isobit::kernels::ISOBIT_CUDA {

inline constexpr int kMapThreads = 256;
inline constexpr int kMapPerThread = 4;

// y[i] = formula(inputs[i]...); y may be one of the inputs.
template <class Formula, class... Input>
ISOBIT_KERNEL ISOBIT_LAUNCH_BOUNDS(kMapThreads, 2) void map_kernel(Formula formula, float* y, std::int64_t n,
                                                                   const Input*... inputs) {
  const std::int64_t first = block_index() * (kMapThreads * kMapPerThread) + thread_index();
  float values[kMapPerThread];  // all computed before one is stored, so that the loads need not wait for stores
#pragma unroll
  for (int turn = 0; turn < kMapPerThread; ++turn) {
    const std::int64_t i = first + turn * kMapThreads;
    if (i < n) values[turn] = formula(inputs[i]...);
  }
#pragma unroll
  for (int turn = 0; turn < kMapPerThread; ++turn) {
    const std::int64_t i = first + turn * kMapThreads;
    if (i < n) y[i] = values[turn];
  }
}

struct DeviceMap {
  template <class Formula, class... Input>
  static void run(Formula formula, float* y, std::int64_t n, const Input*... inputs) {
    launch(map_kernel<Formula, Input...>, {ceil_div(n, kMapThreads * kMapPerThread), kMapThreads}, formula, y, n,
           inputs...);
  }
};

}  // namespace isobit::kernels::ISOBIT_CUDA
