// A training in several processes of this machine, and others that join, as `isobit run --workers` does it: this
// process makes the record's folder, hosts the job, starts the workers, starts a worker again that died, and shows how
// it goes. It computes nothing and does not write the record. If it dies, its workers end with it; the run can be
// resumed.
#pragma once

#include "jobs/run_request.h"

namespace isobit::jobs {

// Throws archive::UserError for bad input, and for what a worker reports.
RunOutcome run_workers(const RunRequest& request);

}  // namespace isobit::jobs
