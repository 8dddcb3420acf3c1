// What a person sees while a run trains: one line on stderr, rewritten on a terminal, repeated every ten seconds
// elsewhere; a line of metrics per epoch. One thread per object.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>

#include "process/duration.h"
#include "train/execution.h"

namespace isobit::train {

class TrainingProgress {
 public:
  // Steps done before, of all steps and epochs (0: how many epochs is not known).
  TrainingProgress(std::int64_t done, std::int64_t steps, std::int64_t epochs);
  ~TrainingProgress();
  TrainingProgress(const TrainingProgress&) = delete;
  TrainingProgress& operator=(const TrainingProgress&) = delete;

  void step(const train::StepReport& report);
  void metrics(const train::MetricsReport& report);

 private:
  using Clock = std::chrono::steady_clock;
  void clear_line();

  std::int64_t first_, steps_, epochs_;
  bool terminal_, line_open_ = false;
  Clock::time_point start_ = Clock::now(), shown_{};
  double samples_per_second_ = 0;
};

}  // namespace isobit::train
