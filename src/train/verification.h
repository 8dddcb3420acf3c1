// Executes a recorded run again and compares everything that was recorded of it.
//
// Compared: loss bits and batch digest of every step, fingerprints of weights and optimizer, metrics, checkpoints
// (tensors and state), and the final weights with their SHA-256. The whole run starts from the seed. A range a..b
// starts from the newest recorded checkpoint before step a (else from the seed), which it takes as it is, and says
// nothing of other steps. Timings and environment are not compared (docs/formats/run.md lists what is).
//
// A record of stock PyTorch is repeated by stock PyTorch of the same version, to the end: the first difference, and the
// metrics of both. One thread; the experiment's arithmetic is put into force within (arithmetic.h).
#pragma once

#include <atomic>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "archive/run_record.h"
#include "train/execution.h"
#include "train/verdict.h"

namespace isobit::train {

struct VerifyRequest {
  std::optional<std::int64_t> from, to;  // nothing: the whole run
  std::string data_path;                 // "": as recorded
  Execution execution;
};

// Called after each step.
using VerifyProgress = void (*)(void* context, const StepReport& report, std::int64_t last);

// UserError where the record is not that of its experiment, which is what is executed and shown: a line that isobit
// does not write (comments are anybody's words), another name beside the experiment's own, another number of steps than
// it makes. Records of earlier versions lack keys that came later.
void require_same_run(const archive::RunRecord& record, const Experiment& experiment, std::int64_t steps);

// Throws archive::UserError where it cannot judge: another contract version, data missing or other than recorded,
// a range outside the run, an experiment that cannot be read, stock PyTorch of another version.
[[nodiscard]] Verdict verify(const archive::RunRecord& record, const VerifyRequest& request,
                             const std::atomic<bool>& stop, VerifyProgress progress = nullptr, void* context = nullptr);

}  // namespace isobit::train
