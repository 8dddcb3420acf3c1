#include "proof/segment_process.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <utility>
#include <vector>

#include "archive/json_text.h"
#include "archive/printable.h"
#include "archive/user_error.h"
#include "process/child_process.h"
#include "proof/second_record.h"
#include "proof/verdict_text.h"

namespace isobit::proof {
namespace {

using archive::RunRecord;
using archive::UserError;
using train::Verdict;

std::vector<std::string> words_of(const RunRecord& record, const VerifyOptions& options, const SegmentCall& call) {
  const train::ExecutionOptions& asked = options.execution;
  std::vector<std::string> words = {std::filesystem::read_symlink("/proc/self/exe").string(),
                                    "verify",
                                    std::filesystem::absolute(record.folder()).string(),
                                    "--segment",
                                    record.seal(),
                                    "--from",
                                    std::to_string(call.segment.first),
                                    "--to",
                                    std::to_string(call.segment.last),
                                    "--json",
                                    "--threads",
                                    std::to_string(call.threads)};
  const std::vector<std::string> same = asked.words();
  words.insert(words.end(), same.begin(), same.end());
  if (!options.data.empty()) words.insert(words.end(), {"--data", options.data});
  return words;
}

// A process that says anything else than what it was asked to judge has judged nothing.
void require_asked(const RunRecord& record, const SegmentCall& call, const Verdict& verdict) {
  const train::Segment& segment = call.segment;
  const auto& all = record.checkpoints();
  const auto expected = std::count_if(all.begin(), all.end(), [&](const archive::CheckpointEntry& entry) {
    return entry.step >= segment.first && entry.step <= segment.last;
  });
  const bool same_steps = verdict.first == segment.first && verdict.last == segment.last && verdict.start == call.start;
  if (same_steps && (verdict.difference || verdict.checkpoints == expected)) return;
  throw UserError("steps " + name_of(segment), "their process judged something else",
                  "verify the run without --workers");
}

// Of a process that has ended.
Verdict segment_verdict(const RunRecord& record, const SegmentCall& call, const process::ChildResult& result) {
  std::optional<Verdict> verdict;
  std::string message;
  try {
    const archive::Json object = archive::parse_json(result.output);
    verdict = verdict_of_json(object);
    message = object.at("message");
  } catch (const std::exception&) {  // below
  }
  if (verdict && result.code == (verdict->difference ? 1 : 0)) {
    require_asked(record, call, *verdict);
    return *std::move(verdict);
  }
  if (result.code == 2 && !verdict && !message.empty()) throw UserError("", message, "");
  throw UserError("steps " + name_of(call.segment),
                  fmt::format("nothing can be said: their process {}{}", result.how_it_ended(),
                              result.err.empty() ? "" : "; " + archive::printable_lines(result.err)),
                  "verify the run again, with fewer --workers where memory is short");
}

}  // namespace

std::optional<Verdict> run_segment(const RunRecord& record, const VerifyOptions& options, const SegmentCall& call,
                                   std::atomic<std::int64_t>& step, const std::atomic<bool>& stop) {
  process::ChildRequest request;
  request.words = words_of(record, options, call);
  request.keep = std::size_t{16} << 20;
  request.stop = &stop;
  Reports reports("/", 0);  // steps alone
  request.report = [&](std::string_view bytes) {
    if (!reports.hear(bytes)) return false;
    step = std::clamp(reports.step(), call.start, call.segment.last);
    return true;
  };
  const process::ChildResult result = process::run_child(request);
  if (result.interrupted) return {};
  return segment_verdict(record, call, result);
}

}  // namespace isobit::proof
