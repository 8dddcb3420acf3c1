// The training loop's arithmetic: steps, grains, evaluation, state (contract, sections 5 to 7).
//
// A step's positions first .. first + count - 1 of the epoch's order are cut into grains of g. A grain's
// objective: a step of one grain takes cross entropy's mean and starts its backward from 1; a step of several
// takes each grain's sum and starts from RN(1 / RN(count)). For plain cross entropy both give the same bits.
// The step's loss is the mean, or the exact sum of the grains' sums over RN(count).
// Where a sample has several targets, or a weight, mean, sum and count are over the targets, weighted (task.h).
// Batch norm in a step of several grains: each grain's own statistics are collected (aten/batch_statistics.h), and
// running = RN(RN(1 - m) * running) + RN(m * new) is applied in grain order after the last one.
// The trainer keeps timetable, optimizer and state; grains are computed by GrainWorkers, handed out by a GrainSource,
// merged in one step's sums; an Evaluator evaluates. With Execution::shared the processes of a job do so together.
//
// Bits do not depend on threads, instruction set, the order in which grains are executed, or on being
// stopped and restored. Needs the operator switch on (aten/operator_switch.h) to be of the contract; with it off
// this is an ordinary PyTorch loop, which tests use. One thread per object.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

#include "grains/grain_source.h"
#include "grains/grain_sums.h"
#include "kernels/fingerprint.h"
#include "train/dataset.h"
#include "train/epoch_sums.h"
#include "train/evaluator.h"
#include "train/execution_settings.h"
#include "train/experiment.h"
#include "train/grain_worker.h"
#include "train/model.h"
#include "train/optimizer.h"
#include "train/schedule.h"
#include "train/shared_steps.h"
#include "train/task.h"

namespace isobit::train {

// Weights, buffers and optimizer are as before the step.
using grains::NotFinite;

// Everything a later step depends on, on the host; on the CPU tensors share memory with the trainer.
struct TrainingState {
  std::int64_t steps_done = 0;
  EpochSums sums;
  std::vector<NamedTensor> weights, optimizer;
};

class Trainer {
 public:
  // Starts with the initial weights, before step 1. Throws archive::UserError where
  // data, network and task do not fit.
  Trainer(const Experiment& experiment, const DataSets& data, const Execution& execution = {});
  ~Trainer();

  [[nodiscard]] const Experiment& experiment() const { return experiment_; }
  [[nodiscard]] const Timetable& timetable() const { return timetable_; }
  [[nodiscard]] std::int64_t steps_done() const { return steps_done_; }

  // The next step. Throws NotFinite, archive::UserError where the device's memory is too small, and c10::Error
  // where an operator is refused.
  StepResult step();
  // The same; nothing where another process's state was taken over whose steps are recorded already.
  std::optional<StepResult> advance();
  // What the job's other processes ask of this one (shared_steps.h).
  [[nodiscard]] SharedSteps::Caller caller();
  // Since the epoch of the last step began.
  [[nodiscard]] const EpochSums& epoch_sums() const { return sums_; }
  // Of the epoch so far, as seen in training.
  [[nodiscard]] Metrics epoch_metrics() const { return task_->metrics(sums_.loss, sums_.weight, sums_.counts); }
  [[nodiscard]] Evaluation evaluate();
  [[nodiscard]] const Task& task() const { return *task_; }

  [[nodiscard]] kernels::Fingerprint weights_fingerprint() const;
  [[nodiscard]] kernels::Fingerprint optimizer_fingerprint() const;
  [[nodiscard]] TrainingState state() const;
  // Copies values in; names, types and shapes must be those of state() (std::invalid_argument).
  void restore(const TrainingState& state);

  // Of the last step, in the order of parameters(); for tests.
  [[nodiscard]] const std::vector<at::Tensor>& gradients() const { return gradients_; }
  [[nodiscard]] Model& model() { return workers_[0]->model(); }
  [[nodiscard]] const Model& model() const { return workers_[0]->model(); }

 private:
  [[nodiscard]] StepOrder order_of(const StepPlace& place) const;
  [[nodiscard]] std::vector<std::int64_t> grain_order(std::int64_t step) const;
  [[nodiscard]] grains::GrainSums compute(const StepOrder& order, grains::GrainSource& source,
                                          std::optional<grains::GrainSums>&& before);
  // The step under way, or a later one whose state was taken over.
  [[nodiscard]] std::variant<grains::FinishedStep, SharedSteps::TakenOver> compute_shared(const StepOrder& order);
  void forget_claims();
  void apply(grains::FinishedStep& step);
  [[nodiscard]] kernels::Fingerprint gradients_fingerprint() const;
  StepResult close(const StepPlace& place, const StepOrder& order, grains::FinishedStep&& finished);
  void undo(const std::vector<NamedTensor>& buffers_before);
  void load_replicas();

  Experiment experiment_;
  DataSets data_;
  Execution execution_;
  Timetable timetable_;
  std::unique_ptr<Task> task_;
  BatchMaker maker_;
  grains::LocalGrainSource source_;
  Evaluator evaluator_;
  std::vector<std::unique_ptr<GrainWorker>> workers_;  // the first has the model that counts
  Optimizer optimizer_;
  std::vector<at::Tensor> gradients_;
  std::int64_t steps_done_ = 0, claims_of_ = 0;
  EpochSums sums_;
};

}  // namespace isobit::train
