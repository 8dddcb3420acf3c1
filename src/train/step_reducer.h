// Makes one step of what the workers added up.
//
// The place where workers of several processes will exchange their sums; here are those of one process. The result
// does not depend on how the grains were spread. One thread.
#pragma once

#include <vector>

#include "grains/grain_sums.h"

namespace isobit::train {

class StepReducer {
 public:
  virtual ~StepReducer() = default;
  // Of all workers of this process, at least one. Precondition: together, and with those of other processes, they have
  // every grain of the step exactly once (std::logic_error).
  [[nodiscard]] virtual grains::FinishedStep reduce(std::vector<grains::GrainSums>&& sums) = 0;
};

class LocalReducer final : public StepReducer {
 public:
  [[nodiscard]] grains::FinishedStep reduce(std::vector<grains::GrainSums>&& sums) override {
    for (std::size_t i = 1; i < sums.size(); ++i) sums[0].merge(std::move(sums[i]));
    return sums[0].finish();
  }
};

}  // namespace isobit::train
