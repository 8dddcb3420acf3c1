// Two records of one program, compared bit by bit: the one that is verified, and the one that executing it again left.
// Both may be hostile: they were opened as archive::RunRecord. No state; thread-safe.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "archive/run_record.h"
#include "train/verdict.h"

namespace isobit::cli {

struct Comparison {
  std::optional<train::Difference> difference;  // the first; nothing: all that could be compared is the same
  std::vector<std::string> not_compared;        // as words for people
  std::int64_t checkpoints = 0;                 // so many files were compared
};

// Steps, metrics, evaluations, what ran outside, files of checkpoints, final weights.
[[nodiscard]] Comparison compare_records(const archive::RunRecord& recorded, const archive::RunRecord& recomputed);

// The same as the verdict on the whole run.
[[nodiscard]] train::Verdict verdict_of(const archive::RunRecord& recorded, const archive::RunRecord& recomputed);

}  // namespace isobit::cli
