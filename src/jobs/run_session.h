// A run about to be executed: its experiment, its data, its record; new, or resumed from its newest checkpoint.
#pragma once

#include <memory>
#include <string>

#include "archive/run_writer.h"
#include "jobs/run.h"
#include "train/dataset.h"
#include "train/trainer.h"

namespace isobit::jobs {

struct RunSession {
  train::Experiment experiment;
  train::DataSets data;
  std::unique_ptr<train::Trainer> trainer;
  std::unique_ptr<archive::RunWriter> writer;
};

// Says on stderr which run it is. UserError for bad input: nothing is written then.
[[nodiscard]] RunSession begin_run(const RunOptions& options);
[[nodiscard]] RunSession resume_run(const RunOptions& options);

// What environment.json says of this process.
[[nodiscard]] std::string run_environment(const RunOptions& options, const train::ArithmeticSettings& arithmetic = {});

}  // namespace isobit::jobs
