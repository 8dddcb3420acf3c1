#include "scale/shared_recording.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <utility>

#include "archive/files.h"
#include "archive/lock_owner.h"
#include "archive/manifest.h"
#include "archive/user_error.h"
#include "archive/weights_digest.h"
#include "train/checkpoint_state.h"

namespace isobit::scale {
namespace {

using archive::UserError;

// A restart of the scheduler counts more than any change of the recorder.
constexpr std::int64_t kRecordings = std::int64_t{1} << 20;

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
  written_ = saved_ = recorded;
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

std::string SharedRecording::notes() const { return encode_notes({base_, next_base_, events_}); }

void SharedRecording::take_notes(const std::string& notes, std::int64_t steps_done) {
  RecorderNotes taken = decode_notes(notes, steps_done);
  base_ = taken.base, next_base_ = taken.next_base, events_ = std::move(taken.events);
  epoch_seconds_ = 0, epoch_samples_ = 0;
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
  saved_ = state.steps_done;
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
  const std::int64_t step = next_base_ = trainer.steps_done();
  // Noted by the worker whose state was taken over.
  if (std::none_of(events_.begin(), events_.end(), [&](const Event& e) { return e.checkpoint && e.step == step; })) {
    Event event;
    event.step = step;
    event.checkpoint = true;
    events_.push_back(std::move(event));
  }
  // Saved by the former recorder, or by this one when it began in the middle of the step.
  if (saved_ < step) guarded([&] { write_checkpoint(trainer.state()); });
}

void SharedRecording::finish(const train::Trainer& trainer) {
  guarded([&] { writer_->finish(train::weights_name(trainer), train::weights_sha256(trainer)); });
}

void SharedRecording::fail(const std::string& reason) noexcept {
  if (writer_) writer_->fail(reason);
}

}  // namespace isobit::scale
