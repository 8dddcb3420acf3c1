// How long a step of an experiment takes, by the records of an archive. Reads files; thread-safe.
#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include "slurm/job_request.h"

namespace isobit::slurm {

// Of the newest run whose experiment differs from this one (resolved, as a record has it) in no more than name, seed
// and length; nothing where no record of the newest hundred tells. Machines differ: an estimate. Never fails for a bad
// record.
[[nodiscard]] std::optional<StepTime> recorded_step_time(const std::filesystem::path& runs,
                                                         const std::string& experiment);

}  // namespace isobit::slurm
