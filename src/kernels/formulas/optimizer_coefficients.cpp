#include "kernels/formulas/optimizer_coefficients.h"

#include <cmath>

#include "contract/host_scalars.h"

namespace isobit::kernels {

contract::SgdCoefficients coefficients(const SgdOptions& options, bool first_step) {
  contract::SgdCoefficients c{};
  c.weight_decay = static_cast<float>(options.weight_decay);
  c.momentum = static_cast<float>(options.momentum);
  c.undampened = static_cast<float>(1.0 - options.dampening);
  c.minus_lr = static_cast<float>(-options.lr);
  c.with_weight_decay = options.weight_decay != 0;
  c.with_momentum = options.momentum != 0;
  c.nesterov = options.nesterov;
  c.first_step = first_step;
  return c;
}

contract::AdamCoefficients coefficients(const AdamOptions& options, std::int64_t step) {
  const auto n = static_cast<std::uint64_t>(step);
  const double correction1 = 1.0 - contract::power_rounded(options.beta1, n);
  const double correction2 = 1.0 - contract::power_rounded(options.beta2, n);
  contract::AdamCoefficients c{};
  c.shrink = static_cast<float>(1.0 - options.lr * options.weight_decay);
  c.weight_decay = static_cast<float>(options.weight_decay);
  c.lerp_weight = static_cast<float>(1.0 - options.beta1);
  c.beta2 = static_cast<float>(options.beta2);
  c.square_weight = static_cast<float>(1.0 - options.beta2);
  c.root_correction2 = static_cast<float>(std::sqrt(correction2));
  c.eps = static_cast<float>(options.eps);
  c.minus_step_size = static_cast<float>(-(options.lr / correction1));
  c.with_weight_decay = options.weight_decay != 0;
  c.decoupled = options.decoupled;
  return c;
}

}  // namespace isobit::kernels
