// A run about to be executed: its experiment, its data, its record; new, or resumed from its newest checkpoint.
#pragma once

#include <memory>
#include <string>

#include "archive/run_writer.h"
#include "jobs/run_request.h"
#include "train/dataset.h"
#include "train/trainer.h"

namespace isobit::jobs {

struct RunSession {
  train::Experiment experiment;
  train::DataSets data;
  std::unique_ptr<train::Trainer> trainer;
  std::unique_ptr<archive::RunWriter> writer;
};

// A new run, or the one that is resumed. Says on stderr which it is. UserError for bad input: nothing is written then.
[[nodiscard]] RunSession open_session(const RunRequest& request);

// What environment.json says of this process, of a run with so many workers (0: none).
[[nodiscard]] std::string run_environment(const train::ExecutionOptions& execution, std::int64_t workers,
                                          const train::ArithmeticSettings& arithmetic);

}  // namespace isobit::jobs
