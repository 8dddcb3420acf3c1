// A study's list of runs against the records that it names. cells.json lies beside the records and says what they say:
// whoever sends a folder can write anything into it. Thread-safe; no state.
#pragma once

#include <filesystem>
#include <vector>

#include "report/inputs.h"
#include "report/run_entry.h"

namespace isobit::report {

// Gives each cell "standing": "record" where a finished, sound record has its value, else "claimed". UserError naming
// the cell where its record has another value or is of other settings.
void check_study(Study& study, const std::vector<RunEntry>& runs, const std::filesystem::path& folder);

}  // namespace isobit::report
