// Activations with parameters and terms of losses, element by element.
#include "contract/functions_binary64.h"
#include "kernels/formulas/activation_kernels.h"
#include "kernels/threads.h"

namespace isobit::kernels::reference {
namespace {

struct LoopMap {
  template <class Formula, class T, class... Input>
  static void run(Formula formula, T* y, std::int64_t n, const Input*... inputs) {
    parallel_for(0, n, 4096, [=](std::int64_t begin, std::int64_t end) {
      for (std::int64_t i = begin; i < end; ++i) y[i] = formula(inputs[i]...);
    });
  }
};

}  // namespace

void fill_activation(KernelTable& t) { baseline::ActivationKernels<LoopMap>::fill(t); }
void fill_activation(HostTable& t) { baseline::ActivationKernels<LoopMap, double>::fill(t); }

}  // namespace isobit::kernels::reference
