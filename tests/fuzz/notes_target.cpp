// What a recorder of a job remembers, as another worker sends it: whatever is taken, the lines that would be written
// are lines that a record's reader takes, of the steps that were asked for.
#include <limits>

#include "fuzz/target.h"
#include "fuzz/targets.h"
#include "scale/messages.h"
#include "scale/recorder_notes.h"

namespace isobit::fuzz {
namespace {

using namespace archive;

template <class Line>
void require_readable(const std::optional<Line>& line, std::int64_t step) {
  if (!line) return;
  const std::string text = format_line(*line);
  const std::vector<Line> read = parse_log<Line>(text, "log");
  require(read.size() == 1 && read[0].step == step && format_line(read[0]) == text, "a noted line is a record's line");
}

void take(std::string_view text, std::int64_t steps_done) {
  scale::RecorderNotes notes;
  try {
    notes = scale::decode_notes(text, steps_done);
  } catch (const scale::WireError&) {
    return;
  }
  std::int64_t last = notes.base;
  require(notes.base >= 0 && notes.next_base >= notes.base, "checkpoints ascend");
  for (const scale::RecorderEvent& event : notes.events) {
    require(event.step >= last && event.step <= steps_done, "steps ascend up to those that were done");
    last = event.step;
    require(int{event.line.has_value()} + int{event.metrics.has_value()} + int{event.predictions.has_value()} +
                    int{event.timing.has_value()} + int{event.checkpoint.has_value()} ==
                1,
            "an event is one thing");
    require_readable(event.line, event.step);
    require_readable(event.metrics, event.step);
    require_readable(event.predictions, event.step);
    require_readable(event.timing, event.step);
  }
  const std::string written = scale::encode_notes(notes);
  require(scale::encode_notes(scale::decode_notes(written, steps_done)) == written,
          "notes that are taken are given on");
}

}  // namespace

void run_notes(std::string_view input) {
  take(input, 7);
  take(input, std::numeric_limits<std::int64_t>::max());
}

std::vector<std::string> notes_seeds() {
  const std::string digits(32, 'a');
  const auto event = [](std::int64_t step) {
    scale::RecorderEvent made;
    made.step = step;
    return made;
  };
  scale::RecorderEvent line = event(5), metrics = event(6), predictions = event(6), timing = event(6),
                       checkpoint = event(6);
  line.line = StepLine{5, 1, 0x3f000000, digits, digits, ""};
  metrics.metrics = MetricsLine{6, 1, "test", {{"accuracy", 0.5}, {"loss", std::numeric_limits<double>::infinity()}}};
  predictions.predictions = PredictionsLine{6, 1, "test", {3, 0, 9}, std::string(64, 'b')};
  timing.timing = TimingLine{6, "epoch", 0.25, 60};
  checkpoint.checkpoint = true;
  const std::string all = scale::encode_notes({4, 6, {line, metrics, predictions, timing, checkpoint}});
  return {all, scale::encode_notes({0, 0, {line}}), "[0,0,[]]", "[9223372036854775807,-1,[[9,true,1e300]]]",
          "[0,0,[[3,1,\"\"],[3,0,\"\"]]]"};
}

}  // namespace isobit::fuzz
