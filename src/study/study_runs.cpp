#include "study/study_runs.h"

#include <fmt/format.h>
#include <sys/resource.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <thread>
#include <unordered_map>

#include "archive/files.h"
#include "archive/json_text.h"
#include "archive/printable.h"
#include "archive/record_types.h"
#include "archive/runs.h"
#include "archive/user_error.h"
#include "kernels/threads.h"
#include "process/capability.h"
#include "process/child_process.h"
#include "process/free_memory.h"
#include "study/study_progress.h"
#include "study/study_script.h"

namespace isobit::study {
namespace {

namespace fs = std::filesystem;
using study::Cell;
using study::CellState;

constexpr int kPatience = 120;             // seconds that a run has to end after its step
constexpr std::uint64_t kGuess = 1 << 30;  // bytes of a run, before one has ended
constexpr const char* kDiverged = "diverged: ";

double seconds_now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

// Of the largest child that has ended.
std::uint64_t largest_run() {
  rusage usage{};
  ::getrusage(RUSAGE_CHILDREN, &usage);
  return static_cast<std::uint64_t>(usage.ru_maxrss) << 10;
}

std::int64_t number_or(const std::string& text, std::int64_t otherwise) {
  return text.empty() ? otherwise : std::strtoll(text.c_str(), nullptr, 10);
}

// The id in what `isobit run --json` printed last.
std::string id_in(const std::string& output) {
  try {
    const auto end = output.find_last_not_of('\n');
    const auto begin = output.rfind('\n', end);
    const std::string line = output.substr(begin == std::string::npos ? 0 : begin + 1);
    const std::string id = archive::parse_json(line).at("id").get<std::string>();
    return id.find('/') == std::string::npos && !id.starts_with('.') ? id : "";
  } catch (const std::exception&) {  // no such line
    return "";
  }
}

StudyCounts count(const std::vector<Cell>& cells) {
  StudyCounts counts;
  counts.cells = static_cast<std::int64_t>(cells.size());
  for (const Cell& cell : cells) {
    if (cell.state == CellState::running) ++counts.running;
    if (cell.state == CellState::failed) ++counts.failed;
    if (cell.state == CellState::failed || cell.state == CellState::finished) ++counts.done;
  }
  return counts;
}

}  // namespace

StudyRuns::StudyRuns(const study::Study& study, std::vector<Cell>& cells, StudySettings settings)
    : study_(study),
      cells_(cells),
      settings_(std::move(settings)),
      records_(study, settings_.given),
      cores_(kernels::available_cpus()),
      free_memory_(process::free_memory()) {}

std::int64_t StudyRuns::jobs_at_once() const {
  const std::uint64_t each = study_.memory > 0 ? static_cast<std::uint64_t>(study_.memory) << 20
                                               : std::max(kGuess, largest_run() + largest_run() / 4);
  const auto fitting = static_cast<std::int64_t>(free_memory_ / each);
  return std::max<std::int64_t>(1, settings_.jobs > 0 ? std::min(settings_.jobs, fitting) : fitting);
}

std::int64_t StudyRuns::cores_of(const Cell& cell) const {
  return number_or(study::option_of(cell, "threads"), study_.threads) * number_or(study::option_of(cell, "workers"), 1);
}

void StudyRuns::find_finished() {
  std::unordered_map<std::string, archive::RunSummary> by_ending;
  for (archive::RunSummary& summary : archive::list_runs(runs())) {
    if (summary.id.size() <= 9) continue;
    archive::RunSummary& known = by_ending[summary.id.substr(summary.id.size() - 8)];
    // A script that was interrupted begins a new record.
    if (known.state != archive::RunState::finished || known.id.empty()) known = std::move(summary);
  }
  for (Cell& cell : cells_) {
    if (cell.state == CellState::failed && !cell.note.starts_with(kDiverged)) cell.state = CellState::waiting;
    const auto found = by_ending.find(archive::ending_of(study::once_name(study_, cell)));
    // A run that somebody removed is made again.
    if (found == by_ending.end() && cell.state == CellState::finished) cell.state = CellState::waiting;
    if (found != by_ending.end() && cell.state != CellState::failed) {
      if (!take_result(cell, found->second)) {
        cell.state = CellState::waiting;
      } else if (const std::string why = records_.contradiction(cell, runs() / cell.run); !why.empty()) {
        throw archive::UserError((runs() / cell.run).string(),
                                 fmt::format("has the id of the run of cell {}, and is another run: {}", cell.index,
                                             archive::printable(why)),
                                 "move it out of the study's runs");
      }
    }
    if (cell.state == CellState::waiting) cell.value.reset(), cell.note.clear(), cell.weights.clear();
  }
}

bool StudyRuns::take_result(Cell& cell, const archive::RunSummary& summary) {
  cell.run = summary.id;
  if (summary.state != archive::RunState::finished) return false;
  cell.state = CellState::finished;
  cell.weights = summary.weights;
  cell.value.reset();
  cell.note = fmt::format("the run has no {}", study_.metric);
  const std::scoped_lock lock(measured_mutex_);
  for (const archive::MetricsLine& line : summary.metrics) {
    for (const auto& [name, value] : line.values) measured_.insert(line.set + "." + name);
    if (line.set != study_.metric_set()) continue;
    const auto found = line.values.find(study_.metric_value());
    if (found == line.values.end()) continue;
    cell.note = std::isfinite(found->second) ? "" : fmt::format("{} is {}", study_.metric, found->second);
    if (std::isfinite(found->second)) cell.value = found->second;
  }
  return true;
}

bool StudyRuns::execute(const std::atomic<bool>& stop) {
  const auto threads = static_cast<std::size_t>(
      std::clamp<std::int64_t>(settings_.jobs > 0 ? settings_.jobs : cores_, 1,
                               std::max<std::int64_t>(1, static_cast<std::int64_t>(cells_.size()))));
  save(true);
  StudyProgress progress(count(cells_).done);
  std::vector<std::jthread> workers;
  std::atomic<std::size_t> ended{0};
  for (std::size_t i = 0; i < threads; ++i) {
    workers.emplace_back([&] {
      work(stop);
      ++ended;
    });
  }
  while (ended < threads) {
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
    changed_.notify_all();  // of `stop`, which a signal sets
    const std::scoped_lock lock(mutex_);
    progress.show(count(cells_));
  }
  workers.clear();
  save(true);
  if (problem_) std::rethrow_exception(problem_);
  return std::none_of(cells_.begin(), cells_.end(), [](const Cell& c) { return c.state == CellState::waiting; });
}

// In order: a large run is not passed over for ever.
Cell* StudyRuns::next_cell() {
  while (next_ < cells_.size() && cells_[next_].state != CellState::waiting) ++next_;
  return next_ < cells_.size() ? &cells_[next_] : nullptr;
}

void StudyRuns::work(const std::atomic<bool>& stop) {
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [&] {
      const Cell* cell = next_cell();
      return stop || problem_ || cell == nullptr || running_ == 0 ||
             (cores_taken_ + cores_of(*cell) <= cores_ && running_ < jobs_at_once());
    });
    Cell* cell = next_cell();
    if (stop || problem_ || cell == nullptr) return;
    const std::int64_t cores = cores_of(*cell);
    cell->state = CellState::running;
    ++running_;
    cores_taken_ += cores;
    Cell own = *cell;
    try {
      save(false);
      lock.unlock();
      run_cell(own, stop);
      lock.lock();
      *cell = std::move(own);
      save(false);
    } catch (...) {
      if (!lock.owns_lock()) lock.lock();
      cell->state = CellState::waiting;
      problem_ = std::current_exception();
    }
    --running_;
    cores_taken_ -= cores;
    changed_.notify_all();
  }
}

