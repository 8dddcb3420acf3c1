#include "jobs/workers_progress.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <fstream>

#include "archive/log_lines.h"
#include "archive/printable.h"
#include "process/duration.h"
#include "process/terminal_line.h"
#include "train/training_progress.h"

namespace isobit::jobs {
namespace {

const char* name_of(scale::WorkerView::State state) {
  switch (state) {
    case scale::WorkerView::State::admitted: return "getting ready";
    case scale::WorkerView::State::waiting: return "joins at the next step";
    case scale::WorkerView::State::computing: return "computes";
    case scale::WorkerView::State::finished: return "waits for the others";
    case scale::WorkerView::State::ended: return "has ended";
  }
  return "";
}

std::string text_of(const archive::MetricsLine& line) {
  std::string text;
  for (const auto& [name, value] : line.values) {
    const std::string shown = name == "accuracy" ? fmt::format("{:.2f} %", 100 * value) : fmt::format("{:.4f}", value);
    const std::string part = fmt::format("{} {}", name, shown);
    text = name == "loss" ? part + (text.empty() ? "" : ", " + text) : (text.empty() ? part : text + ", " + part);
  }
  return fmt::format("{} {}", line.set, text);
}

}  // namespace

WorkersProgress::WorkersProgress(std::int64_t done, std::int64_t steps, std::filesystem::path metrics)
    : first_(done), steps_(steps), metrics_(std::move(metrics)), terminal_(process::rewrites_lines()) {
  std::error_code none;
  const auto size = std::filesystem::file_size(metrics_, none);
  if (!none) read_ = size;
}

WorkersProgress::~WorkersProgress() { clear_lines(); }

void WorkersProgress::clear_lines() {
  for (; lines_ > 0; --lines_) fmt::print(stderr, "\033[1A\r\033[K");
}

void WorkersProgress::say(const std::string& line) {
  clear_lines();
  fmt::print(stderr, "{}\n", archive::printable(line));
  std::fflush(stderr);
}

// Whole lines that were added since; a new recorder cuts the log and writes the same lines again.
void WorkersProgress::show_metrics() {
  std::ifstream log(metrics_, std::ios::binary);
  log.seekg(static_cast<std::streamoff>(read_));
  std::string shown, text;
  std::int64_t epoch = 0;
  while (std::getline(log, text) && !log.eof()) {
    read_ += text.size() + 1;
    archive::MetricsLine line;
    if (!archive::parse_line(text, line)) continue;
    shown += (shown.empty() ? "" : "; ") + text_of(line);
    epoch = line.epoch;
  }
  if (!shown.empty()) say(fmt::format("epoch {}: {}", epoch, shown));
}

void WorkersProgress::show(const scale::HostView& view, bool last) {
  show_metrics();
  const auto now = Clock::now();
  if (begun_at_ < 0 && view.generation > 0) begun_at_ = view.steps_done, start_ = now;
  if (shown_ == Clock::time_point()) shown_ = now;
  const double since = std::chrono::duration<double>(now - shown_).count();
  if (last || begun_at_ < 0 || view.steps_done <= begun_at_ || since < (terminal_ ? 0.5 : 10.0)) return;
  for (const scale::WorkerView& worker : view.workers) {
    Rate& rate = rates_[worker.id];
    const double current = static_cast<double>(worker.grains - rate.grains) / since;
    rate.per_second = rate.per_second == 0 ? current : 0.7 * rate.per_second + 0.3 * current;
    rate.grains = worker.grains;
  }
  shown_ = now;
  const double elapsed = std::chrono::duration<double>(now - start_).count();
  const auto steps = static_cast<double>(std::max<std::int64_t>(1, view.steps_done - begun_at_));
  clear_lines();
  const std::string line =
      fmt::format("step {}/{}  {} workers  {:.1f} steps/s  {} left", view.steps_done, steps_, view.workers.size(),
                  steps / elapsed, process::duration(elapsed / steps * static_cast<double>(steps_ - view.steps_done)));
  fmt::print(stderr, "{}\n", terminal_ ? process::fitted(line) : line);
  lines_ = terminal_ ? 1 : 0;
  if (terminal_) {
    for (const scale::WorkerView& worker : view.workers) {
      fmt::print(
          stderr, "{}\n",
          process::fitted(fmt::format("  {:<24} {:>8.1f} grains/s {:>9} grains  {}{}", archive::printable(worker.name),
                                      rates_[worker.id].per_second, worker.grains, name_of(worker.state),
                                      worker.recorder ? ", writes the record" : "")));
      ++lines_;
    }
  }
  std::fflush(stderr);
}

}  // namespace isobit::jobs
