// The record of a job, whose recorder changes: each line stands in it once, as one process writes it, whatever the new
// recorder took over of the others' states and notes at the same moment.
#include <gtest/gtest.h>

#include <atomic>
#include <nlohmann/json.hpp>
#include <optional>

#include "archive/files.h"
#include "archive/log_lines.h"
#include "archive/run_record.h"
#include "archive/small_run.h"
#include "scale/shared_recording.h"
#include "train/recording.h"
#include "train/switched_on.h"
#include "train/synthetic_data.h"

namespace isobit::scale {
namespace {

using archive::RunWriter;
using train::Trainer;

const train::Experiment& experiment() {
  static const train::Experiment parsed = train::parse_experiment(
      "seed = 3\nepochs = 2\nbatch = 20\ngrain = 5\n[model]\nname = \"mlp\"\nhidden = [8]\n[optimizer]\nlr = 0.05\n"
      "[checkpoint]\nevery = 4\n[fingerprint]\nevery = 1\ngradients = 1",
      "shared");
  return parsed;
}

// What a worker does after a step, up to `last`; the last step's result.
class Worker final : public train::Listener {
 public:
  explicit Worker(const std::filesystem::path& run)
      : trainer(experiment(), train::synthetic_data(60, 8, 12)),
        recording({run, "{}", "job", 0, 2}, trainer.timetable(), [] { return true; }) {}

  void train_to(std::int64_t last, const std::optional<train::StepResult>& open = {}) {
    (void)train::execute(trainer, last, *this, never_, open);
  }
  // As ElasticSteps does where another one is ahead.
  void take_over(const Worker& source) {
    trainer.restore(source.trainer.state());
    recording.take_notes(source.recording.notes(), source.trainer.steps_done());
  }
  void on_step(const train::StepReport& report) override { recording.on_step(report), result = report.result; }
  void on_metrics(const train::MetricsReport& report) override { recording.on_metrics(report); }
  void on_checkpoint(const Trainer& from) override { recording.on_checkpoint(from); }

  Trainer trainer;
  SharedRecording recording;
  std::optional<train::StepResult> result;

 private:
  std::atomic<bool> never_ = false;
};

class SharedRecordingTest : public train::SwitchedOn {
 protected:
  [[nodiscard]] std::filesystem::path new_run() const {
    return RunWriter::create(scratch_.runs(), {experiment().name, train::to_toml(experiment()), "{}", "{}"}).folder();
  }
  // By one process.
  [[nodiscard]] std::filesystem::path plain_run() const {
    RunWriter writer =
        RunWriter::create(scratch_.runs(), {experiment().name, train::to_toml(experiment()), "{}", "{}"});
    Trainer trainer(experiment(), train::synthetic_data(60, 8, 12));
    train::Recorder recorder(writer, experiment());
    const std::atomic<bool> never = false;
    (void)train::execute(trainer, trainer.timetable().steps(), recorder, never);
    writer.finish(train::weights_name(trainer), train::weights_sha256(trainer));
    return writer.folder();
  }
  void expect_complete(const std::filesystem::path& run) const {
    const std::filesystem::path plain = plain_run();
    for (const char* log : {archive::kStepsLog, archive::kMetricsLog})
      EXPECT_EQ(archive::read_file(run / log, 1 << 20), archive::read_file(plain / log, 1 << 20)) << log;
    const archive::RunRecord record = archive::RunRecord::open(run), expected = archive::RunRecord::open(plain);
    EXPECT_EQ(record.checkpoint_weights(), expected.checkpoint_weights());
    EXPECT_EQ(record.weights_sha256(), expected.weights_sha256());
  }
  archive::Scratch scratch_;
};

// Steps 1 to 6, of which 3 and 6 end an epoch and 4 and 6 have a checkpoint. The first recorder is gone after `before`;
// the second takes over the state of the step after from a third together with its result, and becomes the recorder.
TEST_F(SharedRecordingTest, ANewRecorderThatWasBehindWritesEachLineOnce) {
  for (std::int64_t before = 0; before < 6; ++before) {
    SCOPED_TRACE(before);
    const auto run = new_run();
    auto first = std::make_unique<Worker>(run);
    Worker second(run), third(run);
    EXPECT_FALSE(first->recording.begin(1, first->trainer.caller()));
    for (Worker* each : {first.get(), &second, &third}) each->train_to(before);
    first.reset();
    third.train_to(before + 1);
    second.take_over(third);
    EXPECT_FALSE(second.recording.begin(2, second.trainer.caller()));
    second.train_to(6, third.result);
    second.recording.finish(second.trainer);
    expect_complete(run);
  }
}

// The recorder itself lost the exchange of a step, and takes over what the other one has and has noted.
TEST_F(SharedRecordingTest, ARecorderThatIsBehindWritesTheStepsOfTheOther) {
  for (std::int64_t taken = 1; taken <= 6; ++taken) {
    SCOPED_TRACE(taken);
    const auto run = new_run();
    Worker recorder(run), other(run);
    EXPECT_FALSE(recorder.recording.begin(1, recorder.trainer.caller()));
    recorder.train_to(taken - 1), other.train_to(taken);
    recorder.take_over(other);
    recorder.train_to(6, other.result);
    recorder.recording.finish(recorder.trainer);
    expect_complete(run);
  }
}

// From a worker that has the job's key: refused as a whole, and the record becomes what it would have been.
TEST_F(SharedRecordingTest, NotesThatNoWorkerSendsChangeNothing) {
  const auto run = new_run();
  Worker recorder(run);
  EXPECT_FALSE(recorder.recording.begin(1, recorder.trainer.caller()));
  recorder.train_to(2);
  const std::string before = recorder.recording.notes();
  archive::StepLine line{3, 1, 7, std::string(32, 'a'), "", ""};
  const auto with = [](std::int64_t step, const std::string& text) {
    return "[0,0,[[0," + std::to_string(step) + "," + nlohmann::json(text).dump() + "]]]";
  };
  EXPECT_NO_THROW(static_cast<void>(decode_notes(with(3, format_line(line)), 6)));
  for (const std::string& notes :
       {std::string(), std::string("{}"), std::string("[0,-1,[]]"), std::string("[0,0,[[3,true,\"\"]]]"),
        std::string("[0,0,[[3,2,\"\"],[3,1,\"\"]]]"), std::string("[9223372036854775807,9223372036854775807,[]]"),
        std::string("[0,0,[[5,1,\"\"]]]"), with(3, "{}\n"), with(2, format_line(line)),
        with(3, format_line(line) + format_line(line)), std::string(100'000, '[')}) {
    EXPECT_THROW(recorder.recording.take_notes(notes, 6), WireError) << notes.substr(0, 80);
    EXPECT_EQ(recorder.recording.notes(), before);
  }
  recorder.train_to(6);
  recorder.recording.finish(recorder.trainer);
  expect_complete(run);
}

TEST_F(SharedRecordingTest, ARecordThatIsCompleteNeedsNoRecorder) {
  const auto run = plain_run();
  Worker late(run);
  late.train_to(6);
  EXPECT_FALSE(late.recording.begin(2, late.trainer.caller()));
  EXPECT_FALSE(late.recording.writes());
  late.recording.finish(late.trainer);
  expect_complete(run);
}

}  // namespace
}  // namespace isobit::scale
