#include "train/tracing.h"

#include <fmt/format.h>

#include <chrono>
#include <filesystem>
#include <map>

#include "archive/run_export.h"
#include "archive/user_error.h"
#include "trace/operator_observer.h"
#include "train/checkpoint_state.h"
#include "train/recording.h"
#include "train/verification.h"

namespace isobit::train {
namespace {

using archive::UserError;

class Repetition {
 public:
  Repetition(const archive::RunRecord& record, const TraceRequest& request)
      : record_(record), recorded_(recorded_experiment(record.experiment(), experiment_file())), request_(request) {
    if (!recorded_.model.torchscript.empty()) {
      const std::filesystem::path own = record.folder() / archive::kNetworkFile;  // of an exported run
      if (!request.network.empty())
        recorded_.model.torchscript = request.network;
      else if (std::filesystem::exists(own))
        recorded_.model.torchscript = own.string();
    }
    recorded_.data.path = recorded_data_path(recorded_.data.path, request.data_path);
    expect_data(record.data(), recorded_);
    data_ = load_data(recorded_);
    trainer_ = std::make_unique<Trainer>(recorded_, data_, request.execution);
    require_same_run(record, recorded_experiment(record.experiment(), experiment_file()),
                     trainer_->timetable().steps());
    for (const archive::StepLine& line : record.steps()) lines_[line.step] = line;
  }

  // The step of the checkpoint that it starts from.
  std::int64_t start() {
    const archive::CheckpointEntry* entry = checkpoint_before(record_, request_.window.first);
    if (entry == nullptr) return 0;
    restore_from(*trainer_, record_.checkpoint(*entry));
    return entry->step;
  }

  [[nodiscard]] Trainer& trainer() { return *trainer_; }

  // Whether the step is as it was recorded.
  bool step() {
    StepReport report;
    report.result = trainer_->step();
    const auto recorded = lines_.find(report.result.place.step);
    if (recorded == lines_.end()) return false;
    if (!recorded->second.weights.empty()) report.weights = trainer_->weights_fingerprint();
    if (!recorded->second.optimizer.empty()) report.optimizer = trainer_->optimizer_fingerprint();
    return step_line(report) == recorded->second;
  }

  void evaluate_where_due() {
    if (trainer_->timetable().evaluate_after(trainer_->steps_done())) (void)trainer_->evaluate();
  }

 private:
  [[nodiscard]] std::string experiment_file() const { return (record_.folder() / "experiment.toml").string(); }

  const archive::RunRecord& record_;
  Experiment recorded_;
  const TraceRequest& request_;
  DataSets data_;
  std::unique_ptr<Trainer> trainer_;
  std::map<std::int64_t, archive::StepLine> lines_;
};

void expect_window(const archive::RunRecord& record, const trace::Window& window) {
  if (window.first >= 1 && window.last() <= record.summary().steps) return;
  throw UserError(
      "--steps",
      fmt::format("steps {}..{} are not within the run's 1..{}", window.first, window.last(), record.summary().steps),
      "choose steps within the run");
}

}  // namespace

const archive::CheckpointEntry* checkpoint_before(const archive::RunRecord& record, std::int64_t step) {
  const archive::CheckpointEntry* newest = nullptr;
  for (const archive::CheckpointEntry& entry : record.checkpoints()) {
    if (entry.step < step && (newest == nullptr || entry.step > newest->step)) newest = &entry;
  }
  return newest;
}

TraceOutcome trace_steps(const archive::RunRecord& record, const TraceRequest& request, trace::TraceWriter& writer,
                         const std::atomic<bool>& stop, const std::function<void(const TracedStep&)>& told) {
  expect_window(record, request.window);
  Repetition repetition(record, request);
  TraceOutcome outcome;
  outcome.start = repetition.start();
  Trainer& trainer = repetition.trainer();
  trace::OperatorObserver observer(writer);
  while (trainer.steps_done() < request.window.last()) {
    if (stop) {
      outcome.interrupted = true;
      return outcome;
    }
    TracedStep step;
    step.step = trainer.steps_done() + 1;
    step.traced = request.window.holds(step.step);
    const auto began = std::chrono::steady_clock::now();
    const std::int64_t operators = writer.operators();
    const std::uint64_t bytes = writer.bytes();
    if (step.traced) {
      observer.begin_step(step.step);
      if (step.step > request.window.first) repetition.evaluate_where_due();  // after the step before
    }
    const bool agrees = repetition.step();
    if (!agrees && !outcome.differs_at) outcome.differs_at = step.step;
    if (step.traced) observer.end_step(outcome.differs_at ? "differs" : "agrees");
    step.operators = writer.operators() - operators;
    step.bytes = writer.bytes() - bytes;
    step.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - began).count();
    if (told) told(step);
  }
  return outcome;
}

}  // namespace isobit::train
