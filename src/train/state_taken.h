// Thrown out of an evaluation that others have gone past meanwhile (shared_steps.h): this process was stopped, or cut
// off, and found another's state of a later step. What it was about to report of the former step is void.
#pragma once

#include <exception>
#include <memory>
#include <utility>

#include "train/trainer.h"

namespace isobit::train {

class StateTaken : public std::exception {
 public:
  explicit StateTaken(std::shared_ptr<StepResult> result) : result_(std::move(result)) {}
  [[nodiscard]] const char* what() const noexcept override { return "the state of a later step was taken over"; }
  // Of the step whose state it is, where it is not recorded yet.
  [[nodiscard]] const std::shared_ptr<StepResult>& result() const { return result_; }

 private:
  std::shared_ptr<StepResult> result_;
};

}  // namespace isobit::train
