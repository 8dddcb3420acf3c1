#include "study/compared_run.h"

#include <nlohmann/json.hpp>

#include "archive/files.h"
#include "archive/json_text.h"
#include "archive/log_lines.h"
#include "archive/record_file.h"
#include "archive/run_export.h"
#include "archive/run_record.h"
#include "archive/runs.h"
#include "archive/user_error.h"

namespace isobit::study {
namespace {

namespace fs = std::filesystem;
using archive::UserError;

std::string text_of(const fs::path& path) { return archive::is_there(path) ? archive::read_record_file(path) : ""; }

std::map<std::string, std::string> sources_of(const fs::path& folder) {
  const fs::path path = folder / archive::kSourcesFile;
  if (!archive::is_there(path)) return {};
  try {
    return archive::parse_json(archive::read_record_file(path)).at("files").get<std::map<std::string, std::string>>();
  } catch (const nlohmann::json::exception&) {
    throw UserError(path.string(), "is damaged", "restore the run's folder from a copy");
  }
}

void take_finished(ComparedRun& run) {
  const auto record = archive::RunRecord::open(run.folder);
  run.summary = record.summary();
  run.experiment = record.experiment();
  run.environment = record.environment();
  run.data = record.data();
  run.steps = record.steps();
  run.metrics = record.metrics();
  run.checkpoints = record.checkpoints();
  run.checkpoint_weights = record.checkpoint_weights();
}

void take_unfinished(ComparedRun& run) {
  run.experiment = text_of(run.folder / "experiment.toml");
  run.environment = text_of(run.folder / "environment.json");
  run.data = text_of(run.folder / "data.json");
  run.steps = archive::parse_unfinished_log<archive::StepLine>(text_of(run.folder / archive::kStepsLog));
  run.metrics = archive::parse_unfinished_log<archive::MetricsLine>(text_of(run.folder / archive::kMetricsLog));
  for (const auto& line :
       archive::parse_unfinished_log<archive::CheckpointLine>(text_of(run.folder / archive::kCheckpointsLog)))
    run.checkpoint_weights[line.entry.step] = line.entry.weights_sha256;
}

}  // namespace

ComparedRun read_run(const fs::path& folder, const std::string& shown) {
  ComparedRun run;
  run.folder = folder;
  run.shown = shown;
  run.summary = archive::summarize(folder);
  run.finished = run.summary.state == archive::RunState::finished;
  if (run.finished || run.summary.state == archive::RunState::damaged) {
    take_finished(run);  // which says what is damaged
  } else {
    take_unfinished(run);
  }
  run.sources = sources_of(folder);
  run.is_script = !run.sources.empty();
  run.patch = text_of(folder / archive::kPatchFile);
  return run;
}

}  // namespace isobit::study
