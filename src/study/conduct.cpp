#include "study/conduct.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <sys/file.h>
#include <unistd.h>

#include <filesystem>
#include <map>
#include <memory>
#include <set>

#include "archive/files.h"
#include "archive/out_option.h"
#include "archive/printable.h"
#include "archive/run_record.h"
#include "archive/run_state.h"
#include "archive/suggest.h"
#include "archive/user_error.h"
#include "kernels/threads.h"
#include "process/capability.h"
#include "process/stop_signal.h"
#include "slurm/submitted_experiment.h"
#include "study/analysis.h"
#include "study/cells.h"
#include "study/predictions.h"
#include "study/results_text.h"
#include "study/study_file.h"
#include "study/study_runs.h"
#include "study/study_script.h"
#include "study/study_submit.h"
#include "study/test_set.h"

namespace isobit::study {
namespace {

namespace fs = std::filesystem;
using archive::UserError;
using study::Cell;
using study::CellState;
using study::Study;

constexpr std::uint64_t kLargestExperiment = 1 << 20;
constexpr std::size_t kMostChecks = 64;

// One study at a time works in a folder of this machine; on another one the runs' own locks keep writers apart.
class FolderLock {
 public:
  explicit FolderLock(const fs::path& folder)
      : descriptor_(::open((folder / ".lock").c_str(), O_CREAT | O_RDWR | O_CLOEXEC, 0644)) {
    if (descriptor_ >= 0 && ::flock(descriptor_, LOCK_EX | LOCK_NB) == 0) return;
    const int code = errno;
    if (descriptor_ >= 0) ::close(descriptor_);
    if (code == EWOULDBLOCK)
      throw UserError(folder.string(), "another isobit study makes its runs there", "wait for it, or stop it");
    archive::throw_file_error(folder / ".lock", "cannot be locked", code);
  }
  ~FolderLock() { ::close(descriptor_); }
  FolderLock(const FolderLock&) = delete;
  FolderLock& operator=(const FolderLock&) = delete;

 private:
  int descriptor_;
};

// The nodes of a cluster have CPUs of their own, which their jobs check.
void check_capabilities(const Study& study, const std::string& file) {
  const study::StudyFactor* factor = study.find("capability");
  if (factor == nullptr) return;
  for (const study::Level& level : factor->levels) process::expect_capability(level.text, file + ": capability");
}

// What the experiment refuses of the study's keys and values lies in the study's file.
slurm::SubmittedExperiment checked_experiment(const Study& study, const std::string& file,
                                              const std::vector<std::vector<std::string>>& checks,
                                              const std::string& program) try {
  return slurm::check_experiment(file, {}, checks, program);
} catch (const UserError& error) {
  const std::string line = error.what(), option = "--set ";
  const auto colon = line.find(": ");
  if (!line.starts_with(option) || colon == std::string::npos) throw;
  const std::string setting = line.substr(option.size(), colon - option.size());
  auto place = study.places.find(setting);
  if (place == study.places.end()) place = study.places.find(setting.substr(0, setting.find('=')));
  if (place == study.places.end()) throw;
  throw UserError(place->second, line.substr(colon + 2), "");
}

// Each level of each factor once, the others at their first: what is wrong is said before the first run, and not in the
// hundredth.
void check_levels(const StudyOptions& options, const Study& study, const std::vector<Cell>& cells,
                  const std::string& file) {
  std::vector<std::vector<std::string>> checks;
  std::map<std::pair<std::string, std::string>, bool> seen;
  for (const Cell& cell : cells) {
    bool news = cell.index == 0;
    for (const auto& [key, level] : cell.factors) {
      // One seed is as good as another.
      const bool chance = study::StudyFactor{key, {}}.role() == study::Role::chance;
      news = (seen.emplace(std::pair(key, chance ? "" : level.toml), true).second && !study::is_option(key)) || news;
    }
    if (news) checks.push_back(study::overrides_of(study, cell));
    if (checks.size() == kMostChecks) break;
  }
  if (!checked_experiment(study, file, checks, options.program).resolved.empty()) return;
  if (!options.dry_run && !options.submit)
    throw UserError(options.program, "cannot make runs: PyTorch does not load here",
                    "pip install torch beside isobit, or name another isobit with --program");
  fmt::print(stderr, "isobit: PyTorch does not load here: of the experiment, only its TOML was checked\n");
}

// Correct predictions by run, from its record: for McNemar's test.
class Hits {
 public:
  explicit Hits(fs::path runs) : runs_(std::move(runs)) {}

