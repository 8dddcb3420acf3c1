// Element-wise operators: neighbouring threads take neighbouring results, strides lead to the operands.
#include "kernels/formulas/elementwise_kernels.h"
#include "kernels/cuda/device.h"
#include "kernels/cuda/table.h"

namespace isobit::kernels::ISOBIT_CUDA {
namespace {

constexpr int kThreads = 256;
constexpr int kPerThread = 4;

template <class Formula, class Walk, class... Sources>
ISOBIT_KERNEL ISOBIT_LAUNCH_BOUNDS(kThreads, 2) void walk_kernel(Formula formula, Walk walk, float* y,
                                                                 Sources... sources) {
  const std::int64_t first = block_index() * (kThreads * kPerThread) + thread_index();
  float values[kPerThread];  // all computed before one is stored, so that the loads need not wait for stores
#pragma unroll
  for (int turn = 0; turn < kPerThread; ++turn) {
    const std::int64_t i = first + turn * kThreads;
    if (i < walk.count) values[turn] = ISOBIT_ISA::element(formula, walk, i, sources...);
  }
#pragma unroll
  for (int turn = 0; turn < kPerThread; ++turn) {
    const std::int64_t i = first + turn * kThreads;
    if (i < walk.count) y[i] = values[turn];
  }
}

struct WalkMap {
  template <class Formula, class Walk, class... Sources>
  static void run(const Formula& formula, const Walk& walk, float* y, const Sources&... sources) {
    launch(walk_kernel<Formula, Walk, Sources...>, {ceil_div(walk.count, kThreads * kPerThread), kThreads}, formula,
           walk, y, sources...);
  }
};

}  // namespace

void fill_elementwise(KernelTable& t) { ISOBIT_ISA::ElementwiseKernels<WalkMap>::fill_table(t); }

}  // namespace isobit::kernels::ISOBIT_CUDA
