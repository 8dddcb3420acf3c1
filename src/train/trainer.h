// The training loop's arithmetic: steps, grains, evaluation, state (contract, sections 5 to 7).
//
// A step's positions first .. first + count - 1 of the epoch's order are cut into grains of g. A grain's
// objective: a step of one grain takes cross entropy's mean and starts its backward from 1; a step of several
// takes each grain's sum and starts from RN(1 / RN(count)). For plain cross entropy both give the same bits.
// The step's loss is the mean, or the exact sum of the grains' sums over RN(count).
// Where every pixel has a target, mean, sum and count are over the targets of the step's samples.
// Batch norm in a step of several grains: each grain's own statistics are taken from running values of zero with
// momentum 1, and running = RN(RN(1 - m) * running) + RN(m * new) is applied in grain order after the last one.
//
// Bits do not depend on threads, instruction set, the order in which grains are executed, or on being
// stopped and restored. Needs the operator switch on (aten/operator_switch.h) to be of the contract; with it off
// this is an ordinary PyTorch loop, which tests use. One thread per object.
#pragma once

#include <c10/core/Device.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

#include "kernels/fingerprint.h"
#include "train/batch_preparer.h"
#include "train/dataset.h"
#include "train/experiment.h"
#include "train/model.h"
#include "train/optimizer.h"
#include "train/schedule.h"

namespace isobit::train {

enum class GrainOrder { ascending, shuffled };

// How the arithmetic is carried out; the bits are the same.
struct Execution {
  GrainOrder grain_order = GrainOrder::ascending;
  c10::Device device = c10::kCPU;  // a CUDA device needs kernels::device_backend()
  bool batch_digests = true;       // false: StepResult::batch_digest is zero, for measuring what digests cost
};

// A gradient or loss became infinite or NaN; weights, buffers and optimizer are as before the step.
class NotFinite : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

struct StepResult {
  StepPlace place;
  double lr = 0;
  float loss = 0;
  std::int64_t correct = 0;           // targets predicted during training, before the update
  kernels::Fingerprint batch_digest;  // of the list (images, labels, samples) as the network saw it
};

// Sums over the steps of the current epoch, in binary64 in step order.
struct EpochSums {
  double loss = 0;  // of loss * count
  std::int64_t correct = 0, samples = 0;
};

struct Evaluation {
  double loss = 0, accuracy = 0;
};

// Everything a later step depends on, on the host; on the CPU tensors share memory with the trainer.
struct TrainingState {
  std::int64_t steps_done = 0;
  EpochSums sums;
  std::vector<NamedTensor> weights, optimizer;
};

class Trainer {
 public:
  // `data` must outlive the object. Starts with the initial weights, before step 1.
  Trainer(const Experiment& experiment, const DataSets& data, const Execution& execution = {});

  [[nodiscard]] const Timetable& timetable() const { return timetable_; }
  [[nodiscard]] std::int64_t steps_done() const { return steps_done_; }

  // The next step. Throws NotFinite, archive::UserError where the device's memory is too small, and c10::Error
  // where an operator is refused.
  StepResult step();
  // Since the epoch of the last step began.
  [[nodiscard]] const EpochSums& epoch_sums() const { return sums_; }
  [[nodiscard]] Evaluation evaluate();
  [[nodiscard]] std::int64_t targets_per_sample() const { return data_.train.targets(); }

  [[nodiscard]] kernels::Fingerprint weights_fingerprint() const;
  [[nodiscard]] kernels::Fingerprint optimizer_fingerprint() const;
  [[nodiscard]] TrainingState state() const;
  // Copies values in; names, types and shapes must be those of state() (std::invalid_argument).
  void restore(const TrainingState& state);

  // Of the last step, in the order of parameters(); for tests.
  [[nodiscard]] const std::vector<at::Tensor>& gradients() const { return gradients_; }
  [[nodiscard]] Model& model() { return *model_; }

 private:
  struct Grain {
    std::int64_t index = 0, first = 0, count = 0;  // first: position within the step
  };
  struct GrainSums;

  void compute_grain(const StepPlace& place, const PreparedStep& batch, const Grain& grain, bool alone,
                     GrainSums& sums);
  void sum_grains(const StepPlace& place, const PreparedStep& batch, std::int64_t grains, GrainSums& sums);
  [[nodiscard]] float targets_of(const StepPlace& place) const;  // labels that the step's loss is the mean of
  [[nodiscard]] std::vector<Grain> grains_of(const StepPlace& place) const;

  Experiment experiment_;
  const DataSets& data_;
  Execution execution_;
  Timetable timetable_;
  BatchMaker train_batches_, test_batches_;
  BatchPreparer preparer_;
  std::unique_ptr<Model> model_;
  std::vector<NamedTensor> parameters_;
  Optimizer optimizer_;
  std::vector<at::Tensor> gradients_;
  std::int64_t steps_done_ = 0;
  EpochSums sums_;
};

}  // namespace isobit::train
