// How a run was executed, as its environment.json claims: a start for executing it again, never a reason to believe.
// No state; thread-safe.
#pragma once

#include <string>

#include "archive/run_record.h"

namespace isobit::cli {

// "threads", "isa", ...; "" where the record does not say.
[[nodiscard]] std::string recorded_setting(const archive::RunRecord& record, const char* key);
// 0 where the record names no number of threads that could be.
[[nodiscard]] int recorded_threads(const archive::RunRecord& record);

}  // namespace isobit::cli
