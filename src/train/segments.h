// How steps are cut at recorded checkpoints, so that the parts can be executed side by side (isobit verify --workers).
//
// A whole verification in segments proves what one execution proves: the first segment starts from the seed; each other
// one starts from a recorded checkpoint that the one before it ends on and compares bit by bit (weights, optimizer, the
// epoch's sums); the last ends with the run. So by induction every segment started from the state that the seed leads
// to. This holds where a checkpoint is all of the state: not for networks and programs that are code.
// Plain values; no torch.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace isobit::train {

struct Segment {
  std::int64_t first = 0, last = 0;  // steps, both compared
};

// Steps first..last, cut after some of `checkpoints` (steps, ascending), into at most `most` segments, in order. Of all
// ways one whose longest segment is as short as it can be. `start`: the step after which the first one's execution
// begins, below `first`. Precondition: first <= last, most >= 1.
[[nodiscard]] std::vector<Segment> cut_into_segments(std::span<const std::int64_t> checkpoints, std::int64_t start,
                                                     std::int64_t first, std::int64_t last, std::int64_t most);

}  // namespace isobit::train
