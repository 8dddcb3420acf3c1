// `isobit verify --workers N` of a Python program: segments of the run side by side, each in a sandbox of its own.
//
// The first one starts the program anew; each other one gives it a record that ends with a recorded checkpoint, which
// the program resumes (isobit.record, run.load); each but the last ends at the checkpoint that the next one starts
// from. What was written until there must be the record's, byte for byte: each checkpoint, what the logs were, the
// weights. So a program that is started anew and killed after those checkpoints leaves this record
// (docs/formats/run.md, "Verification in segments"). What it has beside its checkpoints may make it differ: then one
// process decides.
#pragma once

#include <optional>
#include <string>

#include "archive/run_record.h"
#include "proof/verify.h"
#include "proof/verify_script.h"

namespace isobit::proof {

// As verify_script, where all segments are identical, or it was interrupted. Nothing: one process has to judge, and
// stderr says why (no checkpoint between the steps, a job of several processes, --trust, a segment that came to
// anything else or failed). UserError where no process could judge.
[[nodiscard]] std::optional<ScriptVerdict> verify_script_segments(const archive::RunRecord& record,
                                                                  const VerifyOptions& options,
                                                                  const std::string& named, std::string& printed);

}  // namespace isobit::proof
