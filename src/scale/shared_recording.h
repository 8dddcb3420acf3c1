// The record of a job: every worker keeps the lines since the newest checkpoint, the recorder writes them.
//
// Whoever becomes the recorder resumes the record (archive/run_writer.h): its logs are cut to the newest sound
// checkpoint, and what this worker remembers of the steps since is written again, the same lines. The lock says which
// job writes and how often its recorder has changed, so that one who was stopped or cut off finds it taken and writes
// nothing more. One thread.
#pragma once

#include <deque>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>

#include "archive/run_writer.h"
#include "scale/elastic_steps.h"
#include "scale/recorder_notes.h"
#include "train/recording.h"

namespace isobit::scale {

class SharedRecording final : public Recording, public train::Listener {
 public:
  struct Place {
    std::filesystem::path folder;  // of the run
    std::string environment;       // JSON, of this worker
    std::string job;               // names the job in the record's lock
    std::int64_t restarts = 0;     // of the job, by its scheduler
    std::int64_t newest = 0;       // checkpoints kept beside those that end segments
    std::string contract = contract::kContractVersion;
  };
  // `alive`: whether this worker still belongs to the job, asked where the record cannot be written.
  SharedRecording(Place place, const train::Timetable& timetable, std::function<bool()> alive);

  [[nodiscard]] bool can_record() const override;
  bool begin(std::int64_t recordings, const train::SharedSteps::Caller& caller) override;
  void end() override { writer_.reset(); }
  [[nodiscard]] std::string notes() const override;
  void take_notes(const std::string& notes, std::int64_t steps_done) override;

  void on_step(const train::StepReport& report) override;
  void on_metrics(const train::MetricsReport& report) override;
  void on_checkpoint(const train::Trainer& trainer) override;

  // Seals the record, or notes why the job ended early. Precondition: this worker records.
  void finish(const train::Trainer& trainer);
  void fail(const std::string& reason) noexcept;
  [[nodiscard]] bool writes() const { return writer_ != nullptr; }

 private:
  using Event = RecorderEvent;
  bool resume(std::int64_t recordings, const train::SharedSteps::Caller& caller);
  void add(Event event);
  [[nodiscard]] bool knows(const Event& event) const;
  void write(const Event& event);
  void write_checkpoint(const train::TrainingState& state);
  template <class Action>
  void guarded(const Action& action);

  Place place_;
  const train::Timetable& timetable_;
  std::function<bool()> alive_;
  std::unique_ptr<archive::RunWriter> writer_;
  std::deque<Event> events_;  // of the steps after base_
  std::int64_t base_ = 0, next_base_ = 0;
  std::int64_t written_ = 0;  // the newest step of which the writer has a line
  std::int64_t saved_ = 0;    // the newest step of which the writer's record has a checkpoint
  double epoch_seconds_ = 0;
  std::int64_t epoch_samples_ = 0;
};

}  // namespace isobit::scale
