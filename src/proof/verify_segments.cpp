#include "proof/verify_segments.h"

#include "process/stop_signal.h"
#include "proof/segment_process.h"
#include "proof/side_by_side.h"

namespace isobit::proof {

using train::Verdict;

std::optional<Verdict> verify_segments(const archive::RunRecord& record, const VerifyOptions& options) {
  const auto plan = plan_segments(record, options, "checkpoint.segments in the experiment");
  if (!plan) return {};
  show_segments(*plan);
  const process::StopSignal stop;
  Verdict verdict = run_side_by_side(
      *plan,
      [&](const SegmentCall& call, std::atomic<std::int64_t>& step, const std::atomic<bool>& stopped) {
        return run_segment(record, options, call, step, stopped);
      },
      stop.flag());
  const bool to_end = verdict.last == static_cast<std::int64_t>(record.steps().size());
  verdict.whole = verdict.first == 1 && to_end;
  if (to_end) verdict.not_recomputed = record.missing_digests();
  return verdict;
}

}  // namespace isobit::proof
