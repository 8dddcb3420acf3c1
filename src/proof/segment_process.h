// The process that executes one segment of a recorded run: this program, called as
// `isobit verify FOLDER --from A --to B --segment SEAL --json`.
#pragma once

#include <atomic>
#include <cstdint>
#include <optional>
#include <string>

#include "archive/run_record.h"
#include "proof/side_by_side.h"
#include "proof/verify.h"
#include "train/verdict.h"

namespace isobit::proof {

// Calls it and waits. Its verdict, of just these steps, from that start, of the record with this seal, with each
// checkpoint among them compared; nothing where it was ended because `stop` became true. `step` becomes the step that
// it has reached. UserError: its own, or what it did instead of judging. Thread-safe; the calling thread lives as long.
[[nodiscard]] std::optional<train::Verdict> run_segment(const archive::RunRecord& record, const VerifyOptions& options,
                                                        const SegmentCall& call, std::atomic<std::int64_t>& step,
                                                        const std::atomic<bool>& stop);

}  // namespace isobit::proof