  std::optional<study::SampleHits> operator()(const Cell& cell) {
    const auto [found, added] = known_.try_emplace(cell.run);
    if (added) found->second = read(runs_ / cell.run);
    return found->second;
  }

 private:
  std::optional<study::SampleHits> read(const fs::path& run) {
    if (!archive::is_there(run / study::kPredictionsFile)) return std::nullopt;
    try {
      const auto record = archive::RunRecord::open(run, archive::RunRecord::Contents::but_checkpoints);
      const auto lines = study::read_predictions(run);
      const auto last = std::find_if(lines.rbegin(), lines.rend(), [](const auto& line) { return line.set == "test"; });
      if (last == lines.rend()) return std::nullopt;
      const auto [found, added] = targets_.try_emplace(last->targets);
      if (added) found->second = study::targets_of(record.experiment(), last->targets);
      if (!found->second || found->second->size() != last->predictions.size()) return std::nullopt;
      study::SampleHits hits{last->targets, std::vector<bool>(last->predictions.size())};
      for (std::size_t i = 0; i < hits.right.size(); ++i) hits.right[i] = last->predictions[i] == (*found->second)[i];
      return hits;
    } catch (const UserError&) {  // a record that is damaged has no say; isobit show tells what is wrong with it
      return std::nullopt;
    }
  }

