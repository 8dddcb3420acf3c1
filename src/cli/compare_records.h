// Two records of one program, compared bit by bit: the one that is verified, and the one that executing it again left.
// No state; thread-safe.
#pragma once

#include <optional>

#include "archive/run_record.h"
#include "train/verification.h"

namespace isobit::cli {

// The first difference in the order of the steps; nothing: all that is recorded was recomputed.
[[nodiscard]] std::optional<train::Difference> first_difference(const archive::RunRecord& recorded,
                                                                const archive::RunRecord& recomputed);

}  // namespace isobit::cli
