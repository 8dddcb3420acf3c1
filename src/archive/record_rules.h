// What a sealed record has to be beside unaltered: whoever can write the folder can also seal it anew, so the parts
// must agree with each other, every line must stand where a run can put one, and no file may be there that no part
// names (docs/formats/run.md, "What a reader refuses"). Thread-safe; no state.
#pragma once

#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "archive/log_lines.h"
#include "archive/manifest.h"
#include "archive/record_types.h"
#include "archive/run_state.h"

namespace isobit::archive {

struct SealedParts {
  std::filesystem::path folder;  // for messages
  Manifest manifest;
  StateFile state;
  const std::map<std::string, std::string>* contents = nullptr;  // all files but checkpoints
  bool script = false;
  std::vector<StepLine> steps;
  std::vector<MetricsLine> metrics;
  std::optional<std::vector<EvaluationLine>> evaluations;
  std::optional<std::vector<OutsideLine>> outside;
  std::optional<std::vector<PredictionsLine>> predictions;
  std::vector<TimingLine> timings;
  std::vector<CheckpointLine> checkpoints;
};

// UserError "damaged: ..." naming file, line and rule.
void require_rules(const SealedParts& parts);

}  // namespace isobit::archive
