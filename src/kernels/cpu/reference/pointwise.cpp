// Point-wise operators, element by element.
#include "contract/functions_binary64.h"
#include "kernels/formulas/pointwise_kernels.h"
#include "kernels/threads.h"

namespace isobit::kernels::reference {
namespace {

template <std::int64_t smallest>  // elements worth a thread
struct ScalarMap {
  template <class Formula, class T, class... Input>
  static void run(Formula formula, T* y, std::int64_t n, const Input*... inputs) {
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
void fill_pointwise(HostTable& t) {
  baseline::PointwiseKernels<ScalarMap<1024>, double>::fill(t);
  baseline::PointwiseKernels<ScalarMap<1024>, double>::fill_scalar(t);
}

}  // namespace isobit::kernels::reference
