#include "scale/shared_recording.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <nlohmann/json.hpp>
#include <utility>

#include "archive/files.h"
#include "archive/lock_owner.h"
#include "archive/manifest.h"
#include "archive/user_error.h"
#include "archive/weights_digest.h"
#include "train/checkpoint_state.h"

namespace isobit::scale {
namespace {

using Json = nlohmann::json;
using archive::UserError;

// A restart of the scheduler counts more than any change of the recorder.
constexpr std::int64_t kRecordings = std::int64_t{1} << 20;

Json to_json(const std::map<std::string, double>& values) {
  Json object = Json::object();
  for (const auto& [name, value] : values) object[name] = std::bit_cast<std::int64_t>(value);
  return object;
}

}  // namespace

SharedRecording::SharedRecording(Place place, const train::Timetable& timetable, std::function<bool()> alive)
    : place_(std::move(place)), timetable_(timetable), alive_(std::move(alive)) {}

bool SharedRecording::can_record() const { return ::access(place_.folder.c_str(), R_OK | W_OK | X_OK) == 0; }

// Whoever is dropped right after it was made the recorder finds that the next one has begun.
bool SharedRecording::begin(std::int64_t recordings, const train::SharedSteps::Caller& caller) {
  try {
    return resume(recordings, caller);
  } catch (const UserError&) {
    writer_.reset();
    if (alive_()) throw;
    return false;
  }
}

bool SharedRecording::resume(std::int64_t recordings, const train::SharedSteps::Caller& caller) {
  archive::Job job = archive::scheduled_job();
  if (job.name.empty()) job = {"isobit", place_.job, 0};
  job.restart = job.restart * kRecordings + recordings;
  archive::set_job(job);
  writer_.reset();
  // The former recorder sealed it, and was lost before it could say so.
  if (archive::is_there(place_.folder / archive::kManifest)) return false;
  writer_ = std::make_unique<archive::RunWriter>(
      archive::RunWriter::resume(place_.folder, place_.environment, place_.contract));
  const auto& checkpoint = writer_->checkpoint();
  const std::int64_t recorded = checkpoint ? checkpoint->step() : 0, done = caller.steps_done();
  written_ = recorded;
  if (recorded > done) {
    caller.take_over(train::read_checkpoint(*checkpoint));
    events_.clear();
    base_ = next_base_ = recorded;
    return true;
  }
  if (recorded < base_) {
    writer_.reset();
    throw UserError(
        place_.folder.string(),
        fmt::format("its newest sound checkpoint is of step {}, and no worker remembers the steps before {}", recorded,
                    base_ + 1),
        "isobit run --resume " + place_.folder.string());
  }
  for (const Event& event : events_) {
    if (event.step > recorded && !event.checkpoint) write(event);
  }
  // One that the former recorder did not complete: nobody went on before it was.
  if (done > recorded && !events_.empty() && events_.back().checkpoint && events_.back().step == done)
    write_checkpoint(caller.state());
  return false;
}

std::string SharedRecording::notes() const {
  Json all = Json::array();
  for (const Event& event : events_) {
    if (event.line) {
      all.push_back({0, event.step, event.line->epoch, event.line->loss_bits, event.line->batch, event.line->weights,
                     event.line->optimizer, event.line->gradients});
    } else if (event.metrics) {
      all.push_back({1, event.step, event.metrics->epoch, event.metrics->set, to_json(event.metrics->values)});
    } else if (event.predictions) {
      const archive::PredictionsLine& line = *event.predictions;
      all.push_back({4, event.step, line.epoch, line.set, line.predictions, line.targets});
    } else if (event.timing) {
      all.push_back({2, event.step, event.timing->phase, event.timing->seconds, event.timing->samples});
    } else {
      all.push_back({3, event.step});
    }
  }
  return Json::array({base_, next_base_, all}).dump();
}

void SharedRecording::take_notes(const std::string& notes, std::int64_t steps_done) {
  events_.clear();
  epoch_seconds_ = 0, epoch_samples_ = 0;
  try {
    const Json json = Json::parse(notes);
    base_ = json.at(0), next_base_ = json.at(1);
    for (const Json& one : json.at(2)) {
      Event event;
      event.step = one.at(1);
      if (event.step > steps_done) break;
      switch (one.at(0).get<int>()) {
        case 0:
          event.line = archive::StepLine{event.step, one.at(2), one.at(3), one.at(4), one.at(5), one.at(6), one.at(7)};
          break;
        case 1:
          event.metrics = archive::MetricsLine{event.step, one.at(2), one.at(3), {}};
          for (const auto& [name, value] : one.at(4).items())
            event.metrics->values[name] = std::bit_cast<double>(value.get<std::int64_t>());
          break;
        case 2: event.timing = archive::TimingLine{event.step, one.at(2), one.at(3), one.at(4)}; break;
        case 4:
          event.predictions = archive::PredictionsLine{event.step, one.at(2), one.at(3), one.at(4), one.at(5)};
          break;
        default: event.checkpoint = true;
      }
      events_.push_back(std::move(event));
    }
  } catch (const Json::exception&) {
    throw WireError("notes that isobit does not send");
  }
  // This worker writes, and was behind: steps that it did not make itself.
  const std::int64_t before = written_;
  guarded([&] {
    for (const Event& event : events_) {
      if (event.step > before) write(event);
    }
  });
}

// From the notes of the worker whose state was taken over: the same lines, written already where this worker writes.
bool SharedRecording::knows(const Event& event) const {
  return std::any_of(events_.begin(), events_.end(), [&](const Event& other) {
    if (other.step != event.step) return false;
    if (event.metrics) return other.metrics && other.metrics->set == event.metrics->set;
    if (event.predictions) return other.predictions.has_value();
    return (event.line && other.line) || (event.timing && other.timing);
  });
}

void SharedRecording::write(const Event& event) {
  if (event.line) {
    writer_->append_step(*event.line);
    written_ = event.step;
  }
  if (event.metrics) writer_->append_metrics(*event.metrics);
  if (event.predictions) writer_->append_predictions(*event.predictions);
  if (event.timing) writer_->append_timing(*event.timing);
}

void SharedRecording::write_checkpoint(const train::TrainingState& state) {
  const archive::Retention keep(place_.newest, [&](std::int64_t step) { return timetable_.segment_ends_after(step); });
  writer_->write_checkpoint(checkpoint_tensors(state), checkpoint_text(state, timetable_), keep,
                            archive::weights_sha256(weight_tensors(state)));
}

// Whoever was stopped, and lost the record to another, must not end the job: it finds out that it was dropped.
template <class Action>
void SharedRecording::guarded(const Action& action) {
  if (!writer_) return;
  try {
    action();
  } catch (const UserError&) {
    if (alive_()) throw;
    writer_.reset();
  }
}

void SharedRecording::add(Event event) {
  if (knows(event)) return;
  guarded([&] { write(event); });
  events_.push_back(std::move(event));
}

void SharedRecording::on_step(const train::StepReport& report) {
  const std::int64_t step = report.result.place.step;
  // The recorder is in this step, so that its checkpoint of before is complete.
  if (next_base_ > base_ && step > next_base_) {
    base_ = next_base_;
    while (!events_.empty() && events_.front().step <= base_) events_.pop_front();
  }
  Event event;
  event.step = step;
  event.line = train::step_line(report);
  add(std::move(event));
  epoch_seconds_ += report.seconds;
  epoch_samples_ += report.result.place.count;
}

void SharedRecording::on_metrics(const train::MetricsReport& report) {
  for (const archive::MetricsLine& line : train::metrics_lines(report)) {
    Event event;
    event.step = report.step;
    event.metrics = line;
    add(std::move(event));
  }
  if (auto line = train::predictions_line(report)) {
    Event event;
    event.step = report.step;
    event.predictions = std::move(line);
    add(std::move(event));
  }
  Event event;
  event.step = report.step;
  event.timing = archive::TimingLine{report.step, "epoch", epoch_seconds_, epoch_samples_};
  add(std::move(event));
  epoch_seconds_ = 0, epoch_samples_ = 0;
}

void SharedRecording::on_checkpoint(const train::Trainer& trainer) {
  Event event;
  event.step = next_base_ = trainer.steps_done();
  event.checkpoint = true;
  events_.push_back(std::move(event));
  guarded([&] { write_checkpoint(trainer.state()); });
}

void SharedRecording::finish(const train::Trainer& trainer) {
  guarded([&] { writer_->finish(train::weights_name(trainer), train::weights_sha256(trainer)); });
}

void SharedRecording::fail(const std::string& reason) noexcept {
  if (writer_) writer_->fail(reason);
}

}  // namespace isobit::scale
