#include "report/run_entry.h"

#include <fmt/format.h>
#include <sys/stat.h>

#include <algorithm>
#include <atomic>
#include <bit>
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <mutex>
#include <thread>

#include "archive/files.h"
#include "archive/log_lines.h"
#include "archive/manifest.h"
#include "archive/printable.h"
#include "archive/record_file.h"
#include "archive/record_part.h"
#include "archive/run_record.h"
#include "archive/run_state.h"
#include "archive/runs.h"
#include "archive/user_error.h"
#include "report/inputs.h"
#include "report/page_section.h"

namespace isobit::report {
namespace {

namespace fs = std::filesystem;
using archive::RunState;

void add_steps(RunEntry& entry, const std::vector<archive::StepLine>& steps) {
  entry.loss.of = static_cast<std::int64_t>(steps.size());
  for (const archive::StepLine& line : steps) {
    // A program's step without one loss, as the format spells it, is no NaN of the training.
    if (entry.script && line.loss_bits == 0x7fc00000) continue;
    entry.loss.steps.push_back(line.step);
    entry.loss.values.push_back(decimal_loss(line.loss_bits));
  }
}

void add_times(RunEntry& entry, const std::vector<archive::TimingLine>& timings) {
  for (const archive::TimingLine& line : timings) {
    if (line.phase == "epoch" || line.phase == "evaluate") entry.seconds += line.seconds;
  }
}

std::string text_of(const fs::path& path) {
  return archive::is_there(path) ? archive::read_record_file(path, std::uint64_t{1} << 28) : "";
}

void add_predictions(RunEntry& entry, const fs::path& folder, bool unfinished) {
  const fs::path path = folder / kPredictionsLog;
  if (archive::is_there(path)) entry.predictions = last_predictions(text_of(path), path, unfinished);
}

void read_sealed(RunEntry& entry, const fs::path& folder) {
  const auto record = archive::RunRecord::open(folder, archive::RunRecord::Contents::but_checkpoints);
  entry.summary = record.summary();
  entry.summary.state = RunState::finished;
  entry.seal = record.seal();
  entry.record =
      fmt::format("sealed: {} files, {} bytes, as sealed (checkpoints: their sizes)", record.files(), record.bytes());
  entry.script = record.is_script();
  entry.experiment = record.experiment();
  entry.environment = record.environment();
  entry.data = record.data();
  add_steps(entry, record.steps());
  add_times(entry, record.timings());
  entry.metrics = record.metrics();
  if (const auto& outside = record.outside()) entry.outside = *outside;
  entry.parts = record.parts();
  add_predictions(entry, folder, false);
  entry.verify = "isobit verify " + entry.summary.id;
}

void read_unsealed(RunEntry& entry, const fs::path& folder) {
  entry.record = "not sealed: the run is not finished";
  entry.experiment = text_of(folder / archive::kExperimentFile);
  entry.environment = text_of(folder / archive::kEnvironmentFile);
  entry.data = text_of(folder / archive::kDataFile);
  entry.script = entry.experiment.find("[script]\n") != std::string::npos;
  add_steps(entry, archive::parse_unfinished_log<archive::StepLine>(text_of(folder / archive::kStepsLog)));
  add_times(entry, archive::parse_unfinished_log<archive::TimingLine>(text_of(folder / archive::kTimingsLog)));
  entry.metrics = archive::parse_unfinished_log<archive::MetricsLine>(text_of(folder / archive::kMetricsLog));
  entry.outside = archive::parse_unfinished_log<archive::OutsideLine>(text_of(folder / archive::kOutsideLog));
  add_predictions(entry, folder, true);
  for (const std::string& file : archive::names_in(folder)) {
    if (const std::string part = archive::part_name(file); !part.empty()) entry.parts[part] = text_of(folder / file);
  }
}

// A section that cannot read its run says so, and hides neither the run nor the other sections.
void add_sections(RunEntry& entry, const fs::path& folder) {
  entry.sections = nlohmann::ordered_json::object();
  if (entry.summary.state == RunState::damaged) return;
  for (const PageSection& section : page_sections()) {
    if (!section.of_run) continue;
    try {
      nlohmann::ordered_json data = section.of_run(entry, folder);
      if (!data.is_null()) entry.sections[section.name] = printable_json(data);
    } catch (const std::exception& error) {  // the part may be anybody's
      entry.sections[section.name] = {{"problem", archive::printable(error.what())}};
    }
  }
}

std::string folder_name(const fs::path& folder) {
  std::error_code error;
  const fs::path whole = fs::weakly_canonical(folder, error);
  return (error ? folder : whole).filename().string();
}

std::string with_home_as_tilde(const std::string& path) {
  const char* home = std::getenv("HOME");
  if (home == nullptr || *home == 0 || std::string_view(home) == "/") return path;
  const std::string prefix = std::string(home) + "/";
  return path.starts_with(prefix) ? "~/" + path.substr(prefix.size()) : path;
}

}  // namespace

double decimal_loss(std::uint32_t bits) {
  const auto value = std::bit_cast<float>(bits);
  double result = value;
  if (!std::isfinite(value)) return result;
  char digits[32];
  const auto end = std::to_chars(digits, digits + sizeof digits, value).ptr;
  std::from_chars(digits, end, result);
  return result;
}

std::string hex_bits(std::uint32_t bits) { return fmt::format("{:08x}", bits); }

bool is_stock(const archive::RunSummary& summary) { return summary.contract.starts_with("stock-"); }

RunEntry read_run(const fs::path& folder) {
  RunEntry entry;
  try {
    if (archive::is_there(folder / archive::kManifest)) {
      read_sealed(entry, folder);
    } else {
      entry.summary = archive::summarize(folder);
      if (entry.summary.state != RunState::damaged) read_unsealed(entry, folder);
      if (entry.summary.state == RunState::running) entry.summary.note.clear();  // it names the writer's machine
    }
  } catch (const archive::UserError& damage) {
    entry = {};  // what cannot be trusted is not shown
    entry.summary.id = entry.summary.name = folder_name(folder);
    entry.summary.state = RunState::damaged;
    entry.summary.note = fmt::format("{}: {}", fs::path(damage.place()).filename().string(), damage.problem());
  } catch (const std::bad_alloc&) {
    entry = {};
    entry.summary.id = entry.summary.name = folder_name(folder);
    entry.summary.state = RunState::damaged;
    entry.summary.note = "larger than the memory here";
  }
  if (entry.summary.state == RunState::damaged) entry.record = "damaged";
  entry.path = with_home_as_tilde(folder.string());
  entry.settings = parse_settings(entry.experiment);
  add_sections(entry, folder);
  return entry;
}

std::string stamp_of_run(const fs::path& folder) {
  const bool sealed = archive::is_there(folder / archive::kManifest);
  std::string stamp = sealed ? "sealed" : archive::to_string(archive::summarize(folder).state);
  for (const char* file : {archive::kStateFile, archive::kManifest, archive::kExperimentFile, archive::kStepsLog,
                           archive::kMetricsLog, archive::kTimingsLog, kPredictionsLog}) {
    struct stat status {};
    if (::stat((folder / file).c_str(), &status) != 0) {
      stamp += ";-";
    } else {
      stamp +=
          fmt::format(";{}:{}.{}:{}", status.st_size, status.st_mtim.tv_sec, status.st_mtim.tv_nsec, status.st_ino);
    }
  }
  for (const std::string& file : archive::names_in(folder)) {
    if (struct stat status{}; !archive::part_name(file).empty() && ::stat((folder / file).c_str(), &status) == 0)
      stamp += fmt::format(";{}:{}.{}", file, status.st_mtim.tv_sec, status.st_mtim.tv_nsec);
  }
  return stamp;
}

std::vector<RunEntry> read_runs(const std::vector<fs::path>& folders, const std::function<void(std::size_t)>& tick) {
  std::vector<RunEntry> entries(folders.size());
  std::atomic<std::size_t> next{0};
  std::size_t done = 0;
  std::mutex telling;
  std::exception_ptr failure;
  const auto work = [&] {
    for (std::size_t i = next++; i < folders.size(); i = next++) {
      try {
        entries[i] = read_run(folders[i]);
      } catch (...) {
        const std::lock_guard lock(telling);
        if (failure == nullptr) failure = std::current_exception();
        next = folders.size();
        return;
      }
      const std::lock_guard lock(telling);
      done += 1;
      if (tick) tick(done);
    }
  };
  std::vector<std::jthread> helpers;
  const std::size_t threads = std::min<std::size_t>(std::max(1u, std::thread::hardware_concurrency()), folders.size());
  for (std::size_t i = 1; i < threads; ++i) helpers.emplace_back(work);
  work();
  helpers.clear();
  if (failure != nullptr) std::rethrow_exception(failure);
  return entries;
}

}  // namespace isobit::report
