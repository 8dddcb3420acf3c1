// The operator switch: while an object lives, PyTorch computes by the contract, on the CPU and on CUDA devices.
//
// Certified operators are ours, the guard refuses what is neither certified nor exact nor composite;
// destroyed, every stock kernel is back. Objects may nest (the outermost counts, and all are of its tier of products;
// std::logic_error otherwise). The switch is process-wide: construct and destroy it while no other thread runs
// operators.
#pragma once

#include "contract/product_tier.h"

namespace isobit::aten {

class OperatorSwitch {
 public:
  OperatorSwitch();  // of the tier in force, or of the ordered one
  explicit OperatorSwitch(contract::ProductTier products);
  ~OperatorSwitch();
  OperatorSwitch(const OperatorSwitch&) = delete;
  OperatorSwitch& operator=(const OperatorSwitch&) = delete;

  [[nodiscard]] static bool on();
  // Whether it is or ever was on in this process.
  [[nodiscard]] static bool was_on();
  // The tier in force; ordered while it is off.
  [[nodiscard]] static contract::ProductTier products();
};

}  // namespace isobit::aten
