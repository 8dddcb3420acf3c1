// isobit drift: how runs of one experiment part, layer by layer and step by step.
#include <fmt/format.h>

#include <memory>

#include "archive/runs.h"
#include "archive/user_error.h"
#include "cli/command.h"
#include "study/drift.h"

namespace isobit::cli {
namespace {

struct DriftOptions {
  std::vector<std::string> names;
  std::string runs;
  bool json = false;
};

int run_drift(const DriftOptions& options) {
  if (options.names.size() < 2)
    throw archive::UserError("drift", "compares runs with the first, and only one is named", "name two runs or more");
  const auto folder = archive::runs_folder(options.runs);
  std::vector<archive::RunRecord> records;
  for (const std::string& name : options.names)
    records.push_back(archive::RunRecord::open(archive::find_run(folder, name)));
  const study::Drift drift = study::measure_drift(records);
  fmt::print("{}", options.json ? study::drift_json(drift, records) : study::drift_text(drift, records));
  return 0;
}

Action declare_drift(OptionSet& app) {
  auto options = std::make_shared<DriftOptions>();
  app.add("run", options->names, "Runs: the others are compared with the first").type("RUN RUN...").required();
  app.add("--runs", options->runs, "The archive: a folder of runs (default: $ISOBIT_RUNS, else runs)").type("DIR");
  app.flag("--json", options->json, "One object: steps, layers, cells, per_step (docs/formats/study.md)");
  return [options] { return run_drift(*options); };
}

const CommandRegistration drift_command({.name = "drift",
                                         .summary = "How runs part: distances of weights, losses and predictions",
                                         .example = "isobit drift RUN1 RUN2 --json",
                                         .group = Group::prove,
                                         .rank = 45,
                                         .declare = declare_drift});

}  // namespace
}  // namespace isobit::cli
