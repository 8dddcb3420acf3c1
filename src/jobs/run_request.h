// A run as it was asked for, with everything read that its options name: the experiment, the archive, the record that
// is resumed. What executes it takes values from here and opens no file of the options again. Plain values.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "jobs/run.h"
#include "train/experiment.h"

namespace isobit::jobs {

// Processes that share the steps of one run.
struct WorkersRequest {
  std::int64_t count = 0;     // started on this machine; 0: none
  std::int64_t expected = 0;  // of all machines, for whom the first step waits; 0: those of this machine
  std::string listen, join, key_file;
  std::function<void(const std::string& address)> listening;  // the host's address, once workers can join there
  int silence = 10;                                           // seconds

  [[nodiscard]] std::int64_t all() const { return expected > 0 ? expected : count; }
};

struct RunRequest {
  train::Experiment experiment;   // of a new run, or of a job that this process joins
  std::filesystem::path runs;     // the archive
  std::filesystem::path resumed;  // the record that is resumed; "": a new run
  std::string ending;             // of the new run's id; "": random
  train::ExecutionOptions execution;
  WorkersRequest workers;
  std::vector<std::string> file_words;  // names the experiment to another process: the file, its --set
  bool json = false;
};

// archive::UserError for options that contradict each other, and for what they name.
[[nodiscard]] RunRequest read_request(const RunOptions& options);

}  // namespace isobit::jobs
