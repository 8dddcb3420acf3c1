// One of the workers of a job, as `isobit run --join` does it (docs/design/workers.md).
#pragma once

#include <string>

#include "jobs/run_request.h"
#include "train/experiment.h"

namespace isobit::jobs {

// What all workers of a job have in common, as lines for people: program, contract, experiment, data.
[[nodiscard]] std::string job_identity(const train::Experiment& experiment, const std::string& data_description);

// UserError where a step has nothing to share.
void require_grains(const train::Experiment& experiment);

// Set for the workers that `isobit run --workers` starts: it says itself what went wrong.
inline constexpr const char* kSpawnedVariable = "ISOBIT_SPAWNED_WORKER";

// Throws archive::UserError for bad input, and where the job refuses this worker.
RunOutcome run_worker(const RunRequest& request);

}  // namespace isobit::jobs
