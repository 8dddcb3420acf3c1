// Fingerprint sums modulo 2^64: they commute, so threads, warps and blocks add theirs in any order.
#include "contract/fingerprint.h"

#include <algorithm>

#include "kernels/cuda/device.h"
#include "kernels/cuda/table.h"

namespace isobit::kernels::ISOBIT_CUDA {
namespace {

constexpr int kThreads = 256;
constexpr int kWarps = kThreads / kWarp;
constexpr std::int64_t kPerThread = 8;  // elements that a thread should at least look at, to spare atomics

struct Sums {
  std::uint64_t high, low;
};

ISOBIT_DEVICE Sums warp_sums(Sums sums) {
  for (int mask = kWarp / 2; mask > 0; mask /= 2) {
    sums.high += shuffle_xor(sums.high, mask);
    sums.low += shuffle_xor(sums.low, mask);
  }
  return sums;
}

template <class T>
ISOBIT_KERNEL ISOBIT_LAUNCH_BOUNDS(kThreads, 4) void sums_kernel(const T* x, std::int64_t first, std::int64_t n,
                                                                 Sums* total) {
  Sums* of_warp = shared_memory<Sums>();
  const int thread = thread_index();
  Sums sums{0, 0};
  const std::int64_t stride = block_count() * kThreads;
  for (std::int64_t i = block_index() * kThreads + thread; i < n; i += stride) {
    const contract::Mix m = contract::mix(static_cast<std::uint64_t>(first + i), contract::element_bits(x[i]));
    sums.high += m.high;
    sums.low += m.low;
  }
  sums = warp_sums(sums);
  if (thread % kWarp == 0) of_warp[thread / kWarp] = sums;
  barrier();
  if (thread == 0) {
    sums = of_warp[0];
    for (int warp = 1; warp < kWarps; ++warp) {
      sums.high += of_warp[warp].high;
      sums.low += of_warp[warp].low;
    }
    atomic_add(&total->high, sums.high);
    atomic_add(&total->low, sums.low);
  }
}

template <class T>
Fingerprint element_sums(const T* x, std::int64_t first, std::int64_t n) {
  if (n == 0) return {};
  const Scratch scratch(sizeof(Sums));
  Sums* on_device = scratch.as<Sums>();
  fill_bytes(on_device, 0, sizeof(Sums));
  const std::int64_t blocks = std::min<std::int64_t>(ceil_div(n, kThreads * kPerThread), 8 * multiprocessors());
  launch(sums_kernel<T>, {blocks, kThreads, kWarps * static_cast<std::int64_t>(sizeof(Sums))}, x, first, n, on_device);
  Sums sums{};
  copy_to_host(&sums, on_device, sizeof(Sums));
  return {sums.high, sums.low};
}

}  // namespace

void fill_fingerprint(KernelTable& t) {
  t.element_sums_float = element_sums<float>;
  t.element_sums_int64 = element_sums<std::int64_t>;
  t.element_sums_uint8 = element_sums<std::uint8_t>;
}

}  // namespace isobit::kernels::ISOBIT_CUDA
