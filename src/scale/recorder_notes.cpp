#include "scale/recorder_notes.h"

#include <nlohmann/json.hpp>
#include <stdexcept>

#include "archive/json_text.h"
#include "scale/messages.h"

namespace isobit::scale {
namespace {

using Json = nlohmann::json;

enum class Kind { step, metrics, timing, checkpoint, predictions };

// A line travels as the text that the recorder writes, so that predictions of a million samples are one value.
Json to_json(const RecorderEvent& event) {
  if (event.line) return {Kind::step, event.step, format_line(*event.line)};
  if (event.metrics) return {Kind::metrics, event.step, format_line(*event.metrics)};
  if (event.predictions) return {Kind::predictions, event.step, format_line(*event.predictions)};
  if (event.timing) return {Kind::timing, event.step, format_line(*event.timing)};
  return {Kind::checkpoint, event.step, ""};
}

void expect(bool holds, const char* what) {
  if (!holds) throw std::invalid_argument(what);
}

template <class Line>
Line line_of(const RecorderEvent& event, const std::string& text) {
  Line line;
  expect(text.ends_with('\n') && parse_line(std::string_view(text).substr(0, text.size() - 1), line),
         "no line of a record");
  expect(line.step == event.step, "a line of another step");
  return line;
}

RecorderEvent event_of(std::int64_t step, std::int64_t kind, const std::string& text) {
  RecorderEvent event;
  event.step = step;
  switch (static_cast<Kind>(kind)) {
    case Kind::step: event.line = line_of<archive::StepLine>(event, text); return event;
    case Kind::metrics:
      event.metrics = line_of<archive::MetricsLine>(event, text);
      expect(event.metrics->set == "train" || event.metrics->set == "test", "a set that no experiment has");
      return event;
    case Kind::timing:
      event.timing = line_of<archive::TimingLine>(event, text);
      expect(event.timing->seconds >= 0 && event.timing->seconds < 1e18 && event.timing->samples >= 0,
             "nothing takes such a time");
      return event;
    case Kind::checkpoint:
      expect(text.empty(), "a checkpoint with a line");
      event.checkpoint = true;
      return event;
    case Kind::predictions:
      event.predictions = line_of<archive::PredictionsLine>(event, text);
      expect(event.predictions->set == "test", "a set that no experiment has");
      return event;
  }
  throw std::invalid_argument("an event that is none");
}

RecorderNotes decode(const Json& json, std::int64_t steps_done) {
  const auto number = [](const Json& value) { return archive::integer<std::int64_t>(value); };
  expect(json.is_array() && json.size() == 3 && json[2].is_array(), "no notes");
  RecorderNotes notes{number(json[0]), number(json[1]), {}};
  expect(notes.base >= 0 && notes.next_base >= notes.base, "checkpoints that are none");
  std::int64_t last = notes.base;
  for (const Json& one : json[2]) {
    expect(one.is_array() && one.size() == 3, "an event that is none");
    const std::int64_t step = number(one[1]);
    expect(step >= last, "steps that descend");
    if (step > steps_done) break;
    last = step;
    notes.events.push_back(event_of(step, number(one[0]), one[2].get<std::string>()));
  }
  return notes;
}

}  // namespace

std::string encode_notes(const RecorderNotes& notes) {
  Json all = Json::array();
  for (const RecorderEvent& event : notes.events) all.push_back(to_json(event));
  return Json::array({notes.base, notes.next_base, all}).dump();
}

RecorderNotes decode_notes(std::string_view text, std::int64_t steps_done) {
  try {
    return decode(archive::parse_json<Json>(text), steps_done);
  } catch (const Json::exception&) {
  } catch (const std::invalid_argument&) {
  }
  throw WireError("notes that isobit does not send");
}

}  // namespace isobit::scale
