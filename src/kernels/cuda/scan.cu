// Products: a thread per leaf of an output, or where a row lies side by side in memory a warp that loads 32 elements at
// once. Running values: a thread per line; extrema of rows a warp, which may take them in any order.
#include "kernels/scan.h"

#include "contract/chains.h"
#include "contract/functions_wide.h"
#include "kernels/cuda/ordered_reduce.h"
#include "kernels/cuda/table.h"

namespace isobit::kernels::ISOBIT_CUDA {

using contract::Factor;

template <class Move>
ISOBIT_DEVICE Factor moved(Factor v, Move move) {
  return {move(v.value)};
}

namespace {

constexpr int kThreads = 256;

struct StoreProduct {
  float* out;
  ISOBIT_DEVICE void operator()(std::int64_t o, Factor product) const { out[o] = product.value; }
};

// A leaf's product goes to partials[leaf * outputs + o]; where it is the only one, to finish.
struct Leaves {
  std::int64_t outputs, size, inner, count;
  StoreProduct finish;
  Factor* partials;

  [[nodiscard]] ISOBIT_DEVICE std::int64_t end(std::int64_t leaf) const {
    return (leaf + 1) * contract::kLeaf < size ? (leaf + 1) * contract::kLeaf : size;
  }
  ISOBIT_DEVICE void store(std::int64_t leaf, std::int64_t o, Factor product) const {
    if (count == 1) {
      finish(o, product);
    } else {
      partials[leaf * outputs + o] = product;
    }
  }
};

ISOBIT_KERNEL ISOBIT_LAUNCH_BOUNDS(kThreads, 2) void product_kernel(Leaves leaves, const float* x) {
  const std::int64_t at = block_index() * kThreads + thread_index();
  if (at >= leaves.outputs * leaves.count) return;
  const std::int64_t leaf = at / leaves.outputs, line = at - leaf * leaves.outputs, o = line / leaves.inner;
  const float* const from = x + o * leaves.size * leaves.inner + (line - o * leaves.inner);
  Factor t;
  for (std::int64_t k = leaf * contract::kLeaf; k < leaves.end(leaf); ++k) t = t + Factor{from[k * leaves.inner]};
  leaves.store(leaf, line, t);
}

// inner = 1. Absent elements are factors of 1.
ISOBIT_KERNEL ISOBIT_LAUNCH_BOUNDS(kThreads, 2) void product_row_kernel(Leaves leaves, const float* x) {
  const std::int64_t at = block_index() * (kThreads / kWarp) + thread_index() / kWarp;
  if (at >= leaves.outputs * leaves.count) return;  // a whole warp
  const int lane = thread_index() % kWarp;
  const std::int64_t o = at / leaves.count, leaf = at - o * leaves.count, end = leaves.end(leaf);
  Factor t;
  for (std::int64_t k = leaf * contract::kLeaf; k < end; k += kWarp) {
    const float mine = k + lane < end ? x[o * leaves.size + k + lane] : 1.0f;
    for (int l = 0; l < kWarp; ++l) t = t + Factor{shuffle(mine, l)};
  }
  if (lane == 0) leaves.store(leaf, o, t);
}

void product(std::int64_t outer, std::int64_t size, std::int64_t inner, const float* x, float* y) {
  const std::int64_t outputs = outer * inner, count = ceil_div(size, contract::kLeaf);
  if (outputs == 0) return;
  const Scratch scratch(count > 1 ? outputs * count * static_cast<std::int64_t>(sizeof(Factor)) : 0);
  const Leaves leaves{outputs, size, inner, count, {y}, scratch.as<Factor>()};
  if (inner == 1 && size >= kWarp) {
    launch(product_row_kernel, {ceil_div(outputs * count, kThreads / kWarp), kThreads}, leaves, x);
  } else {
    launch(product_kernel, {ceil_div(outputs * count, kThreads), kThreads}, leaves, x);
  }
  if (count != 1) combine<Factor>(leaves.finish, leaves.partials, count, outputs);
}

ISOBIT_KERNEL ISOBIT_LAUNCH_BOUNDS(kThreads, 1) void log_sum_kernel(std::int64_t lines, std::int64_t size,
                                                                    std::int64_t inner, const float* x, float* y) {
  const std::int64_t line = block_index() * kThreads + thread_index();
  if (line >= lines) return;
  const std::int64_t o = line / inner, first = o * size * inner + (line - o * inner);
  double sum = -contract::kInfinityWide;
  for (std::int64_t k = 0; k < size; ++k) {
    sum = contract::log_add_exp_of(sum, static_cast<double>(x[first + k * inner]));
    y[first + k * inner] = contract::rounded(sum);
  }
}

void running_log_sum(std::int64_t outer, std::int64_t size, std::int64_t inner, const float* x, float* y) {
  if (size == 0) return;
  launch(log_sum_kernel, {ceil_div(outer * inner, kThreads), kThreads}, outer * inner, size, inner, x, y);
}

struct Extremum {
  float value = 0.0f;
  std::int64_t place = -1;  // none
};
ISOBIT_DEVICE Extremum later_of(bool largest, Extremum before, Extremum after) {
  return before.place < 0 || contract::takes_over(largest, after.value, before.value) ? after : before;
}

ISOBIT_KERNEL ISOBIT_LAUNCH_BOUNDS(kThreads, 2) void extremum_kernel(bool largest, std::int64_t lines,
                                                                     std::int64_t size, std::int64_t inner,
                                                                     const float* x, float* values,
                                                                     std::int64_t* places) {
  const std::int64_t line = block_index() * kThreads + thread_index();
  if (line >= lines) return;
  const std::int64_t o = line / inner, first = o * size * inner + (line - o * inner);
  Extremum best;
  for (std::int64_t k = 0; k < size; ++k) {
    const std::int64_t at = first + k * inner;
    best = later_of(largest, best, {x[at], k});
    values[at] = best.value;
    places[at] = best.place;
  }
}

// inner = 1: a warp scans 32 elements at once and carries the extremum on.
ISOBIT_KERNEL ISOBIT_LAUNCH_BOUNDS(kThreads, 2) void extremum_row_kernel(bool largest, std::int64_t rows,
                                                                         std::int64_t size, const float* x,
                                                                         float* values, std::int64_t* places) {
  const std::int64_t row = block_index() * (kThreads / kWarp) + thread_index() / kWarp;
  if (row >= rows) return;  // a whole warp
  const int lane = thread_index() % kWarp;
  Extremum carried;
  for (std::int64_t k = 0; k < size; k += kWarp) {
    const bool inside = k + lane < size;
    Extremum mine{inside ? x[row * size + k + lane] : 0.0f, k + lane};
    for (int d = 1; d < kWarp; d *= 2) {
      const float value = shuffle(mine.value, lane - d);
      const std::int64_t place = shuffle(mine.place, lane - d);
      if (lane >= d) mine = later_of(largest, {value, place}, mine);
    }
    mine = later_of(largest, carried, mine);
    if (inside) {
      values[row * size + k + lane] = mine.value;
      places[row * size + k + lane] = mine.place;
    }
    carried.value = shuffle(mine.value, kWarp - 1);
    carried.place = shuffle(mine.place, kWarp - 1);
  }
}

void running_extremum(bool largest, std::int64_t outer, std::int64_t size, std::int64_t inner, const float* x,
                      float* values, std::int64_t* places) {
  if (size == 0) return;
  const std::int64_t lines = outer * inner;
  if (inner == 1) {
    launch(extremum_row_kernel, {ceil_div(lines, kThreads / kWarp), kThreads}, largest, lines, size, x, values, places);
  } else {
    launch(extremum_kernel, {ceil_div(lines, kThreads), kThreads}, largest, lines, size, inner, x, values, places);
  }
}

}  // namespace

void fill_scan(KernelTable& t) {
  t.product = product;
  t.running_log_sum = running_log_sum;
  t.running_extremum = running_extremum;
}

}  // namespace isobit::kernels::ISOBIT_CUDA
