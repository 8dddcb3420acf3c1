// A training by an experiment file, recorded, as `isobit run` does it.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "train/execution_options.h"

namespace isobit::jobs {

struct RunOptions {
  std::string file, resume, runs;
  std::string once;       // the run's name: begun where there is none of it, else resumed
  bool finished = false;  // only asks whether the run of that name is finished
  bool dry_run = false;   // reads and prints the experiment, and does nothing else
  std::vector<std::string> overrides;
  bool json = false;
  std::int64_t workers = 0;  // 0: this process alone
  std::string listen, join, key_file;
  int silence = 10;  // seconds
  train::ExecutionOptions execution;
};

struct RunOutcome {
  int code = 0;  // the process's: 0 finished, 1 failed, 130 interrupted
  std::filesystem::path folder;
  std::string weights;  // of a finished run, "isobit-0.1:<32 hex>"
};

// Prints what `isobit run` prints. Throws archive::UserError for bad input.
RunOutcome run(const RunOptions& options);

}  // namespace isobit::jobs
