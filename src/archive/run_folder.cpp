#include "archive/run_folder.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <deque>
#include <stdexcept>
#include <utility>

#include "archive/files.h"
#include "archive/log_file.h"
#include "archive/log_lines.h"
#include "archive/manifest.h"
#include "archive/run_lock.h"
#include "archive/run_state.h"
#include "archive/sha256.h"
#include "archive/unfinished_run.h"
#include "archive/user_error.h"
#include "contract/platform.h"

namespace isobit::archive {

const RunKind kExperimentRun{
    {kStepsLog, kMetricsLog, kTimingsLog},
    "this machine or program computes wrongly: start the run anew and verify it on another machine"};
const RunKind kScriptRun{{kStepsLog, kMetricsLog, kEvaluationsLog, kOutsideLog, kTimingsLog},
                         "check that the script restores all of its state"};

namespace {

namespace fs = std::filesystem;

constexpr const char* kRestore = "restore the run's folder from a copy";

void require_name(const std::string& name) {
  const bool good = !name.empty() && name.size() <= 64 && name[0] != '.' &&
                    std::all_of(name.begin(), name.end(), [](unsigned char c) {
                      return (c < 128 && std::isalnum(c)) || c == '-' || c == '_' || c == '.';
                    });
  if (!good)
    throw UserError("", fmt::format("'{}' is not a valid run name", name),
                    "use 1 to 64 letters, digits, - _ and ., not beginning with a dot");
}

// "20261121-045835-fashion-mlp-3f9a2c01"
std::string make_id(const std::string& created, const std::string& name) {
  std::string digits;
  for (const char c : created.substr(0, 19)) {
    if (std::isdigit(static_cast<unsigned char>(c))) digits += c;
  }
  return fmt::format("{}-{}-{}-{}", digits.substr(0, 8), digits.substr(8), name, random_suffix());
}

std::string without_end(const std::string& line) { return line.substr(0, line.size() - 1); }

}  // namespace

struct RunFolder::Impl {
  Impl(fs::path folder_, StateFile state_, RunLock lock_, const RunKind& kind_)
      : folder(std::move(folder_)),
        state(std::move(state_)),
        lock(std::move(lock_)),
        kind(kind_),
        checkpoints(folder / kCheckpointsLog) {
    for (const char* log : kind.logs) logs.try_emplace(log, folder / log);
  }
  ~Impl() { write_waiting(); }
  Impl(const Impl&) = delete;
  Impl& operator=(const Impl&) = delete;

  [[nodiscard]] LogFile& log(const std::string& name) {
    const auto found = logs.find(name);
    if (found == logs.end()) throw std::invalid_argument(name + " is no log of this run");
    return found->second;
  }
  void write() {
    for (const char* name : kind.logs) log(name).write();
  }
  // What waits, where nobody can be told of a failure any more: resuming finds the steps before.
  void write_waiting() noexcept {
    try {
      write();
    } catch (const std::exception&) {
    }
  }
  void write_state() { write_file(folder / kStateFile, format_state(state)); }
  void remove_old_checkpoints(std::int64_t keep);
  [[nodiscard]] Manifest seal() const;

