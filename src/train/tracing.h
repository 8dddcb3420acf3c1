// Steps of a recorded run executed again under an observer (src/trace): what every operator got and gave.
//
// Starts from the newest kept checkpoint before the window (else from the seed). Each executed step is compared with
// its line of the record; StepEnd::record says whether it agrees. Within the window the run's evaluations are made,
// too, and count to the step that follows. Needs the operator switch as the record's arithmetic has it. One thread.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "archive/run_record.h"
#include "trace/trace_file.h"
#include "train/execution_settings.h"

namespace isobit::train {

struct TraceRequest {
  trace::Window window;
  std::string data_path;  // "": as recorded
  std::string network;    // the TorchScript file, if it moved
  Execution execution;
};

struct TracedStep {
  std::int64_t step = 0, operators = 0;
  std::uint64_t bytes = 0;  // of its lines
  double seconds = 0;
  bool traced = false;  // false: a step before the window
};

struct TraceOutcome {
  std::int64_t start = 0;                  // the checkpoint's step; 0: the seed
  std::optional<std::int64_t> differs_at;  // the first executed step that is not as it was recorded
  bool interrupted = false;                // then the trace is not to be finished
};

// The newest kept checkpoint before this step; nullptr: there is none.
[[nodiscard]] const archive::CheckpointEntry* checkpoint_before(const archive::RunRecord& record, std::int64_t step);

// Does not finish `writer`. Throws archive::UserError where the run cannot be executed again here (another contract,
// other data) or has no such steps. A network in TorchScript is somebody's code, and runs with this process's rights:
// where the record is not trusted, call it in a sandbox (cli/verify_network.cpp).
[[nodiscard]] TraceOutcome trace_steps(const archive::RunRecord& record, const TraceRequest& request,
                                       trace::TraceWriter& writer, const std::atomic<bool>& stop,
                                       const std::function<void(const TracedStep&)>& told = {});

}  // namespace isobit::train
