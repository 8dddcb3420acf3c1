// isobit run: trains by the contract, or by stock PyTorch, and leaves a record.
#include "jobs/run.h"

#include <fmt/format.h>

#include <memory>
#include <nlohmann/json.hpp>

#include "archive/runs.h"
#include "archive/user_error.h"
#include "jobs/run_in_job.h"
#include "jobs/run_request.h"
#include "jobs/run_session.h"
#include "jobs/run_worker.h"
#include "jobs/run_workers.h"
#include "process/stop_signal.h"
#include "train/arithmetic.h"
#include "train/recording.h"
#include "train/training_progress.h"

namespace isobit::jobs {
namespace {

using archive::UserError;

// Records, shows, and remembers the last metrics.
class RunListener : public train::Recorder {
 public:
  RunListener(archive::RunWriter& writer, const train::Experiment& experiment, const train::Trainer& trainer)
      : Recorder(writer, experiment),
        progress_(trainer.steps_done(), trainer.timetable().steps(), trainer.timetable().epochs()) {}

  void on_step(const train::StepReport& report) override {
    Recorder::on_step(report);
    seconds_ += report.seconds;
    progress_.step(report);
  }
  void on_metrics(const train::MetricsReport& report) override {
    Recorder::on_metrics(report);
    for (const archive::MetricsLine& line : train::metrics_lines(report)) {
      for (const auto& [name, value] : line.values) metrics_[line.set][name] = value;
    }
    progress_.metrics(report);
  }
  [[nodiscard]] const nlohmann::ordered_json& metrics() const { return metrics_; }
  [[nodiscard]] double seconds() const { return seconds_; }

 private:
  train::TrainingProgress progress_;
  nlohmann::ordered_json metrics_ = nlohmann::ordered_json::object();
  double seconds_ = 0;
};

// The run of a name (--once) that was finished before: there is nothing to do.
RunOutcome finished_before(const std::filesystem::path& folder, const archive::RunSummary& summary, bool json) {
  fmt::print(stderr, "run {} is finished\n", folder.string());
  if (json) {
    const nlohmann::ordered_json result{{"id", summary.id},
                                        {"folder", folder.string()},
                                        {"name", summary.name},
                                        {"state", "finished"},
                                        {"steps", summary.steps},
                                        {"weights", summary.weights},
                                        {"weights_sha256", summary.weights_sha256}};
    fmt::print("{}\n", result.dump());
  } else {
    fmt::print("sha256  {}\nweights {}\n", summary.weights_sha256, summary.weights);
  }
  return {0, folder, summary.weights};
}

RunOutcome print_experiment(const RunRequest& request) {
  const std::string text = train::to_toml(request.experiment);
  const nlohmann::ordered_json result{{"name", request.experiment.name}, {"experiment", text}};
  fmt::print("{}", request.json ? result.dump() + "\n" : text);
  return {};
}

void print_result(const RunSession& session, const RunListener& listener, const char* state, const std::string& weights,
                  const std::string& sha256, bool json) {
  if (!json) {
    if (!weights.empty()) fmt::print("sha256  {}\nweights {}\n", sha256, weights);
    return;
  }
  nlohmann::ordered_json result;
  result["id"] = session.writer->id();
  result["folder"] = session.writer->folder().string();
  result["name"] = session.experiment.name;
  result["state"] = state;
  result["steps"] = session.trainer->steps_done();
  result["weights"] = weights;
  result["weights_sha256"] = sha256;
  result["metrics"] = listener.metrics();
  result["training_seconds"] = listener.seconds();
  fmt::print("{}\n", result.dump());
}

RunOutcome execute(RunSession& session, bool json) {
  const std::filesystem::path folder = session.writer->folder();
  const train::ArithmeticScope arithmetic(session.experiment);
  const process::StopSignal stop;
  RunListener listener(*session.writer, session.experiment, *session.trainer);
  try {
    if (train::execute(*session.trainer, session.trainer->timetable().steps(), listener, stop.flag()) ==
        train::Outcome::interrupted) {
      print_result(session, listener, "interrupted", "", "", json);
      fmt::print(stderr, "isobit: interrupted after step {}; resume with: isobit run --resume {}\n",
                 session.trainer->steps_done(), session.writer->folder().string());
      return {process::kInterruptedExit, folder, ""};
    }
    const std::string weights = train::weights_name(*session.trainer);
    const std::string sha256 = train::weights_sha256(*session.trainer);
    session.writer->finish(weights, sha256);
    print_result(session, listener, "finished", weights, sha256, json);
    return {0, folder, weights};
  } catch (const train::NotFinite& error) {
    session.writer->fail(error.what());
    print_result(session, listener, "failed", "", "", json);
    fmt::print(stderr, "isobit: {}: {} (lower optimizer.lr, or check the data; the step changed nothing)\n",
               session.writer->folder().string(), error.what());
    return {1, folder, ""};
  } catch (const UserError& error) {
    session.writer->fail(error.what());
    const std::string go_on = "isobit run --resume " + session.writer->folder().string();
    throw UserError(error.place(), error.problem(),
                    error.remedy().empty() ? go_on : error.remedy() + "; then " + go_on);
  } catch (const std::exception& error) {
    session.writer->fail(error.what());
    throw;
  }
}

}  // namespace

RunOutcome run(const RunOptions& options) {
  RunRequest request = read_request(options);
  if (options.dry_run) return print_experiment(request);
  if (!options.once.empty()) {
    const std::filesystem::path& run = request.resumed;
    if (!run.empty()) {
      const archive::RunSummary summary = archive::summarize(run);
      if (summary.state == archive::RunState::finished) return finished_before(run, summary, request.json);
    }
    if (options.finished) {
      fmt::print(stderr, "{}\n",
                 run.empty() ? "there is no run of this name" : "run " + run.string() + " is not finished");
      return {1, {}, ""};
    }
  }
  const auto task = slurm::allocation();
  const bool of_several =
      task && task->in_step && task->tasks > 1 && request.workers.join.empty() && request.workers.count == 0;
  if (task && task->in_step) take_share(request.execution, *task);
  request.execution.apply();
  if (of_several) return run_in_job(std::move(request), *task);
  if (!request.workers.join.empty()) return run_worker(request);
  if (request.workers.count > 0) return run_workers(request);
  RunSession session = open_session(request);
  return execute(session, request.json);
}

}  // namespace isobit::jobs
