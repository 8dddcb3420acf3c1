// Steps of Adam of many tensors, in as few calls of the kernel as their numbers of steps allow: it takes one for all.
// One thread per object.
#pragma once

#include <c10/util/SmallVector.h>

#include <cstdint>

#include "kernels/optimizer.h"

namespace isobit::aten {

class AdamBatch {
 public:
  explicit AdamBatch(const kernels::AdamOptions& options) : options_(options) {}

  // Of a tensor that overlaps no other; step: its number, from 1. Nothing is done before another step or run().
  void add(std::int64_t step, const kernels::AdamArrays& arrays) {
    if (step != step_) run();
    step_ = step;
    arrays_.push_back(arrays);
  }
  void run() {
    if (arrays_.empty()) return;
    kernels::adam_steps(options_, step_, arrays_.data(), static_cast<std::int64_t>(arrays_.size()));
    arrays_.clear();
  }

 private:
  kernels::AdamOptions options_;
  c10::SmallVector<kernels::AdamArrays, 8> arrays_;
  std::int64_t step_ = 0;
};

}  // namespace isobit::aten
