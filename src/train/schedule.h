// Steps, epochs and learning rates: where in a run a step lies. Plain functions of the experiment and the
// number of training samples; no state. Steps and epochs count from 1, positions from 0.
//
// Learning rate of step s of N, lr0 = optimizer.lr, in binary64:
//   s <= warmup: lr0 * (s / warmup)
//   constant: lr0;  step: lr0 * power_rounded(gamma, floor((epoch - 1) / step_epochs))
//   cosine: floor + ((lr0 - floor) * 0.5) * (1 + cosine_rounded(pi * (t / T))), t = s - 1 - warmup,
//           T = N - warmup, pi the nearest binary64
#pragma once

#include <cstdint>

#include "train/experiment.h"

namespace isobit::train {

struct StepPlace {
  std::int64_t step = 0, epoch = 0;
  std::int64_t first = 0, count = 0;  // positions in the epoch's order
  bool last_of_epoch = false;
};

class Timetable {
 public:
  // Precondition: samples >= 1.
  Timetable(const Experiment& experiment, std::int64_t samples);

  [[nodiscard]] std::int64_t steps() const { return steps_; }
  [[nodiscard]] std::int64_t steps_per_epoch() const { return steps_per_epoch_; }
  [[nodiscard]] std::int64_t epochs() const { return (steps_ + steps_per_epoch_ - 1) / steps_per_epoch_; }
  [[nodiscard]] StepPlace place(std::int64_t step) const;
  [[nodiscard]] double learning_rate(std::int64_t step) const;

  // What happens after a step.
  [[nodiscard]] bool evaluate_after(std::int64_t step) const;
  [[nodiscard]] bool checkpoint_after(std::int64_t step) const;
  // The last step of one of checkpoint.segments equal parts, but of the last: floor(k * steps / segments), k from 1.
  [[nodiscard]] bool segment_ends_after(std::int64_t step) const;
  [[nodiscard]] bool fingerprint_after(std::int64_t step) const;
  // Of the gradients, taken before the optimizer's step.
  [[nodiscard]] bool gradients_fingerprint_at(std::int64_t step) const;

 private:
  Experiment experiment_;
  std::int64_t samples_, steps_per_epoch_, steps_;
};

}  // namespace isobit::train
