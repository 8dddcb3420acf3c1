// Evaluates a model on the test samples, in parts of evaluate.batch samples, without gradients.
//
// Parts can be computed by anyone in any order; their losses are added in binary64 in the order of the parts.
// Immutable; thread-safe for models of different threads.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "samples/samples.h"
#include "train/batch_maker.h"
#include "train/model.h"
#include "train/task.h"

namespace isobit::train {

class Evaluator {
 public:
  struct Part {
    double loss = 0;  // of the sum, as binary32 gave it
    double weight = 0;
    Counts counts;
  };

  // References must outlive the object.
  Evaluator(const Experiment& experiment, const samples::Samples& data, const Task& task, c10::Device device);

  [[nodiscard]] std::int64_t parts() const;
  // The model is in evaluation mode, the caller without gradients.
  [[nodiscard]] Part part(Model& model, std::int64_t index) const;
  [[nodiscard]] Metrics finish(const std::vector<Part>& parts) const;

  // Parts as `share` gives them: all, computed with the model where they are not another process's.
  using Share = std::function<std::vector<Part>(std::int64_t parts, const std::function<Part(std::int64_t)>& compute)>;
  [[nodiscard]] Metrics evaluate(Model& model, const Share& share = {}) const;

 private:
  const samples::Samples& data_;
  const Task& task_;
  BatchMaker maker_;
  std::int64_t batch_;
  bool means_;
  c10::Device device_;
};

}  // namespace isobit::train
