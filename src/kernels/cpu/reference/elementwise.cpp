// Element-wise operators, element by element. Every host uses these: on CPUs stock's own operators do the work.
#include "kernels/formulas/elementwise_kernels.h"
#include "kernels/threads.h"

namespace isobit::kernels::reference {
namespace {

struct LoopMap {
  template <class Formula, class Walk, class... Sources>
  static void run(const Formula& formula, const Walk& walk, float* y, const Sources&... sources) {
    parallel_for(0, walk.count, 4096, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t i = begin; i < end; ++i) y[i] = baseline::element(formula, walk, i, sources...);
    });
  }
};

}  // namespace

void fill_elementwise(KernelTable& t) { baseline::ElementwiseKernels<LoopMap>::fill_table(t); }

}  // namespace isobit::kernels::reference
