// Batch norm's running statistics in a step of several grains (contract, section 7): taken grain by grain, applied in
// grain order.
//
// While a BatchStatisticsScope lives, a certified batch norm in training leaves its running tensors alone; the scope
// keeps, in call order, which tensors they are, the momentum, and the fresh mean and variance: the bits that momentum 1
// gives from running values of +0. A module called twice is there twice. Of a batch of nothing (n * inner = 0) nothing
// is kept, as it changes no running tensor. CPU and device; modules in C++, TorchScript and Python alike, also where a
// backward or a fork calls them on another thread. Instance norm with running statistics is refused: torch computes it
// from copies of them.
// Batch norm with momentum=None takes its momentum from a count of the calls: it is as if grains had been computed in
// the order of those calls. Who computes them in another order asks require_equal_momenta.
// Needs the operator switch on: stock's batch norm does not ask. A scope belongs to its thread; scopes nest, and the
// innermost counts.
#pragma once

#include <ATen/core/Tensor.h>

#include <memory>
#include <vector>

#include "aten/propagated.h"

namespace torch {
class Library;
}

namespace isobit::aten {

// One call of a batch norm. Undefined where a call has only one of the two.
struct RunningUpdate {
  at::Tensor running_mean, running_variance;  // as the call was given them
  double momentum = 0;
  at::Tensor fresh_mean, fresh_variance;
};
using RunningUpdates = std::vector<RunningUpdate>;  // of a grain, in call order

class BatchStatisticsScope {
 public:
  BatchStatisticsScope();
  BatchStatisticsScope(const BatchStatisticsScope&) = delete;
  BatchStatisticsScope& operator=(const BatchStatisticsScope&) = delete;

  [[nodiscard]] static bool active();
  // For the batch norm: precondition active().
  static void add(RunningUpdate update);

  // What was kept until now; the scope starts anew.
  [[nodiscard]] RunningUpdates take();

 private:
  struct Kept;
  std::shared_ptr<Kept> kept_;
  Propagated<Kept> propagated_;
};

// Per update: running = RN(RN32(1 - momentum) * running) + RN(RN32(momentum) * fresh); in binary64 for float64.
// The caller gives one grain after the other, in grain order.
void apply(const RunningUpdates& grain);

// Refuses grains whose calls for one running tensor have different momenta.
void require_equal_momenta(const std::vector<RunningUpdates>& grains);

// Instance norm that asks the scope. Precondition: kind IMPL, namespace aten, DispatchKey::CompositeImplicitAutograd.
void register_instance_norm(torch::Library& composites);

}  // namespace isobit::aten
