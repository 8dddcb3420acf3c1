// The least time that a step can take on this machine: products at the measured peak, passes at the measured bandwidth.
//
// Products (convolutions, linear layers): the multiply-adds whose factors are no padding, forward and both gradients
// (the first layer has no input gradient). Passes: every other operator's output is read and written once forward, read
// twice and written once backward; the optimizer reads gradient, parameter and momentum and writes two of them. A
// bound, not a prediction: nothing overlaps and nothing is fused in it.
#pragma once

#include <functional>

namespace isobit::bench {

struct StepCost {
  double forward_gflop = 0;  // products, padding not counted
  double first_gflop = 0;    // of the first product
  double output_gbytes = 0;  // of the other operators
  double parameter_gbytes = 0;

  [[nodiscard]] double inference_ms(double gflops, double gbytes) const;
  [[nodiscard]] double training_ms(double gflops, double gbytes) const;
};

// Watches the calling thread's operators while `forward` runs, the switch off.
[[nodiscard]] StepCost cost_of(const std::function<void()>& forward);

}  // namespace isobit::bench
