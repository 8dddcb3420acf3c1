#include "cli/verify_script.h"

#include <fmt/format.h>

#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <vector>

#include "archive/files.h"
#include "archive/json_text.h"
#include "archive/output_file.h"
#include "archive/printable.h"
#include "archive/run_export.h"
#include "archive/runs.h"
#include "archive/user_error.h"
#include "cli/child_process.h"
#include "cli/compare_records.h"
#include "cli/recorded_settings.h"
#include "cli/sandbox.h"
#include "cli/script_failure.h"
#include "cli/script_plan.h"
#include "cli/script_program.h"
#include "cli/script_segments.h"
#include "cli/second_record.h"
#include "kernels/threads.h"
#include "trace/trace_file.h"
#include "train/arithmetic.h"

namespace isobit::cli {
namespace {

namespace fs = std::filesystem;
using archive::printable;
using archive::RunRecord;
using archive::UserError;
using Json = nlohmann::ordered_json;

bool starts_differently(const std::optional<train::Difference>& difference) {
  return difference && difference->step == 1 &&
         (difference->what == "batch" || difference->what == "loss" || difference->what == "weights");
}

// Every step was compared before, so weights are equal; what run.save kept beside them is not.
bool keeps_other_state(const std::optional<train::Difference>& difference) {
  return difference && difference->what.starts_with("checkpoint (") && difference->what.ends_with("/data.pkl)");
}

// In `work`, which is empty.
ScriptVerdict execute_again(const RunRecord& record, const VerifyOptions& options, const std::string& named,
                            const ScriptSettings& settings, const trace::TraceHeader* traced, const fs::path& work,
                            std::string& printed) {
  expect_repeatable_script(record, options, named);
  const SandboxLimits limits = sandbox_limits(options.limits);
  if (!options.trust) require_sandbox();
  ScriptVerdict result;
  result.verdict.interrupted = true;
  result.settings = settings.text();
  const StopSignal stop;
  const auto plan = plan_again(record, options, work, stop);
  if (!plan) return result;
  result.settings = with_instead(result.settings, *plan);
  if (!record.is_stock()) tell_settings(record, settings);
  const ScriptPlace place{printable(plan->file), plan->beside, !options.trust};
  const Again again{
      static_cast<std::int64_t>(record.steps().size()), place, limits, work, stop.flag(), traced != nullptr};
  const auto second = run_again(
      again, program_child(record, options, *plan, settings, limits, {work / "program", work}, {traced, nullptr}),
      printed);
  if (!second) return result;
  result.verdict = verdict_of(record, *second);
  std::vector<std::string>& unproven = result.verdict.not_recomputed;
  unproven.insert(unproven.end(), plan->unused.begin(), plan->unused.end());
  if (result.verdict.difference && !plan->instead.empty()) result.hint = "it ran with " + plan->instead;
  if (keeps_other_state(result.verdict.difference))
    result.hint =
        "the weights until there are equal: run.save was given other values, or Python's or NumPy's random numbers "
        "were "
        "drawn without a seed (isobit.seed seeds all)";
  if (starts_differently(result.verdict.difference) && !plan->seeded)
    result.hint = record.is_stock() ? "nothing seeded: call torch.manual_seed" : "nothing seeded: call isobit.seed";
  return result;
}

// Whole or not at all, and no file is replaced.
void place_file(const fs::path& from, const fs::path& to) {
  archive::OutputFile file(to);
  std::ifstream in(from, std::ios::binary);
  std::vector<char> piece(1 << 20);
  while (in.read(piece.data(), static_cast<std::streamsize>(piece.size())) || in.gcount() > 0)
    file.write(std::as_bytes(std::span(piece.data(), static_cast<std::size_t>(in.gcount()))));
  file.commit();
}

}  // namespace

void take_made_trace(const fs::path& made, const trace::TraceHeader& asked, const fs::path& out) {
  const trace::Trace trace = trace::read_trace(made / kTraceFile);
  if (!asked.values.empty()) {
    static_cast<void>(trace::read_values(trace));
    place_file(made / kTraceValues, out.string() + trace::kValuesEnding);
  }
  place_file(made / kTraceFile, out);
}

ScriptVerdict verify_script(const RunRecord& record, const VerifyOptions& options, const std::string& named,
                            std::string& printed) {
  if (options.workers > 1) {
    if (auto verdict = verify_script_segments(record, options, named, printed)) return *std::move(verdict);
  }
  const ScriptSettings settings = record.is_stock() ? ScriptSettings{kernels::thread_count(), "", false}
                                                    : other_settings(record, options.execution);
  const archive::TemporaryFolder work;
  return execute_again(record, options, named, settings, nullptr, work.path(), printed);
}

ScriptVerdict trace_script(const RunRecord& record, const VerifyOptions& options, const std::string& named,
                           const trace::TraceHeader& asked, const fs::path& out) {
  const ScriptSettings settings{kernels::thread_count(), record.is_stock() ? "" : options.execution.isa, false};
  const archive::TemporaryFolder work;
  std::string printed;
  ScriptVerdict result = execute_again(record, options, named, settings, &asked, work.path(), printed);
  if (result.verdict.interrupted) return result;
  const fs::path made = work.path() / kTraceFile;
  if (!archive::is_there(made))
    throw UserError(named, "left no trace: it made no step of the window, or its isobit.record is not this isobit's",
                    "choose steps that it makes");
  take_made_trace(work.path(), asked, out);
  return result;
}

}  // namespace isobit::cli
