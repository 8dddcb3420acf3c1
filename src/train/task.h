// What a network learns: the loss of its outputs, what a sample weighs in it, and how right they are.
//
//   target               outputs                 targets                   loss                      score
//   class                [n, classes]            int64 []                  cross entropy             accuracy
//   mask, silhouette     [n, classes, h, w]      int64 [h, w]              cross entropy, dice       accuracy
//   sequence, next       [n, t, classes]         int64 [t], -100 ignored   cross entropy             accuracy
//   labels               [n, classes]            0 or 1 [classes]          binary cross entropy      accuracy
//   value                [n, classes]            float32 [classes]         mse, l1, huber (delta 1) mean_absolute_error
//
// A sample with t targets and weight w adds w times the sum of its targets' losses, and w t to the weight D of its
// step, which is known before any backward: RN32 of the correctly rounded binary64 sum of RN64(w t) over the step's
// samples. The step's loss is the sum over RN(D). Dice (Milletari, Navab, Ahmadi, 2016) has no sum over samples: it
// takes whole steps, 1 - mean over classes of (2 sum p y + 1) / (sum p + sum y + 1), sums over all pixels of the step.
// Immutable; thread-safe.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "grains/grain_sums.h"
#include "samples/samples.h"
#include "train/experiment.h"

namespace isobit::train {

using grains::Counts;

// As recorded: the loss, and a score by name.
struct Metrics {
  double loss = 0, score = 0;
  std::string name = "accuracy";

  [[nodiscard]] std::map<std::string, double> values() const { return {{"loss", loss}, {name, score}}; }
};

class Task {
 public:
  virtual ~Task() = default;

  // Throws archive::UserError naming field and shapes where the data has not the targets that the experiment learns, or
  // a class out of range with the sample's name.
  virtual void check(const samples::Samples& samples) const = 0;
  // Whether samples differ in what they weigh; otherwise each counts sample_weight targets.
  [[nodiscard]] virtual bool weighted() const = 0;
  // w t of a sample.
  [[nodiscard]] virtual double sample_weight(const samples::Samples& samples, std::int64_t id) const = 0;
  // Whether a step of one grain takes the loss's mean and starts its backward from 1 (contract, section 7).
  [[nodiscard]] virtual bool takes_means() const = 0;

  // Of a grain, to be differentiated: the sum, or the mean. `weights` [n] or undefined.
  [[nodiscard]] virtual at::Tensor loss(const at::Tensor& outputs, const at::Tensor& targets, const at::Tensor& weights,
                                        bool mean) const = 0;
  // Of the same, on the host.
  [[nodiscard]] virtual Counts count(const at::Tensor& outputs, const at::Tensor& targets) const = 0;
  // The class that each output [n, classes] gives; logic_error where the task has no class per sample.
  [[nodiscard]] virtual std::vector<std::int64_t> classes(const at::Tensor& outputs) const = 0;
  [[nodiscard]] virtual Metrics metrics(double loss_sum, double weight, const Counts& counts) const = 0;
};

[[nodiscard]] std::unique_ptr<Task> make_task(const Experiment& experiment);

}  // namespace isobit::train
