// Two records of one program, compared bit by bit: the one that is verified, and the one that executing it again left.
// Both may be hostile: they were opened as archive::RunRecord. No state; thread-safe.
#pragma once

#include "archive/run_record.h"
#include "train/verdict.h"

namespace isobit::cli {

// The verdict on the whole run: steps, metrics, evaluations, what ran outside, files of checkpoints, final weights.
[[nodiscard]] train::Verdict verdict_of(const archive::RunRecord& recorded, const archive::RunRecord& recomputed);

}  // namespace isobit::cli
