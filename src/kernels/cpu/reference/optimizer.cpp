// Optimizer steps as the contract writes them, element by element.
#include "contract/optimizer.h"

#include "kernels/dispatch/kernel_table.h"
#include "kernels/formulas/optimizer_coefficients.h"

namespace isobit::kernels::reference {
namespace {

void sgd_steps(const SgdOptions& options, bool first_step, const SgdArrays* tensors, std::int64_t count) {
  const contract::SgdCoefficients c = coefficients(options, first_step);
  for (const SgdArrays* t = tensors; t != tensors + count; ++t) {
    for (std::int64_t i = 0; i < t->n; ++i) {
      float unused = 0.0f;
      contract::sgd_element(c, t->parameter[i], t->gradient[i], c.with_momentum ? t->buffer[i] : unused);
    }
  }
}

void adam_steps(const AdamOptions& options, std::int64_t step, const AdamArrays* tensors, std::int64_t count) {
  const contract::AdamCoefficients c = coefficients(options, step);
  for (const AdamArrays* t = tensors; t != tensors + count; ++t) {
    for (std::int64_t i = 0; i < t->n; ++i) {
      contract::adam_element(c, t->parameter[i], t->gradient[i], t->exp_avg[i], t->exp_avg_sq[i]);
    }
  }
}

}  // namespace

void fill_optimizer(KernelTable& t) {
  t.sgd_steps = sgd_steps;
  t.adam_steps = adam_steps;
}

}  // namespace isobit::kernels::reference
