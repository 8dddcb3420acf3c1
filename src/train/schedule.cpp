#include "train/schedule.h"

#include <algorithm>

#include "contract/host_scalars.h"

namespace isobit::train {

Timetable::Timetable(const Experiment& experiment, std::int64_t samples)
    : experiment_(experiment),
      samples_(samples),
      steps_per_epoch_((samples + experiment.batch - 1) / experiment.batch),
      steps_(experiment.steps > 0 ? experiment.steps : experiment.epochs * steps_per_epoch_) {}

StepPlace Timetable::place(std::int64_t step) const {
  StepPlace place;
  place.step = step;
  place.epoch = (step - 1) / steps_per_epoch_ + 1;
  place.first = (step - 1) % steps_per_epoch_ * experiment_.batch;
  place.count = std::min(experiment_.batch, samples_ - place.first);
  place.last_of_epoch = step % steps_per_epoch_ == 0;
  return place;
}

double Timetable::learning_rate(std::int64_t step) const {
  const ScheduleSettings& schedule = experiment_.schedule;
  const double lr = experiment_.optimizer.lr;
  if (step <= schedule.warmup) return lr * (static_cast<double>(step) / static_cast<double>(schedule.warmup));
  if (schedule.name == "step") {
    const auto falls = (place(step).epoch - 1) / schedule.step_epochs;
    return lr * contract::power_rounded(schedule.gamma, static_cast<std::uint64_t>(falls));
  }
  if (schedule.name == "cosine") {
    const double t = static_cast<double>(step - 1 - schedule.warmup),
                 total = static_cast<double>(steps_ - schedule.warmup);
    const double cosine = contract::cosine_rounded(0x1.921fb54442d18p+1 * (t / total));
    return schedule.floor + ((lr - schedule.floor) * 0.5) * (1.0 + cosine);
  }
  return lr;
}

bool Timetable::evaluate_after(std::int64_t step) const {
  if (step == steps_) return true;
  const std::int64_t every = experiment_.evaluate.every;
  return every > 0 && step % steps_per_epoch_ == 0 && step / steps_per_epoch_ % every == 0;
}

bool Timetable::checkpoint_after(std::int64_t step) const {
  const std::int64_t every = experiment_.checkpoint.every;
  return step == steps_ || step % (every > 0 ? every : steps_per_epoch_) == 0 || segment_ends_after(step);
}

bool Timetable::segment_ends_after(std::int64_t step) const {
  const std::int64_t segments = experiment_.checkpoint.segments;
  const std::int64_t next = (step * segments + steps_ - 1) / steps_;  // the first k whose part ends at `step` or later
  return step < steps_ && next < segments && next * steps_ / segments == step;
}

bool Timetable::fingerprint_after(std::int64_t step) const {
  const std::int64_t every = experiment_.fingerprint.every;
  return step == steps_ || (every > 0 && step % every == 0);
}

bool Timetable::gradients_fingerprint_at(std::int64_t step) const {
  const std::int64_t every = experiment_.fingerprint.gradients;
  return every > 0 && step % every == 0;
}

}  // namespace isobit::train
