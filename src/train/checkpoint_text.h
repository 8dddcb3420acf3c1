// The text of a checkpoint of `isobit run` (the metadata key "state", docs/formats/run.md): JSON with how far the run
// had come, and the sums of the epoch under way. One spelling. No torch; no state; thread-safe.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "train/epoch_sums.h"

namespace isobit::train {

struct CheckpointText {
  std::int64_t steps_done = 0;
  std::int64_t epoch = 0, position = 0;  // of the next step: position of its first sample in the order plan
  EpochSums sums;                        // weight, targets and error are written where they are not derivable
};

[[nodiscard]] std::string format_checkpoint_text(const CheckpointText& text);
// archive::UserError naming "checkpoint" for any text that format_checkpoint_text does not write, of steps or counts
// below 0 too.
[[nodiscard]] CheckpointText parse_checkpoint_text(std::string_view text);

}  // namespace isobit::train
