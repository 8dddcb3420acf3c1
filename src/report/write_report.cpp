#include "report/write_report.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <set>

#include "archive/files.h"
#include "archive/out_option.h"
#include "archive/output_file.h"
#include "archive/printable.h"
#include "archive/run_record.h"
#include "archive/runs.h"
#include "archive/secret_scan.h"
#include "archive/sha256.h"
#include "archive/summary_text.h"
#include "archive/user_error.h"
#include "report/document.h"
#include "report/page.h"
#include "report/study_check.h"
#include "study/compared_run.h"
#include "study/diff.h"
#include "study/drift.h"
#include "study/test_set.h"

namespace isobit::report {
namespace {

namespace fs = std::filesystem;
using archive::plural;
using archive::UserError;

// Of two runs: what isobit diff --records-only and isobit drift say, where no file says it. `names`: as the user named
// them.
void compare_two(const std::vector<fs::path>& folders, const std::vector<std::string>& names,
                 report::ReportParts& parts) {
  if (!parts.diff) {
    const auto side = [&](std::size_t i) { return study::read_run(folders[i], names[i]); };
    study::Diff diff = study::compare_runs(side(0), side(1));
    if (diff.results == study::Results::differ)
      diff.not_looked_into =
          "only the records were compared: isobit diff A B --json finds the operator, --diff shows it";
    parts.diff = report::parse_diff(study::to_json(diff), "isobit diff");
  }
  const auto finished = [](const report::RunEntry& run) { return run.summary.state == archive::RunState::finished; };
  if (parts.drift || !std::all_of(parts.runs.begin(), parts.runs.end(), finished)) return;
  try {
    std::vector<archive::RunRecord> records;
    for (const fs::path& folder : folders) records.push_back(archive::RunRecord::open(folder));
    const study::Drift drift = study::measure_drift(records);
    if (!drift.cells.empty()) parts.drift = report::parse_drift(study::drift_json(drift, records), "isobit drift");
  } catch (const UserError& error) {  // networks that differ, or runs without steps
    fmt::print(stderr, "isobit: the page shows no drift: {}\n", archive::printable(error.what()));
  }
}

// The true classes of evaluations, from the data files that the runs name, where they are here and still the same.
report::TargetsByDigest targets_in_data(const report::ReportParts& parts) {
  report::TargetsByDigest found;
  std::set<std::string> looked_for;
  for (const report::RunEntry& run : parts.runs) {
    for (const archive::PredictionsLine& line : run.predictions) {
      if (run.script || !looked_for.insert(line.targets).second) continue;
      if (auto targets = study::targets_of(run.experiment, line.targets)) found[line.targets] = std::move(*targets);
    }
  }
  return found;
}

// All runs of an archive, the oldest first; none where it is no folder.
std::vector<fs::path> runs_in(const fs::path& archive_folder) {
  std::vector<fs::path> folders;
  for (const archive::RunSummary& run : archive::list_runs(archive_folder)) folders.push_back(archive_folder / run.id);
  std::reverse(folders.begin(), folders.end());
  return folders;
}

// The runs that a word means: a folder's, where it holds runs, else one run.
std::vector<fs::path> runs_of(const fs::path& archive_folder, const std::string& word) {
  std::error_code ignored;
  if (word != "last" && fs::is_directory(word, ignored)) {
    if (std::vector<fs::path> inside = runs_in(word); !inside.empty()) return inside;
  }
  return {archive::find_run(archive_folder, word)};
}

// What the words mean: a study's folder, or runs; no word means all runs of the archive.
report::ReportParts gather(const ReportOptions& options) {
  report::ReportParts parts;
  parts.title = options.title;
  std::vector<fs::path> folders;
  std::vector<std::string> names;
  const fs::path archive_folder = archive::runs_folder(options.runs);
  if (options.what.empty()) {
    folders = runs_in(archive_folder);
    for (const fs::path& folder : folders) names.push_back(folder.string());
    if (folders.empty())
      throw UserError(archive_folder.string(), "holds no runs",
                      "start one with isobit run, or name another folder with --runs");
  }
  for (const std::string& word : options.what) {
    if (!report::is_study(word)) {
      const std::vector<fs::path> meant = runs_of(archive_folder, word);
      folders.insert(folders.end(), meant.begin(), meant.end());
      for (const fs::path& folder : meant) names.push_back(meant.size() == 1 ? word : folder.string());
      continue;
    }
    if (options.what.size() > 1)
      throw UserError(word, "is a study, which a report shows by itself", "call isobit report with this folder alone");
    parts.study = report::read_study(word);
    folders = parts.study->runs;
  }
  const bool person = isatty(STDERR_FILENO) != 0 && folders.size() > 20;
  parts.runs = report::read_runs(folders, [&](std::size_t done) {
    if (person && (done % 16 == 0 || done == folders.size()))
      fmt::print(stderr, "\rreading run {}/{} ", done, folders.size());
  });
  if (person) fmt::print(stderr, "\n");
  if (parts.study) report::check_study(*parts.study, parts.runs, options.what[0]);
  if (!options.diff.empty()) parts.diff = report::read_diff(options.diff);
  if (!options.drift.empty()) parts.drift = report::read_drift(options.drift);
  if (!parts.study && folders.size() == 2) compare_two(folders, names, parts);
  if (!options.targets.empty()) parts.targets = report::read_targets(options.targets);
  if (options.targets.empty()) parts.found_targets = targets_in_data(parts);
  return parts;
}

// A page is given to others: no home paths, and no secrets (archive/secret_scan.h), as in an export.
class Cleaner {
 public:
  explicit Cleaner(const ReportOptions& options)
      : redact_(options.redact), scan_(options.allow, archive::environment_variables(), home()) {}

