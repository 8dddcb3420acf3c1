#include "proof/script_program.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <string_view>
#include <vector>

#include "archive/checked_files.h"
#include "archive/files.h"
#include "archive/log_lines.h"
#include "archive/printable.h"
#include "archive/recorded_settings.h"
#include "archive/run_export.h"
#include "archive/run_state.h"
#include "archive/runs.h"
#include "archive/user_error.h"
#include "kernels/isa_beside.h"
#include "kernels/threads.h"
#include "process/duration.h"
#include "proof/sandbox.h"
#include "train/arithmetic.h"

namespace isobit::proof {
namespace {

namespace fs = std::filesystem;
using archive::printable;
using archive::RunRecord;
using archive::UserError;
using Json = nlohmann::ordered_json;

// A module of the package, called without the working folder on the module path: what lies there may have come with the
// record.
std::vector<std::string> python_words(const std::string& python, const std::string& module) {
  return {python, "-c",
          fmt::format("import sys\nif sys.path and sys.path[0] == '': del sys.path[0]\n"
                      "from isobit.{} import main\nsys.exit(main(sys.argv[1:]))",
                      module)};
}

// For Python outside of the sandbox, where an entry that is not absolute, or empty, is the folder that a record came
// with: what the program gets in its place inside is told beside it (isobit._proof._verify).
std::vector<std::string> python_variables() {
  const char* given = std::getenv("PYTHONPATH");
  if (given == nullptr) return {};
  std::string kept;
  std::string_view rest = given;
  while (!rest.empty()) {
    const std::string_view entry = rest.substr(0, rest.find(':'));
    rest.remove_prefix(std::min(rest.size(), entry.size() + 1));
    if (entry.starts_with('/')) kept += (kept.empty() ? "" : ":") + std::string(entry);
  }
  return {"PYTHONPATH=" + kept, fmt::format("ISOBIT_PYTHONPATH={}", given)};
}

std::string last_line(std::string text) {
  text.erase(text.find_last_not_of(" \n") + 1);
  return text.substr(text.find_last_of('\n') + 1);
}

std::vector<fs::path> paths_of(const std::vector<std::string>& words) { return {words.begin(), words.end()}; }

kernels::Isa recorded_isa(const RunRecord& record) {
  const auto isa = kernels::parse_isa(archive::recorded_setting(record.environment(), "isa"));
  return isa.value_or(kernels::Isa::reference);
}

// From the first file of the record to its last, by their times; 0 where these say nothing, as those of an export.
double recorded_seconds(const RunRecord& record) {
  std::error_code error, other;
  const auto begin = fs::last_write_time(record.folder() / archive::kExperimentFile, error);
  const auto end = fs::last_write_time(record.folder() / archive::kStepsLog, other);
  if (error || other) return 0;
  const double seconds = std::chrono::duration<double>(end - begin).count();
  return seconds < 0.01 ? 0 : seconds;
}

// What the package reads of the record, as it was when its seal was checked. The folder that has it.
fs::path write_checked(const RunRecord& record, const fs::path& work) {
  fs::path folder = work / "recorded";
  archive::make_folders(folder);
  const archive::CheckedFiles files(record);
  for (const char* name :
       {archive::kExperimentFile, archive::kSourcesFile, archive::kPatchFile, archive::kExportFile}) {
    if (const auto content = files.find(name)) archive::write_file(folder / name, *content);
  }
  return folder;
}

}  // namespace

std::string ScriptSettings::text() const {
  return fmt::format("{} thread{}{}{}{}", threads, threads == 1 ? "" : "s", isa.empty() ? "" : ", ", isa,
                     as_recorded ? " as recorded" : "");
}

ScriptSettings other_settings(const RunRecord& record, const train::ExecutionOptions& asked) {
  ScriptSettings settings{asked.threads, asked.isa};
  const int threads = archive::recorded_threads(record.environment());
  if (settings.threads == 0) settings.threads = threads <= 1 ? 2 : 1;
  if (settings.isa != "auto") return settings;
  const kernels::Isa ran = recorded_isa(record);
  kernels::Isa beside = kernels::isa_beside(ran);
  settings.as_recorded = beside == ran && ran != kernels::Isa::reference;
  if (settings.as_recorded && settings.threads == threads) {  // nothing would be another
    beside = kernels::Isa::reference;
    settings.as_recorded = false;
  }
  settings.isa = kernels::name(beside);
  return settings;
}

void tell_settings(const RunRecord& record, const ScriptSettings& settings) {
  constexpr double kLong = 10;
  const kernels::Isa ran = recorded_isa(record), runs = kernels::parse_isa(settings.isa).value_or(kernels::best_isa());
  const double slower = kernels::relative_time(runs) / kernels::relative_time(ran);
  const int before = std::max(1, archive::recorded_threads(record.environment())),
            now = std::max(1, std::min(settings.threads, kernels::available_cpus()));
  const double recorded = recorded_seconds(record);
  const double expected = recorded * slower * std::max(1.0, static_cast<double>(before) / now);
  std::string text;
  if (expected >= kLong) {
    text = fmt::format(": up to about {} (recorded in {}, on {} thread{} with {})", process::duration(expected),
                       process::duration(recorded), before, before == 1 ? "" : "s", kernels::name(ran));
  } else if (recorded == 0 && slower > 2) {
    text = fmt::format(": about {:.0f} times as long as it was recorded", slower);
  } else if (!settings.as_recorded) {
    return;
  }
  fmt::print(stderr, "isobit: again with {}{}{}\n", settings.text(),
             settings.as_recorded ? ", as this CPU has no other instruction set of its speed" : "", text);
  if (runs == kernels::Isa::reference && kernels::best_isa() != runs)
    fmt::print(stderr, "isobit: --isa {} is faster\n", kernels::name(kernels::best_isa()));
}

void expect_repeatable_script(const RunRecord& record, const VerifyOptions& options, const std::string& named) {
  if (options.from != 0 || options.to != 0 || !options.data.empty() || options.execution.device != "cpu") {
    throw UserError(named, "is the record of a Python program; it can only be verified as a whole and on the CPU",
                    "leave out --from, --to, --data and --device");
  }
  const train::ArithmeticSettings arithmetic = train::arithmetic_of(record.contract());
  if (const std::string ours = train::contract_of(arithmetic); record.contract() != ours) {
    throw UserError(
        named, fmt::format("was recorded under {}, this program computes by {}", printable(record.contract()), ours),
        record.is_stock() ? "repeat it with the torch that recorded it" : "verify it with the isobit that recorded it");
  }
}

std::optional<ScriptPlan> plan_again(const RunRecord& record, const VerifyOptions& options, const fs::path& work,
                                     const process::StopSignal& stop) {
  const char* named = std::getenv("ISOBIT_PYTHON");
  const std::string python = named != nullptr && named[0] != '\0' ? named : "python3";
  constexpr const char* kRemedy = "set ISOBIT_PYTHON to a Python that has this isobit";
  process::ChildRequest request;
  request.words = python_words(python, "_proof._verify");
  request.words.insert(request.words.end(), {write_checked(record, work).string(), work.string(), "--repository",
                                             options.repository.empty() ? "." : options.repository});
  if (options.trust) request.words.emplace_back("--trust");
  for (const std::string& path : options.read) request.words.push_back("--read=" + path);
  request.words.emplace_back("--");
  request.words.insert(request.words.end(), options.arguments.begin(), options.arguments.end());
  request.environment = python_variables();
  request.keep = std::size_t{16} << 20;
  request.stop = &stop.flag();
  process::ChildResult result;
  try {
    result = process::run_child(request);
  } catch (const UserError& error) {
    throw UserError(error.place(), error.problem(), kRemedy);
  }
  if (result.interrupted) return {};
  if (result.code == 2 && !result.output.empty()) {
    throw UserError("", printable(result.output.substr(0, result.output.find_last_not_of('\n') + 1)), "");
  }
  if (result.code != 0) {
    const std::string reason = last_line(result.err);
    throw UserError(python,
                    fmt::format("cannot prepare the program: it {}{}", result.how_it_ended(),
                                reason.empty() ? "" : ": " + printable(reason)),
                    kRemedy);
  }
  fmt::print(stderr, "{}", result.err);  // the package's own words
  try {
    return parse_plan(result.output);
  } catch (const std::exception&) {
    throw UserError(python, "does not say how to run the program: it has another isobit, or none", kRemedy);
  }
}

std::string with_instead(const std::string& settings, const ScriptPlan& plan) {
  return plan.instead.empty() ? settings : fmt::format("{}; {}", settings, printable(plan.instead));
}

process::ChildRequest program_child(const RunRecord& record, const VerifyOptions& options, const ScriptPlan& plan,
                                    const ScriptSettings& settings, const SandboxLimits& limits,
                                    const ProgramFolders& at, const ProgramExtras& extras) {
  const fs::path program = options.trust ? at.program : fs::path(kProgramFolder);
  const fs::path runs = options.trust ? at.work / "runs" : fs::path(kRunsFolder);
  std::vector<std::string> words = python_words(plan.python, "_proof._again");
  words.insert(words.end(), {runs.string(), options.trust ? "stay" : "tar", std::to_string(plan.processes),
                             (program / plan.folder).string(), plan.python, (program / plan.file).string()});
  words.insert(words.end(), plan.arguments.begin(), plan.arguments.end());
  Json rerun{{"runs", runs.string()}, {"root", program.string()}, {"threads", settings.threads}, {"isa", settings.isa}};
  if (const trace::TraceHeader* traced = extras.traced; traced != nullptr) {
    rerun["trace"] = {{"first", traced->window.first},
                      {"count", traced->window.count},
                      {"samples", traced->samples},
                      {"statistics", traced->statistics},
                      {"values", traced->values}};
  }
  if (const ProgramPart* part = extras.part; part != nullptr) {
    if (!part->start.empty()) {
      rerun["start"] = part->start.string();
      rerun["resume"] = part->id;
    }
    if (part->until != 0) rerun["until"] = part->until;
  }
  const std::string variable = "ISOBIT_RERUN=" + rerun.dump();
  if (options.trust) {
    process::ChildRequest child;
    child.words = std::move(words);
    child.environment = {variable};
    child.together = true;
    return child;
  }
  SandboxRequest request;
  request.layers = {at.program};
  if (!plan.beside.empty()) request.layers.emplace_back(plan.beside);
  request.readable = paths_of(plan.readable);
  for (const std::string& path : options.read) request.readable.emplace_back(path);
  if (extras.part != nullptr && !extras.part->start.empty()) request.readable.push_back(extras.part->start);
  request.as_they_are = paths_of(plan.own);
  request.links = plan.links;
  request.hidden = kept_from_program(record, options, plan.beside);
  for (const std::string& path : plan.hidden) request.hidden.emplace_back(path);
  request.home = sandbox_home();
  request.environment = plan.environment;
  request.environment.insert(request.environment.end(), {variable, "HOME=" + request.home.string()});
  request.words = std::move(words);
  request.limits = limits;
  return in_sandbox(request, at.work);
}

std::vector<fs::path> kept_from_program(const RunRecord& record, const VerifyOptions& options, const fs::path& beside) {
  std::vector<fs::path> kept{record.folder()};
  std::error_code error;
  if (fs::is_regular_file(options.run, error)) {
    kept.emplace_back(options.run);
    kept.push_back(archive::runs_folder(options.runs));
    return kept;
  }
  const fs::path archive = fs::canonical(record.folder(), error).parent_path();
  if (beside.empty() || !lies_in(fs::canonical(beside, error), archive)) {
    kept.push_back(archive);
    return kept;
  }
  // A record that lies among other things.
  for (fs::directory_iterator it(archive, error), end; !error && it != end; it.increment(error)) {
    std::error_code ignored;
    if (fs::exists(it->path() / "steps.jsonl", ignored)) kept.push_back(it->path());
  }
  return kept;
}

}  // namespace isobit::proof
