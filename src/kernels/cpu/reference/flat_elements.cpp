// One operation per element, element by element.
#include "kernels/formulas/flat_kernels.h"
#include "kernels/threads.h"

namespace isobit::kernels::reference {
namespace {

struct LoopMap {
  template <class Formula, class... Input>
  static void run(Formula formula, float* y, std::int64_t n, const Input*... inputs) {
    parallel_for(0, n, 8192, [=](std::int64_t begin, std::int64_t end) {
      for (std::int64_t i = begin; i < end; ++i) y[i] = formula(inputs[i]...);
    });
  }
};

}  // namespace

void fill_flat_elements(HostTable& t) { baseline::FlatKernels<LoopMap>::fill(t); }

}  // namespace isobit::kernels::reference
