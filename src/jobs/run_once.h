// isobit run --once NAME: a run that is begun once and resumed afterwards, however often the command is called. For
// jobs that a scheduler starts again: the name is the job's. One thread.
#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include "train/experiment.h"

namespace isobit::jobs {

// The run of that name in the archive; nothing if there is none yet. UserError where the run found there is one of
// another experiment.
[[nodiscard]] std::optional<std::filesystem::path> find_run_once(const std::filesystem::path& runs,
                                                                 const std::string& name,
                                                                 const train::Experiment& experiment);

}  // namespace isobit::jobs
