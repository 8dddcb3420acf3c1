// Exact sums: integers only, so any order gives the same sums.
#include "contract/exact_sum.h"

#include <algorithm>

#include "kernels/cuda/device.h"
#include "kernels/cuda/table.h"

namespace isobit::kernels::ISOBIT_CUDA {
namespace {

constexpr int kThreads = 256;
constexpr std::int64_t kPerThread = 8;  // elements that a thread should at least look at, to spare atomics
constexpr int kSignless = 0x7fffffff, kInfinite = 0x7f800000;

// The largest magnitude, as the bits of a float without its sign: they grow with it, infinity and then NaN last.
ISOBIT_KERNEL ISOBIT_LAUNCH_BOUNDS(kThreads, 4) void largest_kernel(const float* x, std::int64_t n, int* largest) {
  int most = 0;
  const std::int64_t stride = block_count() * kThreads;
  for (std::int64_t i = block_index() * kThreads + thread_index(); i < n; i += stride) {
    const int bits = static_cast<int>(contract::bits_of(x[i])) & kSignless;
    most = bits > most ? bits : most;
  }
  for (int mask = kWarp / 2; mask > 0; mask /= 2) {
    const int other = shuffle_xor(most, mask);
    most = other > most ? other : most;
  }
  if (thread_index() % kWarp == 0) atomic_max(largest, most);
}

int top_limb(const float* x, std::int64_t n) {
  if (n == 0) return kNoLimb;
  const Scratch scratch(sizeof(int));
  int* on_device = scratch.as<int>();
  fill_bytes(on_device, 0, sizeof(int));
  const std::int64_t blocks = std::min<std::int64_t>(ceil_div(n, kThreads * kPerThread), 8 * multiprocessors());
  launch(largest_kernel, {blocks, kThreads}, x, n, on_device);
  int largest = 0;
  copy_to_host(&largest, on_device, sizeof(int));
  if (largest >= kInfinite) return kNotFinite;
  return contract::top_limb_of(contract::float_of(static_cast<std::uint32_t>(largest)));
}

ISOBIT_KERNEL ISOBIT_LAUNCH_BOUNDS(kThreads, 4) void add_kernel(const float* x, int t, std::int64_t* hi,
                                                                std::int64_t* lo, std::int64_t n) {
  const std::int64_t i = block_index() * kThreads + thread_index();
  if (i >= n) return;
  const contract::SumDigits digits = contract::sum_digits(x[i], t);
  hi[i] += digits.high;
  lo[i] += digits.low;
}

void add_digits(const float* x, int t, std::int64_t* hi, std::int64_t* lo, std::int64_t n) {
  if (t == kNoLimb) return;
  launch(add_kernel, {ceil_div(n, kThreads), kThreads}, x, t, hi, lo, n);
}

ISOBIT_KERNEL ISOBIT_LAUNCH_BOUNDS(kThreads, 4) void round_kernel(const std::int64_t* hi, const std::int64_t* lo, int t,
                                                                  float* out, std::int64_t n) {
  const std::int64_t i = block_index() * kThreads + thread_index();
  if (i < n) out[i] = contract::round_sum(hi[i], lo[i], t);
}

void round_digits(const std::int64_t* hi, const std::int64_t* lo, int t, float* out, std::int64_t n) {
  if (t == kNoLimb) {
    if (n > 0) fill_bytes(out, 0, n * static_cast<std::int64_t>(sizeof(float)));
    return;
  }
  launch(round_kernel, {ceil_div(n, kThreads), kThreads}, hi, lo, t, out, n);
}

}  // namespace

void fill_exact_sum(KernelTable& t) {
  t.top_limb = top_limb;
  t.add_digits = add_digits;
  t.round_digits = round_digits;
}

}  // namespace isobit::kernels::ISOBIT_CUDA