  void clean(const std::string& place, std::string& text) {
    text = scan_.without_home(text);
    for (archive::Finding& finding : scan_.find(place, text)) {
      if (!redact_ || finding.always) findings_.push_back(std::move(finding));
    }
    if (redact_) text = scan_.redacted(text);
  }

  void clean(report::ReportParts& parts) {
    for (report::RunEntry& run : parts.runs) {
      clean(run.summary.id + "/experiment.toml", run.experiment);
      clean(run.summary.id + "/environment.json", run.environment);
      clean(run.summary.id + "/data.json", run.data);
      clean(run.summary.id + "/state.json", run.summary.note);
      clean_json(run.summary.id + "/sections", run.sections);
      run.settings = report::parse_settings(run.experiment);
    }
    if (parts.diff) clean_json("--diff", *parts.diff);
    if (parts.drift) clean_json("--drift", (*parts.drift)["layers"]);
    if (parts.study) {
      clean_json("cells.json", parts.study->cells);
      clean_json("results.json", parts.study->results);
    }
  }

  void require_clean() const {
    if (findings_.empty()) return;
    for (const archive::Finding& finding : findings_)
      fmt::print(stderr, "{}: looks like {}\n", archive::printable(finding.place), archive::printable(finding.what));
    throw UserError("", plural(findings_.size(), "possible secret") + "; nothing written",
                    "--redact removes them, but never a private key; --allow TEXT accepts lines that contain TEXT");
  }

 private:
  static std::string home() {
    const char* folder = std::getenv("HOME");
    return folder == nullptr ? "" : folder;
  }

  // Every text in it.
  void clean_json(const std::string& place, report::Json& value) {
    if (value.is_string()) {
      auto text = value.get<std::string>();
      clean(place, text);
      value = text;
    } else if (value.is_structured()) {
      for (report::Json& item : value) clean_json(place, item);
    }
  }

  bool redact_;
  archive::SecretScan scan_;
  std::vector<archive::Finding> findings_;
};

// Only a report is replaced by a report.
void write_page(const fs::path& path, const std::string& page) {
  if (archive::is_there(path)) {
    std::error_code ignored;
    if (!fs::is_regular_file(path, ignored) || !archive::read_file(path).starts_with(report::kPageBeginning))
      throw UserError(path.string(), "exists and is no report", "name another file with --out");
  }
  archive::write_file(path, page);
}

}  // namespace

int run_report(const ReportOptions& options) {
  report::ReportParts parts = gather(options);
  Cleaner cleaner(options);
  cleaner.clean(parts);
  cleaner.require_clean();
  const std::string page = report::page(report::document(parts));
  if (options.out == "-") {
    std::fwrite(page.data(), 1, page.size(), stdout);
    return 0;
  }
  std::string out = options.out;
  if (out.empty()) out = parts.runs.size() == 1 ? parts.runs[0].summary.id + ".html" : "report.html";
  archive::writing_out([&] { write_page(out, page); });
  if (options.json) {
    archive::Json runs = archive::Json::array();
    for (const report::RunEntry& entry : parts.runs) runs.push_back(entry.summary.id);
    archive::print_json_line({{"file", out}, {"size", page.size()}, {"sha256", archive::sha256(page)}, {"runs", runs}});
  } else {
    fmt::print("{}: {}, {} bytes\n", archive::printable(out), plural(parts.runs.size(), "run"), page.size());
  }
  return 0;
}

}  // namespace isobit::report
