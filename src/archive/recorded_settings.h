// How a run was executed, as its environment.json claims: a start for executing it again, never a reason to believe.
// No state; thread-safe.
#pragma once

#include <string>

namespace isobit::archive {

// "threads", "isa", ...; "" where the environment.json does not say.
[[nodiscard]] std::string recorded_setting(const std::string& environment, const char* key);
// 0 where it names no number of threads that could be.
[[nodiscard]] int recorded_threads(const std::string& environment);

}  // namespace isobit::archive
