// Evaluates a model on the test samples, in parts of evaluate.batch samples, without gradients.
//
// Parts can be computed by anyone in any order; their losses are added in binary64 in the order of the parts.
// Immutable; thread-safe for models of different threads.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "samples/samples.h"
#include "train/batch_maker.h"
#include "train/model.h"
#include "train/task.h"

namespace isobit::train {

// What the network said of each sample (evaluate.predictions).
struct Predictions {
  std::vector<std::int64_t> classes;  // in the order of the samples
  std::string targets;                // SHA-256 of their own classes, each 8 bytes, little-endian
};

struct Evaluation : Metrics {
  std::optional<Predictions> predictions;
};

class Evaluator {
 public:
  struct Part {
    double loss = 0;  // of the sum, as binary32 gave it
    double weight = 0;
    Counts counts;
    std::vector<std::int64_t> classes;  // said of its samples, where predictions are kept
  };

  // References must outlive the object. Throws archive::UserError where predictions of so many samples cannot be kept.
  Evaluator(const Experiment& experiment, const samples::Samples& data, const Task& task, c10::Device device);

  [[nodiscard]] std::int64_t parts() const;
  // The model is in evaluation mode, the caller without gradients.
  [[nodiscard]] Part part(Model& model, std::int64_t index) const;
  [[nodiscard]] Evaluation finish(const std::vector<Part>& parts) const;

  // Parts as `share` gives them: all, computed with the model where they are not another process's.
  using Share = std::function<std::vector<Part>(std::int64_t parts, const std::function<Part(std::int64_t)>& compute)>;
  [[nodiscard]] Evaluation evaluate(Model& model, const Share& share = {}) const;

 private:
  [[nodiscard]] std::string targets_digest() const;
  [[nodiscard]] std::vector<std::int64_t> ids_of(std::int64_t part) const;

  const samples::Samples& data_;
  const Task& task_;
  BatchMaker maker_;
  std::int64_t batch_;
  bool means_;
  c10::Device device_;
  std::string targets_;  // digest of the samples' classes; "" where predictions are not kept
};

}  // namespace isobit::train
