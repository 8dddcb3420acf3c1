#include "jobs/run_session.h"

#include <fmt/format.h>
#include <torch/version.h>

#include <filesystem>
#include <map>

#include "archive/environment.h"
#include "archive/experiment_text.h"
#include "archive/files.h"
#include "archive/printable.h"
#include "archive/runs.h"
#include "archive/user_error.h"
#include "contract/platform.h"
#include "kernels/isa.h"
#include "kernels/threads.h"
#include "train/arithmetic.h"
#include "train/checkpoint_state.h"
#include "train/recording.h"

namespace isobit::jobs {

using archive::UserError;

std::string run_environment(const train::ExecutionOptions& execution, std::int64_t workers,
                            const train::ArithmeticSettings& arithmetic) {
  if (arithmetic.products != "ordered") kernels::prefer_exact_products();  // so that the record names what computes
  std::map<std::string, std::string> extra = {{"threads", std::to_string(kernels::thread_count())},
                                              {"isa", std::string(kernels::name(kernels::active_isa()))},
                                              {"device", execution.device_description()},
                                              {"torch", TORCH_VERSION}};
  if (workers > 0) extra["workers"] = std::to_string(workers);
  if (arithmetic.is_stock()) {
    extra.erase("isa");  // of kernels that are not asked
    extra.merge(train::stock_environment());
  }
  return archive::environment_json(extra, train::contract_of(arithmetic));
}

namespace {

RunSession begin_run(const RunRequest& request) {
  RunSession session;
  session.experiment = request.experiment;
  if (session.experiment.arithmetic.is_stock()) request.execution.expect_stock();
  session.data = train::load_data(session.experiment);
  session.trainer = std::make_unique<train::Trainer>(session.experiment, session.data, request.execution.execution());
  const archive::RunInputs inputs{
      session.experiment.name,
      train::to_toml(session.experiment),
      run_environment(request.execution, request.workers.all(), session.experiment.arithmetic),
      train::describe_data(session.experiment, samples::Digests::cached),
      request.ending,
      train::contract_of(session.experiment.arithmetic)};
  session.writer = std::make_unique<archive::RunWriter>(archive::RunWriter::create(request.runs, inputs));
  fmt::print(stderr, "run {}\n", session.writer->folder().string());
  if (!session.data.split.empty()) fmt::print(stderr, "{}\n", session.data.split);
  return session;
}

RunSession resume_run(const RunRequest& request) {
  RunSession session;
  const std::filesystem::path& folder = request.resumed;
  const archive::RunSummary summary = archive::summarize(folder);
  const std::string ours = train::contract_of(train::arithmetic_of(summary.contract));
  if (!summary.contract.empty() && !archive::is_stock(summary.contract) && summary.contract != ours) {
    throw UserError(
        folder.string(),
        fmt::format("was recorded under {}, this program computes by {}", archive::printable(summary.contract), ours),
        "resume it with the isobit that started it");
  }
  const auto experiment = folder / "experiment.toml";
  const std::string text = archive::is_there(experiment) ? archive::read_file(experiment) : "";
  if (archive::is_script(text)) {
    throw UserError(folder.string(), "is the record of a Python program",
                    "resume it by running the program again with isobit.record(resume=True)");
  }
  const train::ArithmeticSettings arithmetic = train::asked_arithmetic(text);
  const auto environment = folder / "environment.json";
  if (arithmetic.is_stock()) request.execution.expect_stock();
  if (arithmetic.is_stock() && archive::is_there(environment))
    request.execution.repeat_stock(archive::read_file(environment));
  session.writer = std::make_unique<archive::RunWriter>(archive::RunWriter::resume(
      folder, run_environment(request.execution, request.workers.all(), arithmetic), train::contract_of(arithmetic)));
  session.experiment = train::recorded_experiment(session.writer->experiment(), experiment.string());
  train::expect_data(session.writer->data(), session.experiment,
                     "put the recorded files there: a resumed run keeps its data.path");
  session.data = train::load_data(session.experiment);
  session.trainer = std::make_unique<train::Trainer>(session.experiment, session.data, request.execution.execution());
  if (train::contract_of(session.experiment.arithmetic) != train::contract_of(arithmetic)) {
    throw UserError(experiment.string(), "damaged: it asks for another arithmetic than state.json names",
                    "restore the run's folder from a copy");
  }
  if (session.writer->checkpoint()) train::restore_from(*session.trainer, *session.writer->checkpoint());
  if (session.writer->checkpoint()) {
    fmt::print(stderr, "run {} resumes after step {}\n", folder.string(), session.trainer->steps_done());
  } else {
    fmt::print(stderr, "run {} has no checkpoint yet: it starts again from step 1\n", folder.string());
  }
  return session;
}

}  // namespace

RunSession open_session(const RunRequest& request) {
  return request.resumed.empty() ? begin_run(request) : resume_run(request);
}

}  // namespace isobit::jobs
