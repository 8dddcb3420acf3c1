// isobit verify: executes a recorded run again and compares all that was recorded.
#include <fmt/format.h>

#include <memory>

#include "archive/run_record.h"
#include "archive/runs.h"
#include "archive/user_error.h"
#include "aten/operator_switch.h"
#include "cli/command.h"
#include "cli/execution_options.h"
#include "cli/training_progress.h"
#include "train/verification.h"

namespace isobit::cli {
namespace {

struct VerifyOptions {
  std::string run, runs, data;
  std::int64_t from = 0, to = 0;  // 0: not given
  ExecutionOptions execution;
};

void show(void* context, const train::StepReport& report, std::int64_t last) {
  auto& progress = *static_cast<std::unique_ptr<TrainingProgress>*>(context);
  if (!progress) progress = std::make_unique<TrainingProgress>(report.result.place.step - 1, last, report.result.place.epoch);
  progress->step(report);
}

int verify(const VerifyOptions& options) {
  options.execution.apply();
  const auto folder = archive::find_run(archive::runs_folder(options.runs), options.run);
  const archive::RunRecord record = archive::RunRecord::open(folder);
  train::VerifyRequest request;
  if (options.from != 0) request.from = options.from;
  if (options.to != 0) request.to = options.to;
  request.data_path = options.data;
  request.grain_order = options.execution.order();

  train::Verdict verdict;
  {
    const aten::OperatorSwitch on;
    const StopSignal stop;
    std::unique_ptr<TrainingProgress> progress;
    verdict = train::verify(record, request, stop.flag(), show, &progress);
  }
  if (verdict.interrupted) {
    fmt::print(stderr, "isobit: interrupted; nothing can be said of {}\n", folder.string());
    return kInterruptedExit;
  }
  if (verdict.difference) {
    const train::Difference& d = *verdict.difference;
    fmt::print("different at step {}: {} recorded {}, recomputed {}\n", d.step, d.what, d.recorded, d.recomputed);
    return 1;
  }
  if (verdict.whole) {
    fmt::print("identical: {} steps, weights {}\n", verdict.last, verdict.weights);
  } else {
    fmt::print("identical in steps {}..{}\n", verdict.first, verdict.last);
  }
  return 0;
}

Action declare(CLI::App& app) {
  auto options = std::make_shared<VerifyOptions>();
  app.add_option("run", options->run, "A run's folder, id, beginning of an id, or last")->type_name("RUN")->required();
  app.add_option("--runs", options->runs, "The archive: a folder of runs (default: $ISOBIT_RUNS, else runs)")->type_name("DIR");
  app.add_option("--data", options->data, "Folder of the data files, where they moved")->type_name("PATH");
  app.add_option("--from", options->from, "First step to compare (default: 1)")->type_name("STEP")->check(CLI::PositiveNumber);
  app.add_option("--to", options->to, "Last step to compare (default: the run's last)")->type_name("STEP")->check(CLI::PositiveNumber);
  options->execution.declare(app);
  return [options] { return verify(*options); };
}

const CommandRegistration registration({.name = "verify",
                                        .summary = "Execute a recorded run again and compare everything",
                                        .example = "isobit verify last --threads 1 --isa reference",
                                        .rank = 20,
                                        .declare = declare});

}  // namespace
}  // namespace isobit::cli
