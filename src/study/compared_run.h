// What a comparison reads of a run's record, finished or not.
//
// A finished record is proven first (archive/run_record.h). Of an unfinished one the sound beginnings of its logs are
// read as they stand, and nothing proves them: `finished` says which it is. UserError where the folder is no run, or
// its record is damaged. Plain values.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "archive/checkpoint.h"
#include "archive/record_types.h"

namespace isobit::study {

struct ComparedRun {
  std::filesystem::path folder;
  std::string shown;  // as the user named it
  archive::RunSummary summary;
  bool finished = false, is_script = false;
  std::string experiment, environment, data;   // TOML, JSON, JSON
  std::map<std::string, std::string> sources;  // of a Python program, by file
  std::string patch;                           // its uncommitted changes
  std::vector<archive::StepLine> steps;
  std::vector<archive::MetricsLine> metrics;
  std::vector<archive::CheckpointEntry> checkpoints;       // whose files are kept
  std::map<std::int64_t, std::string> checkpoint_weights;  // SHA-256 by step, of deleted ones too
};

[[nodiscard]] ComparedRun read_run(const std::filesystem::path& folder, const std::string& shown);

}  // namespace isobit::study
