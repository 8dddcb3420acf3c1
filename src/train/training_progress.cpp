#include "train/training_progress.h"

#include <fmt/format.h>

#include <cstdio>
#include <string>

#include "process/terminal_line.h"

namespace isobit::train {

TrainingProgress::TrainingProgress(std::int64_t done, std::int64_t steps, std::int64_t epochs)
    : first_(done), steps_(steps), epochs_(epochs), terminal_(process::rewrites_lines()) {}

TrainingProgress::~TrainingProgress() { clear_line(); }

void TrainingProgress::clear_line() {
  if (line_open_) fmt::print(stderr, "\r\033[K");
  line_open_ = false;
}

void TrainingProgress::step(const train::StepReport& report) {
  const train::StepPlace& place = report.result.place;
  const double now = static_cast<double>(place.count) / (report.seconds > 0 ? report.seconds : 1e-9);
  samples_per_second_ = samples_per_second_ == 0 ? now : 0.95 * samples_per_second_ + 0.05 * now;
  const auto time = Clock::now();
  const double since = std::chrono::duration<double>(time - shown_).count();
  if (since < (terminal_ ? 0.2 : 10.0) && place.step < steps_) return;
  shown_ = time;
  const double elapsed = std::chrono::duration<double>(time - start_).count();
  const double left = elapsed / static_cast<double>(place.step - first_) * static_cast<double>(steps_ - place.step);
  clear_line();
  const std::string epoch = epochs_ > 0 ? fmt::format("{}/{}", place.epoch, epochs_) : std::to_string(place.epoch);
  const std::string line =
      fmt::format("epoch {}  step {}/{}  {:.0f} samples/s  loss {:.4f}  {} left", epoch, place.step, steps_,
                  samples_per_second_, report.result.loss, process::duration(left));
  fmt::print(stderr, "{}", terminal_ ? process::fitted(line) : line + "\n");
  line_open_ = terminal_;
  std::fflush(stderr);
}

void TrainingProgress::metrics(const train::MetricsReport& report) {
  clear_line();
  const auto text = [](const train::Metrics& metrics) {
    if (metrics.name == "accuracy")
      return fmt::format("loss {:.4f}, accuracy {:.2f} %", metrics.loss, 100 * metrics.score);
    return fmt::format("loss {:.4g}, {} {:.4g}", metrics.loss, metrics.name, metrics.score);
  };
  fmt::print(stderr, "epoch {}: train {}", report.epoch, text(report.train));
  if (report.test) fmt::print(stderr, "; test {}", text(*report.test));
  fmt::print(stderr, "\n");
}

}  // namespace isobit::train
