// `isobit queue`: jobs under Slurm, and what of the cluster is free, as text or JSON.
#pragma once

namespace isobit::slurm {

struct QueueOptions {
  bool all = false, json = false;
};

// Prints the result. The process's exit code: 0 good, 1 a judged difference or a failed run, 2 cannot be told, 130
// interrupted. Throws archive::UserError for bad input. One at a time.
[[nodiscard]] int run_queue(const QueueOptions& options);

}  // namespace isobit::slurm
