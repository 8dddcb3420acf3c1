#include "aten/certified/support/ctc_recurrence.h"

#include <limits>

#include "kernels/float_environment.h"
#include "kernels/pointwise.h"

namespace isobit::aten {
namespace {

constexpr float kNothing = -std::numeric_limits<float>::infinity();

// Any NaN makes it NaN, as at::maximum. The sign of a zero never reaches the sum.
float larger(float a, float b) { return a != a || a > b ? a : b; }

}  // namespace

CtcRecurrence::CtcRecurrence(std::int64_t samples, std::int64_t states, const bool* may_skip, int direction)
    : samples_(samples),
      states_(states),
      may_skip_(may_skip),
      direction_(direction),
      largest_(static_cast<std::size_t>(samples * states)),
      terms_(3 * largest_.size()) {}

void CtcRecurrence::step(const float* from, std::int64_t stride, const float* emit, float* to, std::int64_t to_stride) {
  const kernels::FloatEnvironment environment;
  const auto count = static_cast<std::int64_t>(largest_.size());
  float *const a = terms_.data(), *const b = a + count, *const c = b + count;
  for (std::int64_t i = 0, at = 0; i < samples_; ++i) {
    const float* const row = from + i * stride;
    const auto state = [&](std::int64_t k) { return k >= 0 && k < states_ ? row[k] : kNothing; };
    for (std::int64_t k = 0; k < states_; ++k, ++at) {
      const float here = row[k], one = state(k - direction_),
                  two = may_skip_[at] ? state(k - 2 * direction_) : kNothing;
      float largest = larger(larger(here, one), two);
      if (largest == kNothing) largest = 0.0f;
      largest_[static_cast<std::size_t>(at)] = largest;
      a[at] = here - largest, b[at] = one - largest, c[at] = two - largest;
    }
  }
  kernels::unary(kernels::Unary::exp, a, a, 3 * count);
  for (std::int64_t at = 0; at < count; ++at) a[at] = a[at] + b[at] + c[at];
  kernels::unary(kernels::Unary::log, a, a, count);
  for (std::int64_t i = 0, at = 0; i < samples_; ++i)
    for (std::int64_t k = 0; k < states_; ++k, ++at)
      to[i * to_stride + k] = a[at] + largest_[static_cast<std::size_t>(at)] + emit[at];
}

}  // namespace isobit::aten
