// The experiment of a job, checked before the job is submitted: what is wrong with it is said now, not when the job has
// waited for a night. One thread.
#pragma once

#include <string>
#include <vector>

namespace isobit::slurm {

struct SubmittedExperiment {
  std::string text;      // the file as it is
  std::string resolved;  // with every key, as a record has it; "" where PyTorch is not here to tell
};

// `isobit run --dry-run` (of `program`; "": this one) checks it in a process of its own, with each list of overrides;
// where PyTorch does not load here (a login node), only whether the file is TOML is checked. UserError as `isobit run`
// has it.
[[nodiscard]] SubmittedExperiment check_experiment(const std::string& file, const std::vector<std::string>& overrides,
                                                   const std::vector<std::vector<std::string>>& array,
                                                   const std::string& program = "");

}  // namespace isobit::slurm
