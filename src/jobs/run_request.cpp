#include "jobs/run_request.h"

#include <cstdlib>

#include "archive/files.h"
#include "archive/runs.h"
#include "archive/user_error.h"
#include "jobs/run_once.h"
#include "jobs/run_worker.h"

namespace isobit::jobs {
namespace {

using archive::UserError;

void expect_sound(const RunOptions& options) {
  if (!options.join.empty() && options.file.empty())
    throw UserError("--join", "the experiment is not named", "isobit run FILE.toml --join HOST:PORT");
  if (options.file.empty() == options.resume.empty()) {
    throw UserError("run", options.file.empty() ? "no experiment given" : "both an experiment and --resume given",
                    "name either a TOML file or --resume RUN");
  }
  if (options.file.ends_with(".py")) {
    throw UserError(options.file, "is a Python script, and isobit run takes an experiment's TOML file",
                    "run it with python; isobit.record in it makes the record (docs/python.md)");
  }
  if (!options.resume.empty() && !options.overrides.empty()) {
    throw UserError("--set", "a resumed run keeps its experiment", "leave --set out, or start a new run");
  }
  if (!options.resume.empty() && (!options.once.empty() || options.dry_run)) {
    throw UserError(options.dry_run ? "--dry-run" : "--once", "is for an experiment, not for a run that is resumed",
                    "leave --resume out");
  }
  if (options.finished && options.once.empty())
    throw UserError("--finished", "asks for the run of a name", "name it with --once NAME");
  if (!options.join.empty() && options.workers > 0)
    throw UserError("--join", "goes without --workers", "leave one of them out");
}

// A worker that `isobit run --workers` started is given the record's own text.
train::Experiment read_experiment(const RunOptions& options) {
  if (std::getenv(kSpawnedVariable) != nullptr && !options.join.empty())
    return train::recorded_experiment(archive::read_file(options.file), options.file);
  return train::load_experiment(options.file, options.overrides);
}

}  // namespace

RunRequest read_request(const RunOptions& options) {
  expect_sound(options);
  RunRequest request;
  request.runs = archive::runs_folder(options.runs);
  request.execution = options.execution;
  request.json = options.json;
  request.workers = {options.workers, 0, options.listen, options.join, options.key_file, {}, options.silence};
  if (!options.resume.empty()) {
    request.resumed = archive::find_run(request.runs, options.resume);
    return request;
  }
  request.experiment = read_experiment(options);
  request.file_words = {options.file};
  for (const std::string& setting : options.overrides)
    request.file_words.insert(request.file_words.end(), {"--set", setting});
  if (options.once.empty()) return request;
  request.ending = archive::ending_of(options.once);
  if (const auto run = find_run_once(request.runs, options.once, request.experiment)) request.resumed = *run;
  return request;
}

}  // namespace isobit::jobs
