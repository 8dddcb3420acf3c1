// What a run that ended early left behind, proven and cut back to its newest sound checkpoint: the first half
// of resuming (docs/formats/run.md). The caller holds the run's lock. Errors are UserError naming the file.
#pragma once

#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "archive/log_lines.h"
#include "archive/run_state.h"
#include "archive/sha256.h"

namespace isobit::archive {

struct UnfinishedRun {
  StateFile state;
  std::map<std::string, std::string> inputs;  // contents by file name
  std::vector<CheckpointLine> checkpoints;    // the sound ones and those before, oldest first
  std::map<std::string, Sha256> hashes;       // of each log as it is now, by file name
  std::vector<StepLine> cut_off;              // steps that were recorded after the newest checkpoint
};

// `logs`: those of the run beside checkpoints.jsonl, steps.jsonl among them.
[[nodiscard]] UnfinishedRun cut_back(const std::filesystem::path& folder, const std::vector<const char*>& logs);

}  // namespace isobit::archive
