// Powers of binary64 of any exponents: in a unit of their own, since what they bring makes the compiler leave other
// formulas out of line.
#include "contract/functions_binary64.h"
#include "kernels/cpu/vector/binary64_kernels.h"
#include "kernels/cpu/vector/lanes.h"
#include "kernels/formulas/pointwise_kernels.h"
#include "kernels/threads.h"

namespace isobit::kernels::ISOBIT_ISA {
namespace {

struct PowerMap {
  template <class Formula, class... Input>
  static void run(Formula formula, double* y, std::int64_t n, const Input*... inputs) {
    parallel_for(0, n, 256, [=](std::int64_t begin, std::int64_t end) {
      for (std::int64_t i = begin; i < end; ++i) y[i] = formula(inputs[i]...);
    });
  }
};

}  // namespace

void fill_binary64_powers(HostTable& t) { PointwiseKernels<PowerMap, double>::fill_scalar(t); }

}  // namespace isobit::kernels::ISOBIT_ISA
