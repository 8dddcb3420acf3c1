#include "train/execution.h"

#include <chrono>
#include <utility>

#include "train/state_taken.h"

namespace isobit::train {
namespace {

double seconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

MetricsReport metrics_of(Trainer& trainer, const StepPlace& place) {
  MetricsReport report;
  report.epoch = place.epoch;
  report.step = place.step;
  report.train = trainer.epoch_metrics();
  if (trainer.timetable().evaluate_after(place.step)) report.test = trainer.evaluate();
  return report;
}

}  // namespace

Outcome execute(Trainer& trainer, std::int64_t last, Listener& listener, const std::atomic<bool>& stop,
                std::optional<StepResult> open) {
  const Timetable& timetable = trainer.timetable();
  while (open || trainer.steps_done() < last) {
    const auto start = std::chrono::steady_clock::now();
    StepReport report;
    auto result = open ? std::exchange(open, std::nullopt) : trainer.advance();
    if (!result) continue;
    report.result = *result;
    report.seconds = seconds_since(start);
    const StepPlace place = report.result.place;
    if (timetable.fingerprint_after(place.step)) report.weights = trainer.weights_fingerprint();
    if (listener.wants_optimizer(timetable, place.step)) report.optimizer = trainer.optimizer_fingerprint();
    listener.on_step(report);
    if (place.last_of_epoch || place.step == timetable.steps()) {
      try {
        listener.on_metrics(metrics_of(trainer, place));
      } catch (const StateTaken& taken) {
        if (taken.result()) open = *taken.result();
        continue;
      }
    }
    const bool interrupted = stop && place.step < last;
    if (interrupted || timetable.checkpoint_after(place.step)) listener.on_checkpoint(trainer);
    if (interrupted) return Outcome::interrupted;
  }
  return Outcome::finished;
}

}  // namespace isobit::train
