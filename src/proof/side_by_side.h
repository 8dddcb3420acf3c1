// Segments of a recorded run (train/segments.h) executed side by side, each by a process that a thread of its own
// calls: what `isobit verify --workers N` does, whatever the processes execute. What they say is made one verdict here.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "archive/run_record.h"
#include "proof/verify.h"
#include "train/segments.h"
#include "train/verdict.h"

namespace isobit::proof {

// What is to be executed: the segments, and what each must say of itself.
struct SegmentPlan {
  std::vector<train::Segment> segments;
  std::int64_t start = 0;  // the first segment starts after this step
  int threads = 1;         // of each
};

struct SegmentCall {
  train::Segment segment;
  std::int64_t start = 0;  // the recorded checkpoint that it starts from; 0: the seed
  int threads = 1;
};

// "235..469"
[[nodiscard]] std::string name_of(const train::Segment& segment);

// Nothing where one process does it: one worker asked for, no checkpoint between the steps, a range outside the run. On
// stderr: why there are fewer than workers, and what keeps more checkpoints (`kept_by`).
[[nodiscard]] std::optional<SegmentPlan> plan_segments(const archive::RunRecord& record, const VerifyOptions& options,
                                                       const char* kept_by);
// On stderr: which segments there are.
void show_segments(const SegmentPlan& plan);

// Executes one segment. Its verdict, of just these steps, from that start; nothing where it was ended because `stop`
// became true. `step` becomes the step that it has reached. Called by several threads at once, each of which lives as
// long as its call.
using RunSegment = std::function<std::optional<train::Verdict>(const SegmentCall& call, std::atomic<std::int64_t>& step,
                                                               const std::atomic<bool>& stop)>;

// The verdict of one process: the first difference in the order of the steps, the same errors; where `stop` becomes
// true, all are ended, and the verdict says so. `whole` and `not_recomputed` are left to the caller.
[[nodiscard]] train::Verdict run_side_by_side(const SegmentPlan& plan, const RunSegment& run_segment,
                                              const std::atomic<bool>& stop);

}  // namespace isobit::proof
