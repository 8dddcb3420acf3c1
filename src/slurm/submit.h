// `isobit submit`: an experiment checked, compared with the cluster, and submitted as a job of Slurm.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace isobit::slurm {

struct SubmitOptions {
  std::string file, runs, name, gpus, time, partition, memory, container, device;
  std::int64_t nodes = 1, workers = 0, cpus = 0, at_once = 0;
  std::vector<std::string> overrides, array;
  bool dry_run = false, json = false;
};

// Prints the result. The process's exit code: 0 good, 1 a judged difference or a failed run, 2 cannot be told, 130
// interrupted. Throws archive::UserError for bad input. One at a time.
[[nodiscard]] int run_submit(const SubmitOptions& options);

}  // namespace isobit::slurm
