// Executes a recorded run again and compares everything that was recorded of it.
//
// Compared: loss bits and batch digest of every step, fingerprints of weights and optimizer, metrics, checkpoints
// (tensors and state), and the final weights. A range a..b starts from the newest recorded checkpoint before step
// a (else from the initial weights) and says nothing of other steps. Timings and environment are not compared.
// Needs the operator switch on. One thread.
#pragma once

#include <atomic>
#include <cstdint>
#include <optional>
#include <string>

#include "archive/run_record.h"
#include "train/execution.h"

namespace isobit::train {

struct Difference {
  std::int64_t step = 0;
  std::string what, recorded, recomputed;
};

struct Verdict {
  std::optional<Difference> difference;  // nothing: identical
  std::int64_t first = 0, last = 0;      // steps compared
  std::string weights;                   // recomputed, of the end: "isobit-0.1:<32 hex>"; "" for a range before it
  bool whole = false;                    // from the initial weights to the end
  bool interrupted = false;              // nothing can be said
};

struct VerifyRequest {
  std::optional<std::int64_t> from, to;  // nothing: the whole run
  std::string data_path;                 // "": as recorded
  Execution execution;
};

// Called after each step.
using VerifyProgress = void (*)(void* context, const StepReport& report, std::int64_t last);

// Throws archive::UserError where it cannot judge: another contract version, data missing or other than recorded,
// a range outside the run, an experiment that cannot be read.
[[nodiscard]] Verdict verify(const archive::RunRecord& record, const VerifyRequest& request,
                             const std::atomic<bool>& stop, VerifyProgress progress = nullptr, void* context = nullptr);

}  // namespace isobit::train
