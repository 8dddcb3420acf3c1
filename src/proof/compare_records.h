// Two records of one program, compared bit by bit: the one that is verified, and the one that executing it again left.
// Both may be hostile: they were opened as archive::RunRecord. No state; thread-safe.
#pragma once

#include <cstdint>

#include "archive/run_record.h"
#include "train/verdict.h"

namespace isobit::proof {

// The verdict on the whole run: steps, metrics, evaluations, what ran outside, files of checkpoints, final weights.
// Files of checkpoints until step `after` need not be there: somebody else compares them.
[[nodiscard]] train::Verdict verdict_of(const archive::RunRecord& recorded, const archive::RunRecord& recomputed,
                                        std::int64_t after = -1);

}  // namespace isobit::proof