  fs::path folder;
  StateFile state;
  RunLock lock;
  RunKind kind;
  std::map<std::string, LogFile> logs;
  LogFile checkpoints;
  std::map<std::string, std::string> inputs;
  std::vector<CheckpointEntry> kept;
  std::optional<CheckpointEntry> resumed_from;
  std::deque<StepLine> replayed;  // steps that the cut-off log held: must come out the same
  bool finished = false;
};

RunFolder::RunFolder(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
RunFolder::RunFolder(RunFolder&&) noexcept = default;
RunFolder& RunFolder::operator=(RunFolder&&) noexcept = default;
RunFolder::~RunFolder() = default;

const std::string& RunFolder::id() const { return impl_->state.id; }
const fs::path& RunFolder::path() const { return impl_->folder; }
std::int64_t RunFolder::steps() const { return impl_->state.steps; }
const std::string& RunFolder::input(const std::string& name) const { return impl_->inputs.at(name); }
const std::optional<CheckpointEntry>& RunFolder::checkpoint() const { return impl_->resumed_from; }
std::uint64_t RunFolder::size(const std::string& log) const { return impl_->log(log).size(); }

RunFolder RunFolder::create(const fs::path& runs, const std::string& name, std::map<std::string, std::string> inputs,
                            const RunKind& kind) {
  require_name(name);
  make_folders(runs);
  StateFile state;
  state.created = utc_now();
  state.name = name;
  state.contract = contract::kContractVersion;
  state.id = make_id(state.created, name);

  RunLock lock = RunLock::acquire(runs, state.id);
  // Made under a hidden name, so that no list ever sees half a run.
  const fs::path making = runs / (".tmp-" + state.id);
  try {
    make_folders(making);
    for (const auto& [file, text] : inputs) {
      write_file(making / file, text);
      state.inputs[file] = {text.size(), sha256(text)};
    }
    for (const char* log : kind.logs) write_file(making / log, "");
    write_file(making / kCheckpointsLog, "");
    write_file(making / kStateFile, format_state(state));
    std::error_code error;
    fs::rename(making, runs / state.id, error);
    if (error) throw_file_error(runs / state.id, "cannot be created", error.value());
    sync_folder(runs);
  } catch (...) {
    std::error_code ignored;
    fs::remove_all(making, ignored);
    throw;
  }
  const fs::path folder = runs / state.id;
  auto impl = std::make_unique<Impl>(folder, std::move(state), std::move(lock), kind);
  impl->inputs = std::move(inputs);
  return RunFolder(std::move(impl));
}

RunFolder RunFolder::resume(const fs::path& run, const std::string& environment, const RunKind& kind) {
  const fs::path folder = fs::weakly_canonical(run);
  if (!fs::exists(folder / kStateFile)) {
    throw UserError(run.string(), "not a run's folder", "isobit log lists the runs");
  }
  RunLock lock = RunLock::acquire(folder.parent_path(), folder.filename().string());
  UnfinishedRun left = cut_back(folder, kind.logs);
  const auto environments = std::count_if(left.state.inputs.begin(), left.state.inputs.end(),
                                          [](const auto& input) { return input.first.starts_with("environment-"); });
  const std::string file = fmt::format("environment-{}.json", environments + 2);
  write_file(folder / file, environment);
  left.inputs[file] = environment;
  left.state.inputs[file] = {environment.size(), sha256(environment)};
  left.state.state = "running";
  left.state.reason.clear();
  left.state.steps = left.checkpoints.empty() ? 0 : left.checkpoints.back().entry.step;

  auto impl = std::make_unique<Impl>(folder, std::move(left.state), std::move(lock), kind);
  for (auto& [name, log] : impl->logs) log.continue_from(left.hashes.at(name));
  impl->checkpoints.continue_from(left.hashes.at(kCheckpointsLog));
  impl->inputs = std::move(left.inputs);
  for (const CheckpointLine& line : left.checkpoints) {
    if (fs::exists(folder / line.entry.file)) impl->kept.push_back(line.entry);
  }
  if (!impl->kept.empty()) impl->resumed_from = impl->kept.back();
  impl->replayed.assign(left.cut_off.begin(), left.cut_off.end());
  impl->write_state();
  return RunFolder(std::move(impl));
}

void RunFolder::append(const std::string& log, const std::string& line, Wait wait) {
  impl_->log(log).append(line);
  if (wait == Wait::no) flush();
}

void RunFolder::append_step(std::int64_t step, const std::string& line, Wait wait) {
  if (step != impl_->state.steps + 1) {
    throw std::invalid_argument(fmt::format("step {} appended after step {}", step, impl_->state.steps));
  }
  if (!impl_->replayed.empty()) {
    const std::string before = format_line(impl_->replayed.front());
    if (before != line) {
      throw UserError((impl_->folder / kStepsLog).string(),
                      fmt::format("step {} came out differently after resuming: {} now, {} before", step,
                                  without_end(line), without_end(before)),
                      impl_->kind.other_step_remedy);
    }
    impl_->replayed.pop_front();
  }
  append(kStepsLog, line, wait);
  impl_->state.steps = step;
}

void RunFolder::flush() { impl_->write(); }

void RunFolder::write_checkpoint(const std::string& suffix, std::span<const std::span<const std::byte>> pieces,
                                 std::int64_t keep) {
  impl_->lock.require_held();
  CheckpointLine line;
  for (auto& [name, log] : impl_->logs) {
    log.sync();
    line.logs[name] = log.digest();
  }
  if (!fs::exists(impl_->folder / kCheckpointFolder)) {
    make_folders(impl_->folder / kCheckpointFolder);
    sync_folder(impl_->folder);
  }
  Sha256 hash;
  line.entry = {impl_->state.steps, fmt::format("{}/step-{}{}", kCheckpointFolder, impl_->state.steps, suffix), 0, ""};
  for (const auto& piece : pieces) {
    hash.update(piece);
    line.entry.size += piece.size();
  }
  line.entry.sha256 = hash.hex();
  write_file(impl_->folder / line.entry.file, pieces);
  // Only now: a checkpoint without its line is none.
  impl_->checkpoints.append(format_line(line));
  impl_->checkpoints.sync();
  std::erase_if(impl_->kept, [&](const CheckpointEntry& entry) { return entry.step == line.entry.step; });
  impl_->kept.push_back(line.entry);
  impl_->remove_old_checkpoints(keep);
}

void RunFolder::replace(const std::string& name, const std::string& content) {
  if (!impl_->inputs.contains(name)) throw std::invalid_argument(name + " is no input of this run");
  write_file(impl_->folder / name, content);
  impl_->state.inputs[name] = {content.size(), sha256(content)};
  impl_->inputs[name] = content;
  impl_->write_state();
}

void RunFolder::Impl::remove_old_checkpoints(std::int64_t keep) {
  while (keep > 0 && static_cast<std::int64_t>(kept.size()) > keep) {
    std::error_code ignored;  // an old checkpoint too many harms nobody
    fs::remove(folder / kept.front().file, ignored);
    kept.erase(kept.begin());
  }
}

Manifest RunFolder::Impl::seal() const {
  Manifest manifest;
  manifest.run = state.id;
  for (const std::string& path : list_files(folder)) {
    if (path.ends_with('/'))
      throw UserError((folder / path).string(), "this folder is not part of the run", "move it away");
    manifest.files[path] = digest_file(folder / path);
  }
  // What lies there must be what was written: a disk that lost something, or a second writer, shows here.
  std::map<std::string, FileDigest> written = state.inputs;
  for (const CheckpointEntry& entry : kept) written[entry.file] = {entry.size, entry.sha256};
  for (const auto& [name, log] : logs) written[name] = log.digest();
  written[kCheckpointsLog] = checkpoints.digest();
  for (const auto& [path, digest] : written) {
    const auto found = manifest.files.find(path);
    if (found == manifest.files.end())
      throw UserError((folder / path).string(), "disappeared during the run", kRestore);
    if (found->second.size != digest.size || found->second.sha256 != digest.sha256) {
      throw UserError((folder / path).string(), "holds something other than the run wrote", kRestore);
    }
  }
  return manifest;
}

void RunFolder::finish(const std::string& weights, const std::string& sha256) {
  impl_->lock.require_held();
  for (auto& [name, log] : impl_->logs) log.sync();
  remove_temporaries(impl_->folder);
  remove_temporaries(impl_->folder / kCheckpointFolder);
  impl_->state.state = "finished";
  impl_->state.weights = weights;
  impl_->state.weights_sha256 = sha256;
  impl_->state.reason.clear();
  impl_->write_state();
  write_file(impl_->folder / kManifest, format_manifest(impl_->seal()));
  impl_->finished = true;
}

void RunFolder::fail(const std::string& reason) noexcept {
  if (impl_->finished) return;
  impl_->write_waiting();
  try {
    impl_->state.state = "failed";
    impl_->state.reason = reason;
    impl_->write_state();
  } catch (const std::exception&) {  // then the run is merely interrupted
  }
}

}  // namespace isobit::archive