  fs::path runs_;
  std::map<std::string, std::optional<study::SampleHits>> known_;
  std::map<std::string, std::optional<std::vector<std::int64_t>>> targets_;  // by their digest
};

void print_plan(const StudyOptions& options, const Study& study, const std::vector<Cell>& cells) {
  if (options.json) {
    fmt::print("{}", study::format_cells(study, cells));
    return;
  }
  fmt::print("{}: {} runs\n", study.name, cells.size());
  for (const Cell& cell : cells) fmt::print("  {:>5}  {}\n", cell.index, archive::printable(cell.text()));
}

// A new folder, or the one of the same study that is to be resumed, with cells of earlier calls where they are the
// same.
void prepare_folder(const StudyOptions& options, const Study& study, const std::string& experiment,
                    const fs::path& folder, std::vector<Cell>& cells) {
  const bool there = archive::is_there(folder / "cells.json");
  if (there && !options.resume && !options.gather && !options.submit)
    throw UserError(folder.string(), "holds a study already",
                    "resume it with --resume, or name another folder with --out");
  if (!there && options.resume && archive::is_there(folder) && !archive::names_in(folder).empty() &&
      !archive::is_there(folder / "study.toml"))
    throw UserError(folder.string(), "holds no study to resume", "leave --resume out, or name its folder with --out");
  if (there) study::take_states(cells, folder / "cells.json");
  const char* given = study.script ? "script.py" : "experiment.toml";
  archive::write_file(folder / given, experiment);
  // A script lies beside modules and data of its own: that one is run, and its text kept.
  const std::string path = study.script ? fs::absolute(study.experiment).lexically_normal().string() : given;
  archive::write_file(folder / "study.toml", study::to_toml(study, path));
}

// The groups that each finished run held out, read from the data once per split.
void fill_groups(const Study& study, std::vector<Cell>& cells, const fs::path& runs) {
  if (study.folds.kind == study::Folds::none || study.split_group.empty()) return;
  std::map<std::string, std::vector<std::string>> known;
  for (Cell& cell : cells) {
    if (cell.state != CellState::finished || !cell.groups.empty()) continue;
    std::string split = std::to_string(*cell.fold);
    for (const auto& [key, level] : cell.factors) {
      const bool decides = key == "seed" || study::StudyFactor{key, {}}.role() == study::Role::setting;
      if (decides) split += "\n" + key + "=" + level.toml;
    }
    const auto [found, added] = known.try_emplace(split);
    const fs::path experiment = runs / cell.run / archive::kExperimentFile;
    if (added && archive::is_there(experiment))
      found->second = study::groups_of_test_set(archive::read_file(experiment, kLargestExperiment));
    cell.groups = found->second;
  }
}

study::Results write_results(const Study& study, std::vector<Cell>& cells, const fs::path& folder,
                             const fs::path& runs) {
  fill_groups(study, cells, runs);
  archive::write_file(folder / "cells.json", study::format_cells(study, cells));
  Hits hits(runs);
  study::Results results = study::analyse(study, cells, [&](const Cell& cell) { return hits(cell); });
  if (!results.comparisons.empty() && !results.comparisons[0].p_mcnemar && study.metric_value() == "accuracy")
    results.warnings.emplace_back(
        std::string("McNemar's test needs the predictions of all compared runs for the same samples: ") +
        (study.script ? "let the script record with predictions=True, and call run.predictions"
                      : "set evaluate.predictions = true in the experiment"));
  archive::write_file(folder / "results.json", study::results_json(study, results));
  return results;
}

void print_results(const StudyOptions& options, const Study& study, const study::Results& results) {
  fmt::print("{}", options.json ? study::results_json(study, results) : study::results_text(study, results));
}

// What a script measures is known when its runs are made; where none measured the study's metric, it is mistyped. The
// exit code: the results have been printed, so that this is no error of --json's.
int metric_is_measured(const StudyOptions& options, const Study& study, const std::vector<Cell>& cells,
                       const StudyRuns& runs) {
  const std::set<std::string>& measured = runs.measured();
  if (measured.contains(study.metric)) return 0;
  if (std::none_of(cells.begin(), cells.end(), [](const Cell& c) { return c.state == CellState::finished; })) return 0;
  const std::string near = archive::nearest(study.metric, {measured.begin(), measured.end()});
  const auto place = study.places.find("metric");
  const UserError error(
      place != study.places.end() ? place->second : options.file,
      fmt::format("'metric' is \"{}\", which no run has measured", study.metric),
      measured.empty()
          ? "let the script measure it: run.log(\"test\", accuracy=...)"
          : fmt::format("{}measured: {}; correct it and call again with --resume, which makes "
                        "no finished run again",
                        near.empty() ? "" : fmt::format("did you mean \"{}\"? ", near), fmt::join(measured, ", ")));
  fmt::print(stderr, "isobit: {}\n", archive::printable(error.what()));
  return archive::kUserErrorExit;
}

// In the study's folder, which is this process's alone.
int work_in(const fs::path& folder, const StudyOptions& options, const Study& study, const std::string& experiment,
            std::vector<Cell>& cells) {
  const FolderLock lock(folder);
  prepare_folder(options, study, experiment, folder, cells);
  StudyRuns runs(study, cells, {folder, options.program, experiment, options.jobs});
  runs.find_finished();
  if (options.submit) return submit_study(study, cells, folder, experiment, options.submission);
  if (options.gather) {
    print_results(options, study, write_results(study, cells, folder, runs.runs()));
    return metric_is_measured(options, study, cells, runs);
  }
  fmt::print(stderr, "{}: {} runs in {}, {} at a time at most\n", study.name, cells.size(), runs.runs().string(),
             options.jobs > 0 ? options.jobs : std::max<std::int64_t>(1, kernels::available_cpus() / study.threads));
  const process::StopSignal stop;
  const bool all = runs.execute(stop.flag());
  print_results(options, study, write_results(study, cells, folder, runs.runs()));
  if (!all) {
    fmt::print(stderr, "isobit: interrupted; resume with: isobit study {} --out {} --resume\n", options.file,
               folder.string());
    return process::kInterruptedExit;
  }
  if (const int code = metric_is_measured(options, study, cells, runs); code != 0) return code;
  return std::any_of(cells.begin(), cells.end(), [](const Cell& c) { return c.state == CellState::failed; }) ? 1 : 0;
}

}  // namespace

int run_study(const StudyOptions& given) {
  StudyOptions options = given;
  options.submission.json = options.json;
  if (options.program.empty()) options.program = fs::read_symlink("/proc/self/exe").string();
  Study study = study::read_study(options.file);
  const std::string experiment = archive::read_file(study.experiment, kLargestExperiment);
  study::take_split(study, experiment);
  if (!study.script && !options.gather) study::check_metric(study, experiment);
  std::vector<Cell> cells = study::make_cells(study, experiment);
  if (!options.gather && !options.submit) check_capabilities(study, options.file);
  if (study.script && options.submit)
    throw UserError("--submit", "a script's runs are made on this machine", "leave --submit out");
  if (study.script && !options.gather) check_script(study);
  if (!study.script && !options.gather) check_levels(options, study, cells, study.experiment.string());
  const fs::path folder = options.out.empty() ? fs::path("studies") / study.name : fs::path(options.out);
  if (options.dry_run && options.submit) {
    options.submission.dry_run = true;
    return submit_study(study, cells, folder, experiment, options.submission);
  }
  if (options.dry_run) {
    print_plan(options, study, cells);
    return 0;
  }
  if (options.gather && !archive::is_there(folder / "study.toml"))
    throw UserError(folder.string(), "holds no study", "name its folder with --out, or leave --gather out");
  archive::writing_out([&] { archive::make_folders(folder); });
  return work_in(folder, options, study, experiment, cells);
}

}  // namespace isobit::study
