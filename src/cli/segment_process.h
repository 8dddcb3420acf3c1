// The process that executes one segment of a recorded run: this program, called as
// `isobit verify FOLDER --from A --to B --segment SEAL --json`.
#pragma once

#include <atomic>
#include <cstdint>
#include <optional>
#include <string>

#include "archive/run_record.h"
#include "cli/verify.h"
#include "train/segments.h"
#include "train/verdict.h"

namespace isobit::cli {

struct SegmentCall {
  train::Segment segment;
  std::int64_t start = 0;  // the recorded checkpoint that it starts from; 0: the seed
  int threads = 1;
};

// "235..469"
[[nodiscard]] std::string name_of(const train::Segment& segment);

// Calls it and waits. Its verdict, of just these steps, from that start, of the record with this seal, with each
// checkpoint among them compared; nothing where it was ended because `stop` became true. `step` becomes the step that
// it has reached. UserError: its own, or what it did instead of judging. Thread-safe; the calling thread lives as long.
[[nodiscard]] std::optional<train::Verdict> run_segment(const archive::RunRecord& record, const VerifyOptions& options,
                                                        const SegmentCall& call, std::atomic<std::int64_t>& step,
                                                        const std::atomic<bool>& stop);

}  // namespace isobit::cli
