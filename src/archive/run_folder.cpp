#include "archive/run_folder.h"

#include "archive/record_part.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <deque>
#include <stdexcept>
#include <utility>

#include "archive/experiment_text.h"
#include "archive/files.h"
#include "archive/log_file.h"
#include "archive/log_lines.h"
#include "archive/manifest.h"
#include "archive/record_file.h"
#include "archive/run_lock.h"
#include "archive/run_state.h"
#include "archive/sha256.h"
#include "archive/unfinished_run.h"
#include "archive/user_error.h"

namespace isobit::archive {

const RunKind kExperimentRun{
    {kStepsLog, kMetricsLog, kTimingsLog},
    "this machine or program computes wrongly: start the run anew and verify it on another machine",
    "restore the run's folder from a copy; to begin again at step 1, start a new run: isobit run on its "
    "experiment.toml"};
const RunKind kScriptRun{{kStepsLog, kMetricsLog, kEvaluationsLog, kOutsideLog, kTimingsLog},
                         "check that the script restores all of its state",
                         "restore the run's folder from a copy; to begin again at step 1, move the folder away and "
                         "start the program again"};

namespace {

namespace fs = std::filesystem;

void require_name(const std::string& name) {
  if (!is_run_name(name)) {
    throw UserError("", fmt::format("'{}' is not a valid run name", name),
                    "use 1 to 64 letters, digits, - _ and ., not beginning with a dot");
  }
}

// "20261121-045835-fashion-mlp-3f9a2c01"
std::string make_id(const std::string& created, const std::string& name, const std::string& ending) {
  std::string digits;
  for (const char c : created.substr(0, 19)) {
    if (std::isdigit(static_cast<unsigned char>(c))) digits += c;
  }
  return fmt::format("{}-{}-{}-{}", digits.substr(0, 8), digits.substr(8), name,
                     ending.empty() ? random_suffix() : ending);
}

std::string without_end(const std::string& line) { return line.substr(0, line.size() - 1); }

// A second name for the file; where the file system has no hard links, its only one.
void keep_name(const fs::path& file, const fs::path& name) {
  remove_file(name);
  if (::link(file.c_str(), name.c_str()) != 0) rename_file(file, name);
}

// What the disk gives back is what was written.
void require_digest_of_file(const fs::path& path, const FileDigest& written) {
  const FileDigest found = digest_file(path);
  if (found.size != written.size || found.sha256 != written.sha256)
    throw UserError(path.string(), "holds something other than the run wrote", kRestore);
}

}  // namespace

struct RunFolder::Impl {
  Impl(fs::path folder_, StateFile state_, RunLock lock_, const RunKind& kind_)
      : folder(std::move(folder_)),
        state(std::move(state_)),
        lock(std::move(lock_)),
        kind(kind_),
        checkpoints(folder / kCheckpointsLog, lock) {
    for (const char* log : kind.logs) logs.try_emplace(log, folder / log, lock);
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
  void write_state() const { write_held(lock, folder / kStateFile, format_state(state)); }
  void write_checkpoint(CheckpointLine line, std::span<const std::span<const std::byte>> pieces);
  void write_file_and_line(const CheckpointLine& line, std::span<const std::span<const std::byte>> pieces);
  void require_written() const;
  void finish(const std::string& weights, const std::string& sha256);
  void remove_old_checkpoints(const Retention& keep);
  [[nodiscard]] std::map<std::string, FileDigest> written() const;
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
  bool has_cut = false;           // what was cut off on resuming is still there
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
                            const RunKind& kind, const std::string& ending, const std::string& contract) {
  require_name(name);
  if (!ending.empty() && !is_hex(ending, 8)) throw std::invalid_argument("no ending of a run's id: " + ending);
  make_folders(runs);
  StateFile state;
  state.created = utc_now();
  state.name = name;
  state.contract = contract;
  state.id = make_id(state.created, name, ending);

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

RunFolder RunFolder::resume(const fs::path& run, const std::string& environment, const RunKind& kind,
                            const std::string& contract) {
  std::error_code error;
  const fs::path folder = fs::weakly_canonical(run, error);
  if (error) throw_file_error(run, "cannot be read", error.value());
  if (!is_there(folder / kStateFile)) {
    throw UserError(run.string(), "not a run's folder", "isobit log lists the runs");
  }
  RunLock lock = RunLock::acquire(folder.parent_path(), folder.filename().string(), generation_of(folder));
  UnfinishedRun left = while_held(lock, [&] {
    require_own_files(folder);
    static_cast<void>(read_unfinished_state(folder, contract));
    // From here on no earlier writer can give a file of this run its name, whatever it had begun (run_lock.h).
    remove_temporaries(folder);
    remove_temporaries(folder / kCheckpointFolder);
    put_back_cut(folder, lock);
    UnfinishedRun found = read_unfinished(folder, kind.logs, kind.start_over_remedy, contract);
    cut_back(folder, found, lock);
    return found;
  });
  const auto environments = std::count_if(left.state.inputs.begin(), left.state.inputs.end(),
                                          [](const auto& input) { return input.first.starts_with("environment-"); });
  const std::string file = fmt::format("environment-{}.json", environments + 2);
  write_held(lock, folder / file, environment);
  left.inputs[file] = environment;
  left.state.inputs[file] = {environment.size(), sha256(environment)};
  left.state.state = "running";
  left.state.reason.clear();
  left.state.steps = left.checkpoints.empty() ? 0 : left.checkpoints.back().entry.step;

  auto impl = std::make_unique<Impl>(folder, std::move(left.state), std::move(lock), kind);
  const auto hash_of = [&](const std::string& name) {
    Sha256 hash;
    hash.update(left.logs.at(name));
    return hash;
  };
  for (auto& [name, log] : impl->logs) log.continue_from(hash_of(name));
  impl->checkpoints.continue_from(hash_of(kCheckpointsLog));
  impl->has_cut = true;
  impl->inputs = std::move(left.inputs);
  impl->kept = std::move(left.kept);
  if (!left.checkpoints.empty()) impl->resumed_from = left.checkpoints.back().entry;
  if (!is_stock(contract))  // which promises no equal steps
    impl->replayed.assign(left.cut_off.begin(), left.cut_off.end());
  impl->write_state();
  return RunFolder(std::move(impl));
}

void RunFolder::append(const std::string& log, const std::string& line, Wait wait) {
  if (line.size() > kLongestLine)
    throw UserError((impl_->folder / log).string(),
                    fmt::format("a line of {} bytes, at most {} can be read", line.size(), kLongestLine),
                    "record fewer values at once");
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
                                 const Retention& keep, const std::string& weights_sha256) {
  CheckpointLine line;
  Sha256 hash;
  line.entry = {impl_->state.steps, fmt::format("{}/step-{}{}", kCheckpointFolder, impl_->state.steps, suffix), 0, "",
                weights_sha256};
  for (const auto& piece : pieces) {
    hash.update(piece);
    line.entry.size += piece.size();
  }
  line.entry.sha256 = hash.hex();
  while_held(impl_->lock, [&] {
    impl_->write_checkpoint(line, pieces);
    impl_->remove_old_checkpoints(keep);
  });
}

void RunFolder::replace(const std::string& name, const std::string& content) {
  if (!impl_->inputs.contains(name)) throw std::invalid_argument(name + " is no input of this run");
  const fs::path file = impl_->folder / name;
  const std::span<const std::byte> piece = std::as_bytes(std::span(content.data(), content.size()));
  // The old one keeps a name until the state knows the new one.
  write_held(impl_->lock, file, std::span(&piece, 1), [&] { keep_name(file, before_of(file)); });
  impl_->state.inputs[name] = {content.size(), sha256(content)};
  impl_->inputs[name] = content;
  impl_->write_state();
  remove_file(before_of(file));
}

void RunFolder::write_part(const std::string& name, const std::string& content) {
  const std::string file = part_file(name);
  require_part(content);
  if (impl_->inputs.contains(file)) return replace(file, content);
  // The file first: a state that names it finds it, and one that does not passes over it.
  write_held(impl_->lock, impl_->folder / file, content);
  impl_->state.inputs[file] = {content.size(), sha256(content)};
  impl_->inputs[file] = content;
  impl_->write_state();
}

void RunFolder::Impl::write_checkpoint(CheckpointLine line, std::span<const std::span<const std::byte>> pieces) {
  lock.require_held();
  for (auto& [name, log] : logs) {
    log.sync();
    line.logs[name] = log.digest();
  }
  if (!is_there(folder / kCheckpointFolder)) {
    make_folders(folder / kCheckpointFolder);
    sync_folder(folder);
  }
  write_file_and_line(line, pieces);
  std::erase_if(kept, [&](const CheckpointEntry& entry) { return entry.step == line.entry.step; });
  kept.push_back(line.entry);
  if (!has_cut) return;
  require_digest_of_file(folder / line.entry.file, {line.entry.size, line.entry.sha256});
  lock.require_held();
  drop_cut(folder, lock.generation());
  has_cut = false;
}

// A checkpoint without its line is none. Another one of this step lies there if the program saved twice; it keeps a
// name until the new one's line stands.
void RunFolder::Impl::write_file_and_line(const CheckpointLine& line,
                                          std::span<const std::span<const std::byte>> pieces) {
  const fs::path file = folder / line.entry.file, before = before_of(file);
  const bool another =
      std::any_of(kept.begin(), kept.end(), [&](const auto& entry) { return entry.file == line.entry.file; });
  try {
    write_held(lock, file, pieces, [&] {
      if (another) keep_name(file, before);
    });
    checkpoints.append(format_line(line));
    checkpoints.write();
  } catch (const std::exception&) {
    try {
      lock.require_held();
      if (!another) remove_file(file);
      if (another && is_there(before)) rename_file(before, file);
    } catch (const std::exception&) {  // then resuming puts it right
    }
    throw;
  }
  checkpoints.sync();
  if (another) remove_file(before);
}

void RunFolder::Impl::remove_old_checkpoints(const Retention& keep) {
  if (keep.newest <= 0) return;
  auto old = static_cast<std::int64_t>(kept.size()) - keep.newest;
  for (auto entry = kept.begin(); old > 0; --old) {
    if (keep.keeps(entry->step)) {
      ++entry;
      continue;
    }
    lock.require_held();
    std::error_code ignored;  // an old checkpoint too many harms nobody
    fs::remove(folder / entry->file, ignored);
    entry = kept.erase(entry);
  }
}

// Each file and what was written to it.
std::map<std::string, FileDigest> RunFolder::Impl::written() const {
  std::map<std::string, FileDigest> all = state.inputs;
  for (const CheckpointEntry& entry : kept) all[entry.file] = {entry.size, entry.sha256};
  for (const auto& [name, log] : logs) all[name] = log.digest();
  all[kCheckpointsLog] = checkpoints.digest();
  return all;
}

void RunFolder::Impl::require_written() const {
  for (const auto& [path, digest] : written()) require_digest_of_file(folder / path, digest);
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
  for (const auto& [path, digest] : written()) {
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
  while_held(impl_->lock, [&] { impl_->finish(weights, sha256); });
}

void RunFolder::Impl::finish(const std::string& weights, const std::string& sha256) {
  lock.require_held();
  for (auto& [name, log] : logs) log.sync();
  if (has_cuts(folder)) {
    require_written();
    drop_cuts(folder);
    has_cut = false;
  }
  for (const fs::path& part : {folder, folder / kCheckpointFolder}) {
    remove_temporaries(part);
    for (const std::string& name : names_in(part)) {
      const bool unnamed = !part_name(name).empty() && !state.inputs.contains(name);  // its writer was killed
      if (name.starts_with(kBefore) || unnamed) remove_file(part / name);
    }
  }
  state.state = "finished";
  state.weights = weights;
  state.weights_sha256 = sha256;
  state.reason.clear();
  write_state();
  write_held(lock, folder / kManifest, format_manifest(seal()));
  finished = true;
}

void RunFolder::fail(const std::string& reason) noexcept {
  if (impl_->finished) return;
  impl_->write_waiting();
  try {
    if (is_there(impl_->folder / kManifest)) return;  // sealed, whatever failed after that
    impl_->state.state = "failed";
    impl_->state.reason = reason;
    impl_->write_state();
  } catch (const std::exception&) {  // then the run is merely interrupted
  }
}

}  // namespace isobit::archive
