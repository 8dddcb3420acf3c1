// Carries an experiment out step by step and tells a listener everything that is recorded of it. Running and
// verifying are the same execution with two listeners.
//
// Order of calls after a step: step; metrics, at an epoch's or the run's end; checkpoint, where one is due. All
// that is told, but seconds, is a function of the experiment and the data.
// One thread; the listener is called on it.
#pragma once

#include <atomic>
#include <cstdint>
#include <optional>
#include <string>

#include "train/trainer.h"

namespace isobit::train {

struct StepReport {
  StepResult result;
  std::optional<kernels::Fingerprint> weights, optimizer;  // after the step, where asked for
  double seconds = 0;                                      // of the step, evaluation not counted
};

struct MetricsReport {
  std::int64_t epoch = 0, step = 0;
  Metrics train;                   // over the epoch's samples so far, as seen in training
  std::optional<Evaluation> test;  // where the experiment asks for it
};

class Listener {
 public:
  virtual ~Listener() = default;
  // Whether the step is told with the fingerprint of the optimizer's state. A difference in that state shows in the
  // weights a step later, so it is taken where a run can be resumed from, not with every fingerprint of the weights.
  [[nodiscard]] virtual bool wants_optimizer(const Timetable& timetable, std::int64_t step) const {
    return timetable.checkpoint_after(step);
  }
  virtual void on_step(const StepReport& report) = 0;
  virtual void on_metrics(const MetricsReport& report) = 0;
  virtual void on_checkpoint(const Trainer& trainer) = 0;
};

enum class Outcome { finished, interrupted };

// Steps steps_done() + 1 .. last of the trainer. Where `stop` becomes true, the step under way is finished, a
// checkpoint told, and interrupted returned. `open`: the result of the trainer's last step, which nobody was told yet.
// Throws what Trainer::step throws.
Outcome execute(Trainer& trainer, std::int64_t last, Listener& listener, const std::atomic<bool>& stop,
                std::optional<StepResult> open = {});

}  // namespace isobit::train
