// Point-wise operators, element by element.
#include "kernels/formulas/pointwise_kernels.h"
#include "kernels/threads.h"

namespace isobit::kernels::reference {
namespace {

template <std::int64_t smallest>  // elements worth a thread
struct ScalarMap {
  template <class Formula, class... Input>
  static void run(Formula formula, float* y, std::int64_t n, const Input*... inputs) {
    parallel_for(0, n, smallest, [=](std::int64_t begin, std::int64_t end) {
      for (std::int64_t i = begin; i < end; ++i) y[i] = formula(inputs[i]...);
    });
  }
};

}  // namespace

void fill_pointwise(KernelTable& t) {
  baseline::PointwiseKernels<ScalarMap<4096>>::fill(t);
  baseline::PointwiseKernels<ScalarMap<1024>>::fill_scalar(t);  // a power takes tens of ns; every host uses it
}

}  // namespace isobit::kernels::reference
