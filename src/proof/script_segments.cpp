#include "proof/script_segments.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>
#include <span>
#include <utility>
#include <vector>

#include "archive/checked_files.h"
#include "archive/files.h"
#include "archive/log_lines.h"
#include "archive/output_file.h"
#include "archive/printable.h"
#include "archive/run_state.h"
#include "archive/sha256.h"
#include "archive/user_error.h"
#include "process/child_process.h"
#include "process/stop_signal.h"
#include "proof/compare_records.h"
#include "proof/sandbox.h"
#include "proof/script_program.h"
#include "proof/second_record.h"
#include "proof/side_by_side.h"

namespace isobit::proof {
namespace {

namespace fs = std::filesystem;
using archive::CheckpointLine;
using archive::RunRecord;
using archive::UserError;
using train::Verdict;

// The lines of checkpoints.jsonl that a run has written once it goes on after this step.
std::vector<CheckpointLine> lines_until(std::vector<CheckpointLine> lines, std::int64_t step) {
  std::erase_if(lines, [&](const CheckpointLine& line) { return line.entry.step > step; });
  if (lines.empty() || lines.back().entry.step != step)
    throw UserError(archive::kCheckpointsLog, fmt::format("has no checkpoint of step {}", step), "");
  return lines;
}

std::vector<CheckpointLine> recorded_lines(const archive::CheckedFiles& files) {
  return archive::parse_log<CheckpointLine>(files.read(archive::kCheckpointsLog), archive::kCheckpointsLog);
}

// The record as it was after the checkpoint of `step`, running: a program resumes it. Of checkpoints it has that one.
void write_start(const RunRecord& record, std::int64_t step, const fs::path& start) {
  const archive::CheckedFiles files(record);
  const std::vector<CheckpointLine> lines = lines_until(recorded_lines(files), step);
  archive::make_folders(start / archive::kCheckpointFolder);
  archive::StateFile state = archive::parse_state(files.read(archive::kStateFile), archive::kStateFile);
  for (const auto& [name, digest] : state.inputs) archive::write_file(start / name, files.read(name));
  for (const auto& [log, digest] : lines.back().logs)
    archive::write_file(start / log, files.read(log).substr(0, digest.size));
  std::string checkpoints;
  for (const CheckpointLine& line : lines) checkpoints += format_line(line);
  archive::write_file(start / archive::kCheckpointsLog, checkpoints);
  files.copy(lines.back().entry.file, start / lines.back().entry.file);
  state.state = "running";
  state.steps = step;
  state.weights = state.weights_sha256 = state.reason = "";
  archive::write_file(start / archive::kStateFile, format_state(state));
}

bool are_equal(const CheckpointLine& a, const CheckpointLine& b) { return format_line(a) == format_line(b); }

// Whether what a segment left is what its lines say: they were written by the program that is judged.
bool holds(const fs::path& left, const CheckpointLine& line) {
  const auto is = [&](const std::string& name, std::uint64_t size, const std::string& sha256) {
    const archive::FileDigest found = archive::digest_file(left / name);
    return found.size == size && found.sha256 == sha256;
  };
  return is(line.entry.file, line.entry.size, line.entry.sha256) &&
         std::all_of(line.logs.begin(), line.logs.end(),
                     [&](const auto& log) { return is(log.first, log.second.size, log.second.sha256); });
}

// A segment that ended at the checkpoint of `step`, compared with the record up to there.
std::optional<train::Difference> different_until(const RunRecord& record, const fs::path& left, std::int64_t step) {
  const std::vector<CheckpointLine> recorded = lines_until(recorded_lines(archive::CheckedFiles(record)), step);
  const auto now = archive::parse_unfinished_log<CheckpointLine>(archive::read_file(left / archive::kCheckpointsLog));
  for (std::size_t i = 0; i < recorded.size(); ++i) {
    const std::int64_t at = recorded[i].entry.step;
    if (i >= now.size()) return train::Difference{at, "checkpoint", "present", "nothing"};
    if (!are_equal(recorded[i], now[i])) return train::Difference{at, "what was written until its checkpoint", "", ""};
  }
  if (now.size() > recorded.size()) return train::Difference{step, "checkpoint", "nothing", "present"};
  if (!holds(left, recorded.back())) return train::Difference{step, "what was written until its checkpoint", "", ""};
  return {};
}

// What all segments have in common.
struct Program {
  const RunRecord& record;
  const VerifyOptions& options;
  const ScriptPlan plan;
  const std::string isa;
  const SandboxLimits limits;  // of each
  const fs::path folder;       // that it was written to
};

Verdict verdict_on(const SegmentCall& call) {
  Verdict verdict;
  verdict.first = call.segment.first;
  verdict.last = call.segment.last;
  verdict.start = call.start;
  return verdict;
}

std::optional<Verdict> run_segment_of(const Program& program, const SegmentCall& call, std::string& printed,
                                      std::atomic<std::int64_t>& step, const std::atomic<bool>& stop) {
  const RunRecord& record = program.record;
  const auto steps = static_cast<std::int64_t>(record.steps().size());
  const bool is_last = call.segment.last == steps;
  const archive::TemporaryFolder work;
  const ProgramPart part{call.start == 0 ? fs::path() : work.path() / "start", record.summary().id,
                         is_last ? 0 : call.segment.last};
  if (!part.start.empty()) write_start(record, call.start, part.start);
  const ScriptPlace place{archive::printable(program.plan.file), program.plan.beside, true};
  const Again again{steps, place, program.limits, work.path(), stop, false, &step};
  process::ChildRequest child = program_child(record, program.options, program.plan, {call.threads, program.isa},
                                              program.limits, {program.folder, work.path()}, {nullptr, &part});
  Verdict verdict = verdict_on(call);
  if (!is_last) {
    const auto left = run_part(again, std::move(child), printed);
    if (!left) return {};
    verdict.difference = different_until(record, *left, call.segment.last);
    ++verdict.checkpoints;
    return verdict;
  }
  const auto second = run_again(again, std::move(child), printed);
  if (!second) return {};
  const Verdict whole = verdict_of(record, *second, call.start);
  verdict.difference = whole.difference;
  verdict.checkpoints = whole.checkpoints;
  verdict.weights = whole.weights;
  verdict.weights_sha256 = whole.weights_sha256;
  verdict.outside = whole.outside;
  verdict.not_recomputed = whole.not_recomputed;
  return verdict;
}

// What was not said is shared out.
SandboxLimits shared_limits(const std::vector<std::string>& words, std::size_t count) {
  SandboxLimits limits = sandbox_limits(words);
  const auto said = [&](std::string_view name) {
    return std::any_of(words.begin(), words.end(), [&](const std::string& word) { return word.starts_with(name); });
  };
  if (!said("memory=")) limits.memory /= count;
  if (!said("disk=")) limits.disk /= count;
  return limits;
}

void tell_one_process(const std::string& named, const std::string& why) {
  fmt::print(stderr, "isobit: {}: {}: one process verifies it\n", archive::printable(named), why);
}

std::string resumed_after(const SegmentPlan& plan) {
  std::vector<std::int64_t> steps;
  for (const train::Segment& segment : std::span(plan.segments).first(plan.segments.size() - 1))
    steps.push_back(segment.last);
  return fmt::format("step{} {}", steps.size() == 1 ? "" : "s", fmt::join(steps, ", "));
}

// Nothing: one process has to judge.
std::optional<Verdict> judge_segments(const Program& program, const SegmentPlan& plan, const std::string& named,
                                      std::string& printed, const std::atomic<bool>& stop) {
  std::vector<std::string> texts(plan.segments.size());
  std::optional<Verdict> last;  // of the last segment, which alone knows of the end
  const auto run = [&](const SegmentCall& call, std::atomic<std::int64_t>& step, const std::atomic<bool>& stopped) {
    const auto place = std::find_if(plan.segments.begin(), plan.segments.end(),
                                    [&](const train::Segment& each) { return each.first == call.segment.first; });
    std::string& text = texts[static_cast<std::size_t>(place - plan.segments.begin())];
    auto verdict = run_segment_of(program, call, text, step, stopped);
    if (std::next(place) == plan.segments.end()) last = verdict;
    return verdict;
  };
  Verdict verdict;
  try {
    verdict = run_side_by_side(plan, run, stop);
  } catch (const UserError& error) {
    tell_one_process(named, fmt::format("resumed after {}, it failed ({})", resumed_after(plan),
                                        archive::printable(error.problem())));
    return {};
  }
  if (verdict.interrupted) return verdict;
  if (verdict.difference) {
    tell_one_process(named, fmt::format("resumed after {}, it differs at step {} ({})", resumed_after(plan),
                                        verdict.difference->step, archive::printable(verdict.difference->what)));
    return {};
  }
  if (last) verdict.outside = last->outside, verdict.not_recomputed = last->not_recomputed;
  for (const std::string& text : texts) printed += text;
  return verdict;
}

}  // namespace

std::optional<ScriptVerdict> verify_script_segments(const RunRecord& record, const VerifyOptions& options,
                                                    const std::string& named, std::string& printed) {
  expect_repeatable_script(record, options, named);
  if (options.trust) {
    tell_one_process(named, "segments run in sandboxes, and --trust in none");
    return {};
  }
  if (!record.outside() || !record.evaluations()) {  // what the segments before the last one wrote there is not known
    tell_one_process(named, "it lacks logs of what ran outside isobit or was evaluated");
    return {};
  }
  const auto plan = plan_segments(record, options, "segments of isobit.record, where the program saves more often");
  if (!plan) return {};
  require_sandbox();
  const archive::TemporaryFolder work;
  const process::StopSignal stop;
  auto script = plan_again(record, options, work.path(), stop);
  ScriptVerdict result;
  result.verdict.interrupted = true;
  if (!script) return result;
  if (script->processes > 1) {
    tell_one_process(named, fmt::format("it is a program of {} processes", script->processes));
    return {};
  }
  show_segments(*plan);
  ScriptSettings settings = other_settings(record, options.execution);
  settings.threads = plan->threads;
  const Program program{record,
                        options,
                        *std::move(script),
                        settings.isa,
                        shared_limits(options.limits, plan->segments.size()),
                        work.path() / "program"};
  auto verdict = judge_segments(program, *plan, named, printed, stop.flag());
  if (!verdict) return {};
  result.verdict = *std::move(verdict);
  if (result.verdict.interrupted) return result;
  if (RunRecord::open(record.folder()).seal() != record.seal())
    throw UserError(named, "was changed while it was verified", "verify it once nobody writes it");
  result.verdict.whole = true;
  std::vector<std::string>& unproven = result.verdict.not_recomputed;
  unproven.insert(unproven.end(), program.plan.unused.begin(), program.plan.unused.end());
  unproven.push_back(fmt::format("the run without interruption (it was resumed after {})", resumed_after(*plan)));
  result.settings = fmt::format("{} segments side by side, {} each, resumed after {}", plan->segments.size(),
                                settings.text(), resumed_after(*plan));
  result.settings = with_instead(result.settings, program.plan);
  return result;
}

}  // namespace isobit::proof
