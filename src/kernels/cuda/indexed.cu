// Additions and reductions by index, a thread per element of a list's row; running sums, a thread per line, or where
// lines lie side by side in memory only with themselves, a warp that loads 32 elements at once.
#include "kernels/indexed.h"

#include <cmath>

#include "contract/pairwise_tree.h"
#include "kernels/cuda/device.h"
#include "kernels/cuda/table.h"

namespace isobit::kernels::ISOBIT_CUDA {
namespace {

constexpr int kThreads = 256;

ISOBIT_KERNEL ISOBIT_LAUNCH_BOUNDS(kThreads, 2) void indexed_add_kernel(Occurrences occurrences, std::int64_t count,
                                                                        std::int64_t source_rows, std::int64_t inner,
                                                                        float alpha, const float* source,
                                                                        float* destination) {
  const std::int64_t at = block_index() * kThreads + thread_index();
  if (at >= count) return;
  const std::int64_t line = at / inner, i = at - line * inner;
  const std::int64_t o = line / occurrences.rows, r = line - o * occurrences.rows;
  const std::int64_t begin = occurrences.begin[r], end = occurrences.begin[r + 1];
  if (begin == end) return;
  const float* const from = source + o * source_rows * inner + i;
  contract::PairwiseTreeOf<float> tree;
  for (std::int64_t leaf = begin; leaf < end; leaf += contract::kLeaf) {
    const std::int64_t leaf_end = leaf + contract::kLeaf < end ? leaf + contract::kLeaf : end;
    float t = 0.0f;
    for (std::int64_t k = leaf; k < leaf_end; ++k) t = t + from[occurrences.order[k] * inner];
    tree.add(t);
  }
  const std::int64_t to =
      occurrences.row == nullptr ? at : (o * occurrences.destination_rows + occurrences.row[r]) * inner + i;
  const float sum = tree.result(), before = destination[to];
  destination[to] = alpha == 1.0f ? before + sum : ::fmaf(alpha, sum, before);
}

void indexed_add(const Occurrences& occurrences, std::int64_t outer, std::int64_t source_rows, std::int64_t inner,
                 float alpha, const float* source, float* destination) {
  const std::int64_t count = outer * occurrences.rows * inner;
  launch(indexed_add_kernel, {ceil_div(count, kThreads), kThreads}, occurrences, count, source_rows, inner, alpha,
         source, destination);
}

ISOBIT_KERNEL ISOBIT_LAUNCH_BOUNDS(kThreads, 2) void indexed_reduce_kernel(IndexReduction op, Occurrences occurrences,
                                                                           std::int64_t inner, bool include_self,
                                                                           const float* source, float* destination) {
  const std::int64_t at = block_index() * kThreads + thread_index();
  if (at >= occurrences.rows * inner) return;
  const std::int64_t r = at / inner, i = at - r * inner;
  const std::int64_t count = occurrences.begin[r + 1] - occurrences.begin[r];
  const std::int64_t* const order = occurrences.order + occurrences.begin[r];
  if (count == 0) return;
  float* const to = destination + (occurrences.row == nullptr ? r : occurrences.row[r]) * inner + i;
  *to = contract::reduced_by_index(op, count, *to, include_self,
                                   [=](std::int64_t k) { return source[order[k] * inner + i]; });
}

void indexed_reduce(IndexReduction op, const Occurrences& occurrences, std::int64_t inner, bool include_self,
                    const float* source, float* destination) {
  launch(indexed_reduce_kernel, {ceil_div(occurrences.rows * inner, kThreads), kThreads}, op, occurrences, inner,
         include_self, source, destination);
}

struct RunningSum {
  static constexpr float kStart = 0.0f;
  ISOBIT_DEVICE float operator()(float t, float x) const { return t + x; }
};
struct RunningProduct {
  static constexpr float kStart = 1.0f;
  ISOBIT_DEVICE float operator()(float t, float x) const { return t * x; }
};

template <class Step>
ISOBIT_KERNEL ISOBIT_LAUNCH_BOUNDS(kThreads, 2) void line_kernel(Step step, std::int64_t lines, std::int64_t size,
                                                                 std::int64_t inner, const float* x, float* y) {
  const std::int64_t line = block_index() * kThreads + thread_index();
  if (line >= lines) return;
  const std::int64_t o = line / inner, first = o * size * inner + (line - o * inner);
  float t = Step::kStart;
  for (std::int64_t k = 0; k < size; ++k) y[first + k * inner] = t = step(t, x[first + k * inner]);
}

// inner = 1: the warp's lanes hold 32 elements, every lane takes the chain over them all.
template <class Step>
ISOBIT_KERNEL ISOBIT_LAUNCH_BOUNDS(kThreads, 2) void row_scan_kernel(Step step, std::int64_t lines, std::int64_t size,
                                                                     const float* x, float* y) {
  const std::int64_t line = block_index() * (kThreads / kWarp) + thread_index() / kWarp;
  if (line >= lines) return;  // a whole warp
  const int lane = thread_index() % kWarp;
  float t = Step::kStart;
  for (std::int64_t k = 0; k < size; k += kWarp) {
    const bool inside = k + lane < size;
    const float mine = inside ? x[line * size + k + lane] : Step::kStart;
    float result = 0.0f;
    for (int l = 0; l < kWarp; ++l) {
      t = step(t, shuffle(mine, l));
      if (l == lane) result = t;
    }
    if (inside) y[line * size + k + lane] = result;
  }
}

template <class Step>
void run(std::int64_t outer, std::int64_t size, std::int64_t inner, const float* x, float* y) {
  if (size == 0) return;
  const std::int64_t lines = outer * inner;
  if (inner == 1) {
    launch(row_scan_kernel<Step>, {ceil_div(lines, kThreads / kWarp), kThreads}, Step{}, lines, size, x, y);
  } else {
    launch(line_kernel<Step>, {ceil_div(lines, kThreads), kThreads}, Step{}, lines, size, inner, x, y);
  }
}

void cumulative(Cumulative op, std::int64_t outer, std::int64_t size, std::int64_t inner, const float* x, float* y) {
  if (op == Cumulative::sum) {
    run<RunningSum>(outer, size, inner, x, y);
  } else {
    run<RunningProduct>(outer, size, inner, x, y);
  }
}

}  // namespace

void fill_indexed(KernelTable& t) {
  t.indexed_add = indexed_add;
  t.indexed_reduce = indexed_reduce;
  t.cumulative = cumulative;
}

}  // namespace isobit::kernels::ISOBIT_CUDA
