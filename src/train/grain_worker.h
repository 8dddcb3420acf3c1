// Computes grains: a model of its own, the samples, forward and backward.
//
// Any number of workers can share a step (contract, section 7): each claims grains from a GrainSource, prepares the
// samples of the grain after, and adds what it computed to a GrainSums of its own. A worker's model is a replica:
// load() brings the weights of the step. Of several grains none leaves a trace in the model but its gradients: running
// statistics are collected, and buffers that count (num_batches_tracked) are put back, with the increments in the
// result; any other buffer that changes is refused by name. The one grain of a step changes the model's buffers.
// One thread per object.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "aten/generator_scope.h"
#include "grains/grain_place.h"
#include "grains/grain_source.h"
#include "grains/grain_sums.h"
#include "train/execution_settings.h"
#include "train/grain_preparer.h"
#include "train/model.h"
#include "train/schedule.h"
#include "train/task.h"

namespace isobit::train {

// What a step asks of its workers.
struct StepOrder {
  StepPlace place;
  std::int64_t grains = 1;
  float weight = 0;  // D, rounded once
};

// Thrown by Execution::before_add: the worker gives its grain back and does nothing more in this step.
struct WorkerStopped {};

class GrainWorker {
 public:
  // What the workers of a run have in common; must outlive them.
  struct Shared {
    const Experiment& experiment;
    const samples::Samples& data;
    const Timetable& timetable;
    const BatchMaker& maker;
    const Task& task;
    const Execution& execution;
  };
  // `number`: among the workers, for Execution::before_add.
  GrainWorker(const Shared& shared, int number);

  [[nodiscard]] Model& model() { return *model_; }
  [[nodiscard]] const Model& model() const { return *model_; }
  [[nodiscard]] const std::vector<NamedTensor>& parameters() const { return parameters_; }
  void load(const std::vector<NamedTensor>& weights);

  // Computes grains of the step until none is left. Throws NotFinite, archive::UserError, c10::Error; the grains that
  // it held are then given back.
  void work(const StepOrder& order, grains::GrainSource& source, grains::GrainSums& sums);
  // Forgets what it claimed ahead.
  void reset() { ahead_.reset(); }

 private:
  grains::GrainResult compute(const StepOrder& order, const PreparedGrain& grain, aten::GeneratorScope& generator);
  void claim_ahead(const StepOrder& order, grains::GrainSource& source);
  void give_back(grains::GrainSource& source);
  struct BufferState;
  void put_back(const std::vector<BufferState>& before, grains::GrainResult& result);

  Shared shared_;
  int number_;
  GrainPreparer preparer_;
  std::unique_ptr<Model> model_;
  std::vector<NamedTensor> parameters_;
  std::optional<GrainPlace> now_, ahead_;  // claimed
};

// Where grain `index` of a step lies.
[[nodiscard]] GrainPlace grain_place(const StepPlace& step, std::int64_t index, std::int64_t grain_size);

// The fields that a network is given.
[[nodiscard]] std::vector<samples::Field> input_fields(const samples::Samples& data);

}  // namespace isobit::train
