#include "archive/runs.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstdlib>
#include <future>
#include <iterator>
#include <string_view>
#include <thread>
#include <tuple>

#include "archive/files.h"
#include "archive/log_lines.h"
#include "archive/manifest.h"
#include "archive/record_file.h"
#include "archive/run_index.h"
#include "archive/run_lock.h"
#include "archive/run_record.h"
#include "archive/run_state.h"
#include "archive/sha256.h"
#include "archive/suggest.h"
#include "archive/user_error.h"

namespace isobit::archive {
namespace {

namespace fs = std::filesystem;

// The archive's folder, from which its runs' files are looked at: a path of two parts is found sooner than a long one.
class OpenFolder {
 public:
  explicit OpenFolder(const fs::path& folder)
      : descriptor_(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC)) {
    if (descriptor_ < 0 && errno != ENOENT) throw_file_error(folder, "cannot be read", errno);
  }
  ~OpenFolder() {
    if (descriptor_ >= 0) ::close(descriptor_);
  }
  OpenFolder(const OpenFolder&) = delete;
  OpenFolder& operator=(const OpenFolder&) = delete;
  [[nodiscard]] int descriptor() const { return descriptor_; }

 private:
  int descriptor_;
};

void append_number(std::string& text, std::int64_t number, char end) {
  char digits[24];
  const auto written = std::to_chars(std::begin(digits), std::end(digits), number);
  text.append(digits, written.ptr).push_back(end);
}

// How the files that a summary is made of look; "-" for one that is missing. "" for a folder with nothing that a run
// leaves.
std::string stamp_of(const OpenFolder& runs, const std::string& id) {
  std::string stamp, path = id + "/";
  stamp.reserve(256);
  const std::size_t length = path.size();
  bool run = false;  // one of the first three files makes it one: is_run
  int number = 0;
  for (const char* file : {kStateFile, kManifest, kStepsLog, kMetricsLog, kCheckpointFolder}) {
    struct stat status {};
    ++number;
    path.resize(length);
    path += file;
    if (::fstatat(runs.descriptor(), path.c_str(), &status, 0) != 0) {
      stamp += "-;";
      continue;
    }
    run = run || number <= 3;
    append_number(stamp, status.st_size, ':');
    append_number(stamp, status.st_mtim.tv_sec, '.');
    append_number(stamp, status.st_mtim.tv_nsec, ':');
    append_number(stamp, static_cast<std::int64_t>(status.st_ino), ';');
  }
  return run ? stamp : "";
}

// Of each run. Looking at files is what a list of many runs waits for, on a network above all: some threads share it.
std::vector<std::string> stamps_of(const OpenFolder& runs, const std::vector<std::string>& ids) {
  constexpr std::size_t kWorthAThread = 500;
  std::vector<std::string> stamps(ids.size());
  const std::size_t most = std::clamp<std::size_t>(std::thread::hardware_concurrency(), 1, 4);
  const std::size_t parts = std::clamp<std::size_t>(ids.size() / kWorthAThread, 1, most);
  const auto look = [&](std::size_t part) {
    for (std::size_t i = ids.size() * part / parts; i < ids.size() * (part + 1) / parts; ++i)
      stamps[i] = stamp_of(runs, ids[i]);
  };
  std::vector<std::future<void>> others;
  for (std::size_t part = 1; part < parts; ++part)
    others.push_back(std::async(std::launch::async | std::launch::deferred, look, part));
  look(0);
  for (std::future<void>& other : others) other.get();
  return stamps;
}

std::int64_t last_step(const fs::path& run) {
  const std::string log = read_record_file(run / kStepsLog);
  const auto end = log.rfind('\n');
  if (end == std::string::npos) return 0;
  const auto begin = end == 0 ? std::string::npos : log.rfind('\n', end - 1);
  StepLine line;
  const auto first = begin == std::string::npos ? 0 : begin + 1;
  return parse_line(std::string_view(log).substr(first, end - first), line) ? line.step : 0;
}

// A summary of what lies in the folder; who holds the lock is not looked at.
RunSummary read_summary(const fs::path& run) {
  RunSummary summary;
  summary.id = summary.name = run.filename().string();
  try {
    const std::string text = read_record_file(run / kStateFile, largest_file(kStateFile));
    const StateFile state = parse_state(text, kStateFile);
    summary = {summary.id, state.name, RunState::interrupted, state.contract, state.created, state.steps, "", "",
               {},         ""};
    const std::string metrics = read_record_file(run / kMetricsLog);
    summary.metrics = last_of_each_set(parse_unfinished_log<MetricsLine>(metrics));
    if (fs::exists(run / kManifest)) {
      const std::string id = summary.id;
      summary = RunRecord::open(run, RunRecord::Contents::but_checkpoints).summary();
      summary.id = id;
      return summary;
    }
    summary.steps = last_step(run);
    if (state.state == "failed") {
      summary.state = RunState::failed;
      summary.note = state.reason;
    } else if (state.state == "finished") {
      summary.note = "manifest.json is missing";
    }
  } catch (const UserError& error) {
    summary.state = RunState::damaged;
    summary.metrics.clear();  // what cannot be trusted is not shown
    const std::string problem = error.problem();
    summary.note = fs::path(error.place()).filename().string() + ": " +
                   problem.substr(problem.starts_with("damaged: ") ? std::string_view("damaged: ").size() : 0);
  } catch (const std::exception& error) {  // of the file system
    summary.state = RunState::damaged;
    summary.note = error.what();
  }
  return summary;
}

void look_at_lock(RunSummary& summary, const fs::path& runs) {
  if (summary.state != RunState::interrupted && summary.state != RunState::failed) return;
  if (const auto holder = lock_holder(runs, summary.id)) {
    summary.state = RunState::running;
    summary.note = *holder;
  }
}

// A folder with anything that a run leaves.
bool is_run(const fs::path& folder) {
  std::error_code ignored;
  return fs::exists(folder / kStateFile, ignored) || fs::exists(folder / kManifest, ignored) ||
         fs::exists(folder / kStepsLog, ignored);
}

// Of everything in the archive whose name could be a run's.
std::vector<std::string> names_of_runs(const fs::path& runs) {
  std::vector<std::string> names;
  std::error_code error;
  for (fs::directory_iterator it(runs, error), end; !error && it != end; it.increment(error)) {
    std::string name = it->path().filename().string();
    if (!name.starts_with('.')) names.push_back(std::move(name));
  }
  if (error && error.value() != ENOENT) throw_file_error(runs, "cannot be read", error.value());
  return names;
}

std::vector<std::string> run_ids(const fs::path& runs) {
  std::vector<std::string> ids = names_of_runs(runs);
  std::erase_if(ids, [&](const std::string& name) { return !is_run(runs / name); });
  return ids;
}

}  // namespace

