// Slurm's programs, called for `isobit submit` and `isobit queue`.
//
// They get this process's environment without what would change a job behind its script's back: the key of a job
// (Slurm keeps a job's environment in its own files), variables of a job that this process itself runs in, and options
// of sbatch given as variables, but for those that say who pays. One at a time.
#pragma once

#include <string>

#include "slurm/cluster.h"

namespace isobit::slurm {

// Whether this machine has them.
[[nodiscard]] bool has_slurm();

// UserError where there is no such program, it does not answer within a minute, or it fails, with what it says.
[[nodiscard]] std::string call_slurm(const std::vector<std::string>& words);

// This process's environment as they get it.
[[nodiscard]] std::vector<std::string> environment_for_slurm();

}  // namespace isobit::slurm
