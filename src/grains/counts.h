// What a task counts besides the loss. Plain values; no torch.
#pragma once

#include <cstdint>

namespace isobit::grains {

// Binary64 sums are added in grain order.
struct Counts {
  std::int64_t correct = 0, targets = 0;
  double error = 0;

  void add(const Counts& other) { correct += other.correct, targets += other.targets, error += other.error; }
};

}  // namespace isobit::grains
