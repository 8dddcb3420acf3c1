// Optimizer steps as the contract writes them, element by element.
#include "contract/optimizer.h"

#include "kernels/dispatch/kernel_table.h"
#include "kernels/formulas/optimizer_coefficients.h"

namespace isobit::kernels::reference {
namespace {

void sgd_step(const SgdOptions& options, bool first_step, float* parameter, const float* gradient, float* buffer,
              std::int64_t n) {
  const contract::SgdCoefficients c = coefficients(options, first_step);
  for (std::int64_t i = 0; i < n; ++i) {
    float unused = 0.0f;
    contract::sgd_element(c, parameter[i], gradient[i], c.with_momentum ? buffer[i] : unused);
  }
}

void adam_step(const AdamOptions& options, std::int64_t step, float* parameter, const float* gradient, float* exp_avg,
               float* exp_avg_sq, std::int64_t n) {
  const contract::AdamCoefficients c = coefficients(options, step);
  for (std::int64_t i = 0; i < n; ++i) {
    contract::adam_element(c, parameter[i], gradient[i], exp_avg[i], exp_avg_sq[i]);
  }
}

}  // namespace

void fill_optimizer(KernelTable& t) {
  t.sgd_step = sgd_step;
  t.adam_step = adam_step;
}

}  // namespace isobit::kernels::reference
