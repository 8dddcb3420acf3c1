// `isobit trace`: steps of a recorded run executed again, every operator written down.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "train/execution_options.h"

namespace isobit::proof {

inline constexpr std::int64_t kMostSamples = 4096;  // kept of one tensor

struct TraceOptions {
  std::string run, runs, steps, out, data, network, values, repository;
  std::vector<std::string> read, limits;
  std::int64_t samples = 0;
  bool statistics = false, json = false, quiet = false, trust = false;
  train::ExecutionOptions execution;
};

// Prints the result. The process's exit code: 0 good, 1 a judged difference or a failed run, 2 cannot be told, 130
// interrupted. Throws archive::UserError for bad input. One at a time.
[[nodiscard]] int run_trace(const TraceOptions& options);

}  // namespace isobit::proof
