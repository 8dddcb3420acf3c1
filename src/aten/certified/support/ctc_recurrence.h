// The recurrence of connectionist temporal classification on the host (contract, section 8: L(a, b, c)).
#pragma once

#include <cstdint>
#include <vector>

namespace isobit::aten {

// Steps through time for all samples and states at once: two calls of vectorised functions and plain loops, where
// operators take a dozen calls and as many tensors. One thread at a time; uses the pool for large steps.
class CtcRecurrence {
 public:
  // may_skip: [samples, states], whether a state follows the one two places on in the direction it comes from.
  // direction: 1 where a state follows those before it, -1 where it follows those behind it.
  CtcRecurrence(std::int64_t samples, std::int64_t states, const bool* may_skip, int direction);

  // to[i][k] = L(from[i][k], from[i][k - direction], from[i][k - 2 * direction] where allowed) + emit[i][k]; states
  // that are not there are -inf. Rows of `from` and `to` lie `stride` floats apart, those of emit `states`. to may not
  // be from.
  void step(const float* from, std::int64_t stride, const float* emit, float* to, std::int64_t to_stride);

 private:
  std::int64_t samples_, states_;
  const bool* may_skip_;
  int direction_;
  std::vector<float> largest_, terms_;  // terms: three blocks, a - m, b - m, c - m
};

}  // namespace isobit::aten