std::vector<std::string> StudyRuns::words_of(const Cell& cell) const {
  std::vector<std::string> words = {settings_.program,
                                    "run",
                                    (settings_.folder / "experiment.toml").string(),
                                    "--json",
                                    "--runs",
                                    runs().string(),
                                    "--once",
                                    study::once_name(study_, cell)};
  for (const std::string& setting : study::overrides_of(study_, cell)) words.insert(words.end(), {"--set", setting});
  words.insert(words.end(),
               {"--threads", std::to_string(number_or(study::option_of(cell, "threads"), study_.threads))});
  for (const char* option : {"isa", "device", "workers"}) {
    const std::string level = study::option_of(cell, option);
    if (!level.empty()) words.insert(words.end(), {std::string("--") + option, level});
  }
  return words;
}

void StudyRuns::run_script(Cell& cell, const std::atomic<bool>& stop) {
  process::ChildRequest request =
      script_request(study_, cell, runs(), number_or(study::option_of(cell, "threads"), study_.threads));
  request.stop = &stop;
  request.patience = kPatience;
  const process::ChildResult result = process::run_child(request);
  cell.state = CellState::waiting;
  if (result.interrupted) return;
  const auto summary = script_record(study_, cell, runs());
  const bool finished = summary && take_result(cell, *summary);  // the record decides
  const std::string why = finished ? records_.contradiction(cell, runs() / cell.run) : "";
  if (finished && why.empty()) return;
  cell.state = CellState::failed;
  if (finished) {
    cell.value.reset();
    cell.note = "the record is of another program: " + archive::printable(why);
    return;
  }
  const std::string words = last_words(result.err);
  cell.note = result.code != 0 ? (words.empty() ? result.how_it_ended() : words)
              : summary        ? "the program ended without a finished record"
                               : "the program made no record: it has no isobit.record, or one of isobit check";
}

void StudyRuns::run_cell(Cell& cell, const std::atomic<bool>& stop) {
  if (study_.script) return run_script(cell, stop);
  process::ChildRequest request;
  request.words = words_of(cell);
  request.environment = process::capability_variables(study::option_of(cell, "capability"));
  request.stop = &stop;
  request.patience = kPatience;
  const process::ChildResult result = process::run_child(request);
  const std::string id = id_in(result.output);
  if (!id.empty()) cell.run = id;
  cell.state = CellState::waiting;
  if (result.interrupted || result.code == 130) return;
  if (result.code == 0 && !id.empty() && take_result(cell, archive::summarize(runs() / id))) return;
  cell.state = CellState::failed;
  cell.note = (result.code == 1 ? kDiverged : "") + result.error_line();
  if (result.code == 0) cell.note = "the run ended without a finished record";
  if (result.code == 137) cell.note += " (out of memory? Set memory = MiB in [study], or --jobs)";
}

void StudyRuns::save(bool now) {
  if (!now && seconds_now() - saved_ < 1) return;
  archive::write_file(settings_.folder / "cells.json", study::format_cells(study_, cells_));
  saved_ = seconds_now();
}

}  // namespace isobit::study
