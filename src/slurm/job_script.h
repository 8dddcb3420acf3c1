// The batch script of a job: what `isobit submit` hides, in a form that a person can read, change and submit by hand.
//
// The script's first shell runs on the job's first node. It starts `isobit run` by srun once per worker, and makes the
// job safe to requeue: the run has a name of its own (`run --once`) by which a restart finds the record and resumes it;
// before the time limit Slurm signals the shell, the workers stop after their step with a checkpoint, and the job goes
// back into the queue. The job's key is in a file that only the user can read, and in no variable: Slurm keeps a job's
// variables in its own files, and sends those of a step over the network. No state; thread-safe.
#pragma once

#include <string>
#include <vector>

#include "slurm/job_request.h"

namespace isobit::slurm {

struct Container {
  std::string image;   // absolute path; "": none
  std::string sha256;  // of the file
  std::string runner;  // the program that enters it: apptainer
};

struct JobScript {
  JobRequest request;
  std::int64_t notice = 120;           // seconds before the time limit
  std::string program;                 // isobit, absolute; inside a container its name there
  std::string working_folder;          // where relative paths of the experiment begin
  std::string runs;                    // the archive, absolute
  std::string folder;                  // of this job, absolute: experiment.toml, key, logs
  std::string token;                   // tells this submission from all others
  std::vector<std::string> arguments;  // of isobit run, after its file: --set ..., --device ...
  // Of each run of an array, where it has its own: further words, and the name (--once) by which it is found again.
  std::vector<std::vector<std::string>> array_words;
  std::vector<std::string> array_names;
  Container container;
};

// UserError where a path holds what Slurm would take for a pattern or a quote.
[[nodiscard]] std::string write_script(const JobScript& job);

// One word for a POSIX shell.
[[nodiscard]] std::string quoted(const std::string& word);

}  // namespace isobit::slurm
