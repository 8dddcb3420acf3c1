#include "proof/side_by_side.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <deque>
#include <exception>
#include <mutex>
#include <thread>
#include <vector>

#include "kernels/threads.h"
#include "process/terminal_line.h"

namespace isobit::proof {
namespace {

using archive::RunRecord;
using train::Segment;
using train::Verdict;

}  // namespace

std::string name_of(const train::Segment& segment) { return fmt::format("{}..{}", segment.first, segment.last); }

std::optional<SegmentPlan> plan_segments(const RunRecord& record, const VerifyOptions& options, const char* kept_by) {
  const auto steps = static_cast<std::int64_t>(record.steps().size());
  const std::int64_t first = options.from != 0 ? options.from : 1, last = options.to != 0 ? options.to : steps;
  if (options.workers <= 1 || first > last || last > steps) return {};
  SegmentPlan plan;
  std::vector<std::int64_t> checkpoints, within;
  for (const archive::CheckpointEntry& entry : record.checkpoints()) {
    checkpoints.push_back(entry.step);
    if (entry.step < first) plan.start = std::max(plan.start, entry.step);
    if (entry.step >= first && entry.step < last) within.push_back(entry.step);
  }
  plan.segments = train::cut_into_segments(checkpoints, plan.start, first, last, options.workers);
  if (static_cast<std::int64_t>(within.size()) + 1 < options.workers) {
    fmt::print(stderr,
               "isobit: {} segment{} instead of {}: the record holds {} checkpoint{} between these steps "
               "({}; an exported file has them with --with-weights)\n",
               plan.segments.size(), plan.segments.size() == 1 ? "" : "s", options.workers, within.size(),
               within.size() == 1 ? "" : "s", kept_by);
  }
  if (plan.segments.size() < 2) return {};
  const auto count = static_cast<int>(plan.segments.size());
  plan.threads =
      options.execution.threads > 0 ? options.execution.threads : std::max(1, kernels::available_cpus() / count);
  return plan;
}

void show_segments(const SegmentPlan& plan) {
  std::vector<std::string> names;
  names.reserve(plan.segments.size());
  for (const Segment& segment : plan.segments) names.push_back(name_of(segment));
  fmt::print(stderr, "isobit: {} segments side by side, {} thread{} each: steps {}\n", names.size(), plan.threads,
             plan.threads == 1 ? "" : "s", fmt::join(names, ", "));
}

namespace {

// One segment: its process, called by a thread of its own.
struct Part {
  Segment segment;
  std::int64_t start = 0;
  std::atomic<std::int64_t> step{0};  // that it has reached
  std::atomic<bool> stop{false};
  std::optional<Verdict> verdict;  // one of these three once it has ended
  std::exception_ptr error;
  bool was_stopped = false;
  std::jthread thread;

  [[nodiscard]] bool is_identical() const { return verdict && !verdict->difference; }
};

class Segments {
 public:
  Segments(const SegmentPlan& plan, const RunSegment& run_segment) : run_segment_(run_segment) {
    for (const Segment& segment : plan.segments) {
      Part& part = parts_.emplace_back();
      part.segment = segment;
      part.start = &part == &parts_.front() ? plan.start : segment.first - 1;
      part.step = part.start;
    }
    try {
      for (Part& part : parts_)
        part.thread = std::jthread([&part, threads = plan.threads, this] { run(part, threads); });
    } catch (...) {
      stop_all();
      throw;
    }
  }
  ~Segments() { stop_all(); }
  Segments(const Segments&) = delete;
  Segments& operator=(const Segments&) = delete;

  // Until nothing more can change the verdict.
  void wait(const std::atomic<bool>& stop) {
    SegmentProgress progress;
    std::unique_lock lock(mutex_);
    while (!settled()) {
      changed_.wait_for(lock, std::chrono::milliseconds(200));
      if (stop) stop_all();
      progress.show(parts_);
    }
  }

  // In the order of the steps: what comes before a difference or an error is identical, so one process finds the same.
  [[nodiscard]] Verdict verdict() {
    const std::lock_guard lock(mutex_);
    Verdict all;
    all.first = parts_.front().segment.first;
    all.last = parts_.back().segment.last;
    all.start = parts_.front().start;
    all.segments = static_cast<std::int64_t>(parts_.size());
    for (const Part& part : parts_) {
      if (part.error) std::rethrow_exception(part.error);
      if (!part.verdict) {
        all.interrupted = true;
        return all;
      }
      all.checkpoints += part.verdict->checkpoints;
      all.weights = part.verdict->weights;  // of the end alone
      all.weights_sha256 = part.verdict->weights_sha256;
      all.difference = part.verdict->difference;
      if (all.difference) break;
    }
    return all;
  }

 private:
  // On a terminal a line per segment, rewritten; elsewhere nothing.
  class SegmentProgress {
   public:
    ~SegmentProgress() {
      if (lines_ > 0) std::fputs(back_.c_str(), stderr);
    }
    void show(const std::deque<Part>& parts) {
      if (!terminal_) return;
      std::string text = lines_ > 0 ? fmt::format("\033[{}A", lines_) : "";
      for (const Part& part : parts) {
        const std::int64_t count = part.segment.last - part.start, done = part.step - part.start;
        const char* state = part.is_identical()                     ? "identical"
                            : part.error != nullptr || part.verdict ? "ended"
                            : part.was_stopped                      ? "stopped"
                                                                    : "";
        text +=
            "\r\033[K" +
            process::fitted(fmt::format("steps {:<20} {:>3} %  {}", name_of(part.segment), 100 * done / count, state)) +
            "\n";
      }
      fmt::print(stderr, "{}", text);
      std::fflush(stderr);
      lines_ = parts.size();
      back_ = fmt::format("\033[{}A\033[J", lines_);
    }

   private:
    bool terminal_ = process::rewrites_lines();
    std::size_t lines_ = 0;
    std::string back_;  // to before its lines, and they are gone
  };

  void run(Part& part, int threads) noexcept {
    std::optional<Verdict> verdict;
    std::exception_ptr error;
    bool was_stopped = false;
    try {
      verdict = run_segment_({part.segment, part.start, threads}, part.step, part.stop);
      was_stopped = !verdict;
    } catch (...) {
      error = std::current_exception();
    }
    const std::lock_guard lock(mutex_);
    part.verdict = std::move(verdict);
    part.error = error;
    part.was_stopped = was_stopped;
    if (!part.is_identical()) stop_after(part);
    changed_.notify_all();
  }

  void stop_all() {
    for (Part& part : parts_) part.stop = true;
  }

  // Later segments cannot change the verdict any more; earlier ones can.
  void stop_after(const Part& ended) {
    bool later = false;
    for (Part& part : parts_) {
      if (later) part.stop = true;
      later = later || &part == &ended;
    }
  }

  [[nodiscard]] bool settled() const {
    for (const Part& part : parts_) {
      if (part.error || part.was_stopped || (part.verdict && part.verdict->difference)) return true;
      if (!part.verdict) return false;
    }
    return true;
  }

  const RunSegment& run_segment_;
  std::mutex mutex_;  // over what a part has become
  std::condition_variable changed_;
  std::deque<Part> parts_;  // their threads are joined first
};

}  // namespace

Verdict run_side_by_side(const SegmentPlan& plan, const RunSegment& run_segment, const std::atomic<bool>& stop) {
  Segments segments(plan, run_segment);
  segments.wait(stop);
  return segments.verdict();
}

}  // namespace isobit::proof
