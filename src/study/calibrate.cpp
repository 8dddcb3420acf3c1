#include "study/calibrate.h"

#include <fmt/format.h>

#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>

#include "archive/files.h"
#include "archive/json_text.h"
#include "archive/printable.h"
#include "archive/run_record.h"
#include "archive/run_state.h"
#include "archive/runs.h"
#include "archive/summary_text.h"
#include "archive/user_error.h"
#include "process/capability.h"
#include "process/child_process.h"
#include "process/stop_signal.h"
#include "study/baselines.h"
#include "study/calibration.h"

namespace isobit::study {
namespace {

namespace fs = std::filesystem;
using archive::RunRecord;
using archive::UserError;
using study::Baseline;
using study::Calibration;
using study::Verdict;

constexpr const char* kFolder = ".calibrations";  // in the archive; lists pass over it
constexpr int kCalibrationPatience = 120;

struct CalibrationOutcome {
  Baseline baseline;
  Calibration calibration;
  std::string kept;  // the new record, where it stays
};

std::vector<RunRecord> open_recorded(const fs::path& runs, const Baseline& baseline) {
  std::vector<RunRecord> records;
  for (const std::string& id : baseline.runs) {
    if (!archive::is_there(runs / id))
      throw UserError((runs / study::kBaselinesFile).string(),
                      fmt::format("the baseline '{}' names the run {}, which is not there", baseline.name, id),
                      fmt::format("put it back, or: isobit calibrate --remove {}", baseline.name));
    records.push_back(RunRecord::open(runs / id, RunRecord::Contents::but_checkpoints));
  }
  return records;
}

int add_baseline(const CalibrateOptions& options, const fs::path& runs) {
  if (!archive::is_run_name(options.as))
    throw UserError("--as",
                    options.as.empty() ? "is missing: the baseline's name"
                                       : fmt::format("'{}' is no name for a baseline", options.as),
                    "use 1 to 64 letters, digits, - _ and ., not beginning with a dot");
  const RunRecord record = RunRecord::open(archive::find_run(runs, options.add));
  const std::string id = record.folder().filename().string();
  if (!fs::equivalent(record.folder().parent_path().empty() ? fs::path(".") : record.folder().parent_path(), runs))
    throw UserError(options.add, "lies in another archive", "name that archive with --runs");
  if (record.is_script())
    throw UserError(options.add, "is a Python program's record, which calibrate cannot make anew",
                    "name a run of isobit run; a program's record is checked by isobit verify");
  std::vector<Baseline> baselines = study::read_baselines(runs);
  const auto found =
      std::find_if(baselines.begin(), baselines.end(), [&](const Baseline& b) { return b.name == options.as; });
  if (found == baselines.end()) {
    baselines.push_back({options.as, {id}, archive::utc_now()});
  } else {
    const RunRecord first = open_recorded(runs, *found)[0];
    if (first.experiment() != record.experiment() || first.contract() != record.contract())
      throw UserError(options.add,
                      fmt::format("is of another experiment or contract than the baseline '{}'", options.as),
                      "give it another name");
    if (!study::is_stock(record.contract()))
      throw UserError(options.add,
                      fmt::format("the baseline '{}' stands, and isobit's runs have no spread", options.as),
                      "give it another name, or remove the baseline first");
    if (std::find(found->runs.begin(), found->runs.end(), id) != found->runs.end())
      throw UserError(options.add, fmt::format("is a run of the baseline '{}' already", options.as), "");
    found->runs.push_back(id);
  }
  study::write_baselines(runs, baselines);
  fmt::print(stderr, "baseline {}: {}\n", options.as, id);
  return 0;
}

int remove_baseline(const std::string& name, const fs::path& runs) {
  std::vector<Baseline> baselines = study::read_baselines(runs);
  if (std::erase_if(baselines, [&](const Baseline& b) { return b.name == name; }) == 0)
    throw UserError("--remove", fmt::format("there is no baseline '{}'", name), "isobit calibrate --list shows them");
  study::write_baselines(runs, baselines);
  return 0;
}

int list_baselines(const CalibrateOptions& options, const std::vector<Baseline>& baselines) {
  archive::Json list = archive::Json::array();
  for (const Baseline& b : baselines) {
    list.push_back({{"name", b.name}, {"runs", b.runs}, {"added", b.added}, {"claimed", {"runs", "added"}}});
    if (!options.json)
      fmt::print("{:<20}  {}  {}\n", b.name, archive::printable(b.added),
                 b.runs.size() == 1 ? b.runs[0] : fmt::format("{} and {} more", b.runs[0], b.runs.size() - 1));
  }
  if (options.json) archive::print_json_line(list);
  return 0;
}

// Stock results depend on threads and instruction set: these are those of the record.
void as_recorded(process::ChildRequest& request, const RunRecord& record) {
  const study::Environment environment = study::environment_of(record.environment());
  const auto value = [&](const char* key) {
    const auto found = environment.find(key);
    return found == environment.end() ? std::string() : found->second;
  };
  for (const char* option : {"threads", "isa"}) {
    const std::string level = value((std::string("run.") + option).c_str());
    if (!level.empty()) request.words.insert(request.words.end(), {std::string("--") + option, level});
  }
  request.environment = process::recorded_variables(record.environment());
}

// The record of the run, made anew; nothing with `problem` said, or where the user stopped it.
std::optional<fs::path> make_anew(const CalibrateOptions& options, const fs::path& runs, const RunRecord& record,
                                  const std::atomic<bool>& stop, std::string& problem) {
  process::ChildRequest request;
  request.words = {options.program, "run",    (record.folder() / archive::kExperimentFile).string(),
                   "--json",        "--runs", (runs / kFolder).string()};
  if (study::is_stock(record.contract())) as_recorded(request, record);
  request.stop = &stop;
  request.patience = kCalibrationPatience;
  const process::ChildResult result = process::run_child(request);
  std::string id;
  try {
    id = archive::parse_json(result.output).at("id").get<std::string>();
  } catch (const std::exception&) {  // it printed no result
    problem = result.error_line();
    return std::nullopt;
  }
  if (id.find('/') != std::string::npos || id.starts_with('.')) id.clear();
  const fs::path folder = runs / kFolder / id;
  if (result.code == 0 && !id.empty()) return folder;
  problem = result.error_line();
  if (!id.empty() && archive::is_there(folder)) archive::remove_folder(folder);
  return std::nullopt;
}

study::CalibrationLine line_of(const Baseline& baseline, const Calibration& calibration, const RunRecord* now) {
  study::CalibrationLine line{archive::utc_now(), baseline.name, baseline.runs[0], calibration.verdict, "", {}, {},
                              calibration.note};
  if (now == nullptr) return line;
  line.weights = now->weights();
  line.metrics = study::final_metrics(*now);
  line.environment = study::environment_of(now->environment());
  return line;
}

CalibrationOutcome calibrate(const CalibrateOptions& options, const fs::path& runs, const Baseline& baseline,
                             const std::atomic<bool>& stop) {
  CalibrationOutcome outcome{baseline, {}, ""};
  const auto history = study::read_history(runs, baseline.name);
  const auto recorded = open_recorded(runs, baseline);
  std::string problem;
  const auto folder = make_anew(options, runs, recorded[0], stop, problem);
  if (!folder) {
    outcome.calibration.note = "the run could not be made: " + problem;
    if (!stop) study::append_history(runs, line_of(baseline, outcome.calibration, nullptr));
    return outcome;
  }
  const RunRecord now = RunRecord::open(*folder);
  outcome.calibration = study::judge(recorded, now, history);
  study::append_history(runs, line_of(baseline, outcome.calibration, &now));
  if (outcome.calibration.verdict == Verdict::unchanged) {
    archive::remove_folder(*folder);  // the same bytes but for id and times
  } else {
    outcome.kept = folder->string();
  }
  return outcome;
}

archive::Json json_of(const std::vector<study::Change>& changes) {
  archive::Json list = archive::Json::array();
  for (const auto& change : changes)
    list.push_back({{"key", change.key}, {"before", change.before}, {"now", change.now}});
  return list;
}

archive::Json json_of(const CalibrationOutcome& outcome) {
  const Calibration& c = outcome.calibration;
  archive::Json object{{"baseline", outcome.baseline.name},
                       {"run", outcome.baseline.runs[0]},
                       {"verdict", study::to_string(c.verdict)},
                       {"note", c.note},
                       {"first_step", nullptr},
                       {"last_unchanged", nullptr},
                       {"metrics", archive::Json::array()},
                       {"changes", json_of(c.changes)},
                       {"changes_since", json_of(c.changes_since)},
                       {"kept", nullptr}};
  if (c.step) object["first_step"] = *c.step;
  if (!c.last_unchanged.empty()) object["last_unchanged"] = c.last_unchanged;
  if (!outcome.kept.empty()) object["kept"] = outcome.kept;
  for (const study::MetricMove& m : c.metrics) {
    object["metrics"].push_back(
        {{"name", m.name}, {"recorded", m.recorded}, {"now", m.now}, {"low", nullptr}, {"high", nullptr}});
    if (m.low) object["metrics"].back()["low"] = *m.low, object["metrics"].back()["high"] = *m.high;
  }
  return object;
}

void print_outcome(const CalibrationOutcome& outcome) {
  const Calibration& c = outcome.calibration;
  const auto say = [](const std::string& line) { fmt::print("  {}\n", archive::printable(line)); };
  fmt::print("{:<20}  {}\n", outcome.baseline.name, study::to_string(c.verdict));
  if (c.verdict == Verdict::unchanged) return;
  say(c.note);
  for (const study::MetricMove& m : c.metrics) {
    if (m.recorded == m.now) continue;
    say(fmt::format("{} {:.6g}, recorded {:.6g} ({:+.3g}){}", m.name, m.now, m.recorded, m.now - m.recorded,
                    m.low ? fmt::format(", spread {:.6g} to {:.6g}", *m.low, *m.high) : ""));
  }
  const bool since = !c.last_unchanged.empty();
  if (since) say("unchanged when last calibrated, " + c.last_unchanged);
  for (const study::Change& change : since ? c.changes_since : c.changes)
    say(fmt::format("{} {} now, {} before", change.key, change.now.empty() ? "missing" : change.now,
                    change.before.empty() ? "missing" : change.before));
  if (!outcome.kept.empty()) say(fmt::format("isobit diff {} {}", outcome.baseline.runs[0], outcome.kept));
}

int calibrate_all(const CalibrateOptions& options, const fs::path& runs, const std::vector<Baseline>& baselines) {
  std::vector<Baseline> chosen;
  for (const std::string& tag : options.tags) {
    const auto found =
        std::find_if(baselines.begin(), baselines.end(), [&](const Baseline& b) { return b.name == tag; });
    if (found == baselines.end())
      throw UserError("--tag", fmt::format("there is no baseline '{}'", tag), "isobit calibrate --list shows them");
    chosen.push_back(*found);
  }
  if (options.tags.empty()) chosen = baselines;
  if (chosen.empty())
    throw UserError(runs.string(), "has no baselines", "tag a finished run: isobit calibrate --add RUN --as NAME");
  const process::StopSignal stop;
  archive::Json list = archive::Json::array();
  bool moved = false, unknown = false;
  for (const Baseline& baseline : chosen) {
    const CalibrationOutcome outcome = calibrate(options, runs, baseline, stop.flag());
    if (stop.flag()) {
      fmt::print(stderr, "isobit: interrupted; nothing is recorded of {}\n", baseline.name);
      return process::kInterruptedExit;
    }
    moved = moved || outcome.calibration.verdict == Verdict::moved;
    unknown = unknown || outcome.calibration.verdict == Verdict::unknown;
    if (options.json) {
      list.push_back(json_of(outcome));
    } else {
      print_outcome(outcome);
    }
  }
  // Ids and machines, as whoever recorded them says, and what the history says of them.
  const archive::Json claimed = {"baselines.run", "baselines.last_unchanged", "baselines.changes",
                                 "baselines.changes_since"};
  if (options.json)
    archive::print_json_line(
        archive::Json{{"format", "isobit-calibrate-1"}, {"baselines", list}, {"claimed", claimed}});
  return moved ? 1 : unknown ? 2 : 0;
}

}  // namespace

int run_calibrate(const CalibrateOptions& given) {
  CalibrateOptions options = given;
  const fs::path runs = archive::runs_folder(options.runs);
  const int chosen =
      int{!options.add.empty()} + int{!options.remove.empty()} + int{options.list} + int{!options.tags.empty()};
  if (chosen > 1 || options.add.empty() != options.as.empty())
    throw UserError("calibrate", "its options contradict each other",
                    "give --add RUN --as NAME, --remove, --list or --tag");
  if (!options.add.empty()) return add_baseline(options, runs);
  if (!options.remove.empty()) return remove_baseline(options.remove, runs);
  const std::vector<Baseline> baselines = study::read_baselines(runs);
  if (options.list) return list_baselines(options, baselines);
  if (options.program.empty()) options.program = fs::read_symlink("/proc/self/exe").string();
  return calibrate_all(options, runs, baselines);
}

}  // namespace isobit::study
