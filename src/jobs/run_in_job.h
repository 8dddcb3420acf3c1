// `srun isobit run FILE` with several tasks: all of them train one experiment together, as `isobit run --workers` does
// on one machine. Task 0 hosts the job and computes, too; the others find its address in a file of the archive, whose
// name follows from job, step and restart, and join. Who has not the job's key cannot join, whatever the file says.
#pragma once

#include "jobs/run_request.h"
#include "slurm/allocation.h"

namespace isobit::jobs {

// Threads and GPUs as Slurm gave them to this task, where the user asked for no other; before any device is used.
void take_share(train::ExecutionOptions& execution, const slurm::Allocation& task);

// Throws archive::UserError for bad input, where the archive is not shared, and where task 0 does not appear.
RunOutcome run_in_job(RunRequest request, const slurm::Allocation& task);

}  // namespace isobit::jobs
