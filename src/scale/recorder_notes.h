// What a worker remembers of the steps since the newest checkpoint, so that it can become the recorder: lines of the
// record, and where checkpoints were written. It travels with a worker's state, from any worker that has the job's key.
//
// A line is taken only if the record's own reader takes it (archive/log_lines.h): whatever a worker sends, the recorder
// writes no record that is damaged by its form. No torch. Plain values; thread-safe.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <string_view>

#include "archive/log_lines.h"

namespace isobit::scale {

struct RecorderEvent {  // one of these
  std::int64_t step = 0;
  std::optional<archive::StepLine> line;
  std::optional<archive::MetricsLine> metrics;
  std::optional<archive::PredictionsLine> predictions;
  std::optional<archive::TimingLine> timing;
  std::optional<bool> checkpoint;
};

struct RecorderNotes {
  std::int64_t base = 0, next_base = 0;  // the checkpoints before the events, and the newest that is known
  std::deque<RecorderEvent> events;      // their steps ascend
};

// JSON.
[[nodiscard]] std::string encode_notes(const RecorderNotes& notes);

// Of events up to `steps_done`. WireError (scale/messages.h) where the text is not what encode_notes writes: other
// types or numbers, steps that descend or are not after `base`, a line that no reader of a log takes.
[[nodiscard]] RecorderNotes decode_notes(std::string_view text, std::int64_t steps_done);

}  // namespace isobit::scale