fs::path runs_folder(const std::string& option) {
  if (!option.empty()) return option;
  const char* variable = std::getenv("ISOBIT_RUNS");
  return variable != nullptr && variable[0] != '\0' ? variable : "runs";
}

RunSummary summarize(const fs::path& run) {
  std::error_code error;
  fs::path folder = fs::weakly_canonical(run, error);
  if (error) folder = run;
  RunSummary summary = read_summary(folder);
  look_at_lock(summary, folder.parent_path());
  return summary;
}

std::string ending_of(const std::string& once) { return sha256(once).substr(0, 8); }

std::optional<fs::path> find_ending(const fs::path& runs, const std::string& ending) {
  std::optional<fs::path> found;
  for (const std::string& name : names_in(runs)) {
    if (name.starts_with('.') || !name.ends_with("-" + ending)) continue;
    if (found) {
      throw UserError(runs.string(),
                      fmt::format("two runs end in {}: {} and {}", ending, found->filename().string(), name),
                      "resume the right one: isobit run --resume RUN");
    }
    found = runs / name;
  }
  return found;
}

std::vector<RunSummary> list_runs(const fs::path& runs) {
  RunIndex index(index_path(), runs);
  std::vector<RunSummary> list;
  const std::vector<std::string> ids = names_of_runs(runs);
  // Before reading: a file that changes meanwhile gives a stamp that will not fit next time.
  const std::vector<std::string> stamps = stamps_of(OpenFolder(runs), ids);
  for (std::size_t i = 0; i < ids.size(); ++i) {
    const std::string &id = ids[i], &stamp = stamps[i];
    if (stamp.empty()) continue;
    auto summary = index.find(id, stamp);
    if (!summary) {
      summary = read_summary(runs / id);
      index.put(id, stamp, *summary);
    }
    look_at_lock(*summary, runs);
    list.push_back(std::move(*summary));
  }
  std::sort(list.begin(), list.end(), [](const RunSummary& a, const RunSummary& b) {
    return std::tie(a.created, a.id) > std::tie(b.created, b.id);
  });
  return list;
}

fs::path find_run(const fs::path& runs, const std::string& word) {
  if (word.find('/') != std::string::npos || word == "." || word == "..") {
    if (is_run(word)) return word;
    throw UserError(word, "not a run's folder", "isobit log lists the runs");
  }
  if (word == "last") {
    const auto list = list_runs(runs);
    if (list.empty())
      throw UserError(runs.string(), "holds no runs", "start one with isobit run, or name another folder with --runs");
    return runs / list.front().id;
  }
  // Whole ids are not looked for among all, nor are all looked into: a command may name ten thousand of ten thousand.
  if (!word.empty() && !word.starts_with('.') && is_run(runs / word)) return runs / word;
  std::vector<std::string> fitting = names_of_runs(runs);
  std::erase_if(fitting, [&](const std::string& name) {
    return word.empty() || !name.starts_with(word) || !is_run(runs / name);
  });
  if (fitting.size() == 1) return runs / fitting[0];
  if (fitting.size() > 1) {
    throw UserError(word, fmt::format("{} runs in {} begin like this", fitting.size(), runs.string()),
                    "give more of the id");
  }
  if (is_run(word)) return word;
  std::vector<std::string> words = run_ids(runs);
  words.emplace_back("last");
  const std::string near = nearest(word, words);
  throw UserError(word, fmt::format("no such run in {}", runs.string()),
                  near.empty() ? "isobit log lists the runs" : fmt::format("did you mean '{}'?", near));
}

}  // namespace isobit::archive
