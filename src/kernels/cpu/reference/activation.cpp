// Activations with parameters and terms of losses, element by element.
#include "kernels/formulas/activation_kernels.h"
#include "kernels/threads.h"

namespace isobit::kernels::reference {
namespace {

struct LoopMap {
  template <class Formula, class... Input>
  static void run(Formula formula, float* y, std::int64_t n, const Input*... inputs) {
    parallel_for(0, n, 4096, [=](std::int64_t begin, std::int64_t end) {
      for (std::int64_t i = begin; i < end; ++i) y[i] = formula(inputs[i]...);
    });
  }
};

}  // namespace

void fill_activation(KernelTable& t) { baseline::ActivationKernels<LoopMap>::fill(t); }

}  // namespace isobit::kernels::reference
