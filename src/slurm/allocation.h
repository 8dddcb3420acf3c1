// What a process knows of the Slurm job that it is a task of, from its environment alone: no program is called, no file
// read.
//
//   if (const auto task = slurm::allocation()) ...      // inside a job: under `srun`, or in a batch script itself
//
// In a step (`srun PROGRAM`) every task gets the same `job`, `restarts`, `step`, `tasks`, `nodes`, `first_node` and
// `host`, and `task` counts 0 .. tasks-1; task 0 runs on first_node. In a batch script or an `salloc` shell, outside of
// any srun, `in_step` is false and the process is the only task: tasks 1, task 0, alone on its node.
//
// A heterogeneous job (groups of nodes of different kinds) is one allocation here: `srun --het-group=0,1`. A task's
// share of what its node gave the job (CPUs, memory, GPUs) is its own where Slurm says so (--cpus-per-task,
// --gpus-per-task,
// --mem-per-cpu), and else an even part: what the parts do not divide, the tasks with the lower `local_task` get. With
// fewer GPUs than tasks, tasks share: task i gets GPU i modulo their number.
//
// Nothing where there is no job. UserError naming the variable where one is missing or contradicts another: a worker
// that took a wrong rank or node would compute another's part. Thread-safe while the environment is not changed.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace isobit::slurm {

struct Allocation {
  std::string cluster;        // its name; "" where Slurm does not say
  std::string job;            // "1234", or "1230_4" for the task of an array: the same through all restarts
  std::int64_t restarts = 0;  // how often the job was started again (requeued)
  bool in_step = false;       // started by srun
  std::int64_t step = 0;      // of the job, from 0
  std::int64_t task = 0;      // of `tasks`, from 0: the rank
  std::int64_t tasks = 1;
  std::int64_t local_task = 0;  // of `local_tasks` on this node, from 0
  std::int64_t local_tasks = 1;
  std::vector<std::string> nodes;  // of the step, or of the job outside of one; each once, task 0's node first
  std::string node, first_node;    // this task's, task 0's: Slurm's names, which need not be those of the network
  // What other nodes may reach task 0 at: $ISOBIT_JOB_HOST where somebody set it, else first_node, as far as the
  // network knows nodes by Slurm's names.
  std::string host;
  // Numerical address of the machine where srun was called: the first node's in a batch job, the login node's under
  // salloc; "" where Slurm does not say.
  std::string launcher;
  std::int64_t cpus = 1;          // of this task, at least 1: the threads that are worth starting
  std::int64_t memory = 0;        // of this task in bytes; 0: Slurm sets no limit
  std::vector<std::string> gpus;  // of this task, words for CUDA_VISIBLE_DEVICES: "0", or "GPU-<uuid>"
};

// The value of a variable, nothing where it is not set.
using Environment = std::function<std::optional<std::string>(const std::string& name)>;

// This process's environment.
[[nodiscard]] std::optional<Allocation> allocation();
[[nodiscard]] std::optional<Allocation> allocation(const Environment& environment);

// A name for the job's run that its restarts find again (isobit run --once): cluster and job.
[[nodiscard]] std::string run_name_of(const Allocation& allocation);

}  // namespace isobit::slurm
