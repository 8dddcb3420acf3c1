// What a Trainer asks of the other processes of its job; src/scale implements it. Without one, a Trainer is alone.
//
// Every process of a job has a Trainer of the same experiment and calls step() and evaluate() in the same order; which
// grains and parts each computes changes no bit. While a call waits, another process may be lost, or one may join: then
// grains of the step may have to be computed again, or this process may find that others are a step ahead, and takes
// over their state. One thread, but source().
#pragma once

#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "grains/grain_source.h"
#include "grains/grain_sums.h"
#include "train/device_tensors.h"
#include "train/evaluator.h"
#include "train/grain_worker.h"

namespace isobit::train {

struct StepResult;
struct TrainingState;

class SharedSteps {
 public:
  // Of the Trainer that calls.
  struct Caller {
    std::function<std::int64_t()> steps_done;
    std::function<TrainingState()> state;  // as after the last step that it finished
    std::function<void(const TrainingState&)> take_over;
    std::function<std::vector<NamedTensor>()> parameters;
    std::function<std::vector<NamedTensor>()> buffers;  // that statistics may belong to, in a fixed order
  };
  // Grains of the step are to be computed; those that the sums hold stay, unless they are to be forgotten.
  struct MoreGrains {
    bool forget = false;
  };
  // The state is that of the end of a later step, which another process computed; its result, where that knows it.
  struct TakenOver {
    std::shared_ptr<StepResult> result;
  };
  // A step of one grain is computed by everybody.
  struct Alone {};
  using Outcome = std::variant<grains::FinishedStep, MoreGrains, TakenOver, Alone>;

  virtual ~SharedSteps() = default;

  [[nodiscard]] virtual grains::GrainSource& source() = 0;
  // Called when the source has no grain left; sums: of this process, none where the step has one grain. `error`: why
  // this process could not compute; all processes throw the error of the lowest grain.
  [[nodiscard]] virtual Outcome finish(const StepOrder& order, grains::GrainSums* sums, const std::exception_ptr& error,
                                       const Caller& caller) = 0;
  // After the step was applied: its result, for processes that are behind.
  virtual void finished(const StepResult& result) = 0;
  // All parts of the evaluation after `step`; `compute` gives those that fall to this process.
  [[nodiscard]] virtual std::vector<Evaluator::Part> evaluate(
      std::int64_t step, std::int64_t parts, const std::function<Evaluator::Part(std::int64_t)>& compute,
      const Caller& caller) = 0;
  // Changes when claims of before are void.
  [[nodiscard]] virtual std::int64_t generation() const = 0;
};

}  // namespace isobit::train
