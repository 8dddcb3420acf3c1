// `isobit verify --workers N`: a recorded run executed again in segments side by side (train/segments.h), each by a
// process of this program that verifies steps a..b of the record; what they say is made one verdict here.
#pragma once

#include <optional>

#include "archive/run_record.h"
#include "proof/verify.h"
#include "train/verdict.h"

namespace isobit::proof {

// The verdict is that of one process: the first difference in the order of the steps, the same errors. Nothing: one
// process does it (one worker asked for, no checkpoint between the steps, a range outside the run). On stderr: which
// segments there are, and why there are fewer than workers. A segment's process that ends without a verdict of just
// this record and these steps is a UserError; where a signal asks to stop, all are ended, and the verdict says so.
[[nodiscard]] std::optional<train::Verdict> verify_segments(const archive::RunRecord& record,
                                                            const VerifyOptions& options);

}  // namespace isobit::proof
