#include "archive/run_writer.h"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <deque>
#include <utility>
#include <vector>

#include "archive/files.h"
#include "archive/log_lines.h"
#include "archive/manifest.h"
#include "archive/run_lock.h"
#include "archive/run_state.h"
#include "archive/sha256.h"
#include "archive/unfinished_run.h"
#include "archive/user_error.h"
#include "contract/platform.h"

namespace isobit::archive {
namespace {

namespace fs = std::filesystem;

constexpr const char* kRestore = "restore the run's folder from a copy";

// A log and the digest of all it holds. Lines wait for each other, a quarter of a second at most where more come: a system
// call a line would be a part of a short step.
class Log {
 public:
  explicit Log(const fs::path& path) : file_(path) {}

  void append(const std::string& text) {
    waiting_ += text;
    const auto now = std::chrono::steady_clock::now();
    if (waiting_.size() >= kMost || now - written_ >= kLongest) write(now);
  }
  void write() { write(std::chrono::steady_clock::now()); }
  void sync() {
    write();
    file_.sync();
  }
  // Precondition: nothing waits.
  [[nodiscard]] FileDigest digest() const { return {file_.size(), hash_.hex()}; }
  void continue_from(const Sha256& hash) { hash_ = hash; }

 private:
  using Clock = std::chrono::steady_clock;
  static constexpr std::size_t kMost = 1 << 14;
  static constexpr std::chrono::milliseconds kLongest{250};

  void write(Clock::time_point now) {
    if (waiting_.empty()) return;
    const std::string text = std::exchange(waiting_, {});  // gone where the file can not be written: the run stops there
    file_.append(text);
    hash_.update(text);
    written_ = now;
  }

  AppendFile file_;
  Sha256 hash_;
  std::string waiting_;
  Clock::time_point written_{};  // so that the first line is written at once
};

void require_name(const std::string& name) {
  const bool good = !name.empty() && name.size() <= 64 && name[0] != '.' &&
                    std::all_of(name.begin(), name.end(), [](unsigned char c) {
                      return (c < 128 && std::isalnum(c)) || c == '-' || c == '_' || c == '.';
                    });
  if (!good)
    throw UserError("", fmt::format("'{}' is no name of a run", name), "1 to 64 letters, digits, - _ .");
}

// "20261121-045835-fashion-mlp-3f9a2c01"
std::string make_id(const std::string& created, const std::string& name) {
  std::string digits;
  for (const char c : created.substr(0, 19)) {
    if (std::isdigit(static_cast<unsigned char>(c))) digits += c;
  }
  return fmt::format("{}-{}-{}-{}", digits.substr(0, 8), digits.substr(8), name, random_suffix());
}

std::string checkpoint_file(std::int64_t step) {
  return fmt::format("{}/step-{}.safetensors", kCheckpointFolder, step);
}

}  // namespace

struct RunWriter::Impl {
  Impl(fs::path folder_, StateFile state_, RunLock lock_)
      : folder(std::move(folder_)),
        state(std::move(state_)),
        lock(std::move(lock_)),
        steps(folder / kStepsLog),
        metrics(folder / kMetricsLog),
        timings(folder / kTimingsLog),
        checkpoints(folder / kCheckpointsLog) {}

  ~Impl() { write_waiting(); }
  Impl(const Impl&) = delete;
  Impl& operator=(const Impl&) = delete;

  [[nodiscard]] std::vector<std::pair<const char*, Log*>> logs() {
    return {{kStepsLog, &steps}, {kMetricsLog, &metrics}, {kTimingsLog, &timings}};
  }
  // What waits, where nobody can be told of a failure any more: resuming finds the steps before.
  void write_waiting() noexcept {
    try {
      for (const auto& [name, log] : logs()) log->write();
    } catch (const std::exception&) {
    }
  }
  void write_state() { write_file(folder / kStateFile, format_state(state)); }
  void remove_old_checkpoints(std::int64_t keep);
  [[nodiscard]] Manifest seal() const;

  fs::path folder;
  StateFile state;
  RunLock lock;
  Log steps, metrics, timings, checkpoints;
  std::string experiment, data;
  std::optional<Checkpoint> checkpoint;
  std::vector<CheckpointEntry> kept;
  std::deque<StepLine> replayed;  // steps that the cut-off log held: must come out the same
  bool finished = false;
};

RunWriter::RunWriter(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
RunWriter::RunWriter(RunWriter&&) noexcept = default;
RunWriter& RunWriter::operator=(RunWriter&&) noexcept = default;
RunWriter::~RunWriter() = default;

const std::string& RunWriter::id() const { return impl_->state.id; }
const fs::path& RunWriter::folder() const { return impl_->folder; }
const std::string& RunWriter::experiment() const { return impl_->experiment; }
const std::string& RunWriter::data() const { return impl_->data; }
const std::optional<Checkpoint>& RunWriter::checkpoint() const { return impl_->checkpoint; }

RunWriter RunWriter::create(const fs::path& runs, const RunInputs& inputs) {
  require_name(inputs.name);
  make_folders(runs);
  StateFile state;
  state.created = utc_now();
  state.name = inputs.name;
  state.contract = contract::kContractVersion;
  state.id = make_id(state.created, inputs.name);

  RunLock lock = RunLock::acquire(runs, state.id);
  // Made under a hidden name, so that no list ever sees half a run.
  const fs::path making = runs / (".tmp-" + state.id);
  try {
    make_folders(making / kCheckpointFolder);
    for (const auto& [file, text] :
         {std::pair{kExperimentFile, &inputs.experiment}, std::pair{kEnvironmentFile, &inputs.environment},
          std::pair{kDataFile, &inputs.data}}) {
      write_file(making / file, *text);
      state.inputs[file] = {text->size(), sha256(*text)};
    }
    for (const char* log : {kStepsLog, kMetricsLog, kTimingsLog, kCheckpointsLog})
      write_file(making / log, "");
    write_file(making / kStateFile, format_state(state));
    std::error_code error;
    fs::rename(making, runs / state.id, error);
    if (error) throw_file_error(runs / state.id, "can not be created", error.value());
    sync_folder(runs);
  } catch (...) {
    std::error_code ignored;
    fs::remove_all(making, ignored);
    throw;
  }
  auto impl = std::make_unique<Impl>(runs / state.id, std::move(state), std::move(lock));
  impl->experiment = inputs.experiment;
  impl->data = inputs.data;
  return RunWriter(std::move(impl));
}

void RunWriter::append_step(const StepLine& line) {
  if (line.step != impl_->state.steps + 1) {
    throw std::invalid_argument(fmt::format("step {} appended after step {}", line.step, impl_->state.steps));
  }
  const std::string text = format_line(line);
  if (!impl_->replayed.empty()) {
    if (impl_->replayed.front() != line) {
      const std::string before = format_line(impl_->replayed.front());
      throw UserError(
          (impl_->folder / kStepsLog).string(),
          fmt::format("step {} came out differently after resuming: {} now, {} before", line.step,
                      text.substr(0, text.size() - 1), before.substr(0, before.size() - 1)),
          "the machine or the program computes wrongly: run the experiment anew and verify it elsewhere");
    }
    impl_->replayed.pop_front();
  }
  impl_->steps.append(text);
  impl_->state.steps = line.step;
}

void RunWriter::append_metrics(const MetricsLine& line) {
  impl_->metrics.append(format_line(line));
  flush();
}
void RunWriter::append_timing(const TimingLine& line) {
  impl_->timings.append(format_line(line));
  flush();
}

void RunWriter::flush() {
  for (const auto& [name, log] : impl_->logs()) log->write();
}

void RunWriter::write_checkpoint(std::span<const TensorView> tensors, const std::string& state,
                                 std::int64_t keep) {
  impl_->lock.require_held();
  CheckpointLine line;
  for (const auto& [name, log] : impl_->logs()) {
    log->sync();
    line.logs[name] = log->digest();
  }
  const std::string header = safetensors_header(tensors, {{"state", state}});
  std::vector<std::span<const std::byte>> pieces{std::as_bytes(std::span(header.data(), header.size()))};
  for (const TensorView& tensor : tensors) pieces.push_back(tensor.data);
  Sha256 hash;
  line.entry = {impl_->state.steps, checkpoint_file(impl_->state.steps), 0, ""};
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

void RunWriter::Impl::remove_old_checkpoints(std::int64_t keep) {
  while (keep > 0 && static_cast<std::int64_t>(kept.size()) > keep) {
    std::error_code ignored;  // an old checkpoint too many harms nobody
    fs::remove(folder / kept.front().file, ignored);
    kept.erase(kept.begin());
  }
}

Manifest RunWriter::Impl::seal() const {
  Manifest manifest;
  manifest.run = state.id;
  for (const std::string& path : list_files(folder)) {
    if (path.ends_with('/'))
      throw UserError((folder / path).string(), "a folder that is no part of the run", "move it away");
    manifest.files[path] = digest_file(folder / path);
  }
  // What lies there must be what was written: a disk that lost something, or a second writer, shows here.
  std::map<std::string, FileDigest> written = state.inputs;
  for (const CheckpointEntry& entry : kept) written[entry.file] = {entry.size, entry.sha256};
  written[kStepsLog] = steps.digest();
  written[kMetricsLog] = metrics.digest();
  written[kTimingsLog] = timings.digest();
  written[kCheckpointsLog] = checkpoints.digest();
  for (const auto& [path, digest] : written) {
    const auto found = manifest.files.find(path);
    if (found == manifest.files.end())
      throw UserError((folder / path).string(), "vanished while the run wrote it", kRestore);
    if (found->second.size != digest.size || found->second.sha256 != digest.sha256) {
      throw UserError((folder / path).string(), "holds something other than what was written to it",
                      kRestore);
    }
  }
  return manifest;
}

void RunWriter::finish(const std::string& weights) {
  impl_->lock.require_held();
  for (const auto& [name, log] : impl_->logs()) log->sync();
  remove_temporaries(impl_->folder);
  remove_temporaries(impl_->folder / kCheckpointFolder);
  impl_->state.state = "finished";
  impl_->state.weights = weights;
  impl_->state.reason.clear();
  impl_->write_state();
  write_file(impl_->folder / kManifest, format_manifest(impl_->seal()));
  impl_->finished = true;
}

void RunWriter::fail(const std::string& reason) noexcept {
  if (impl_->finished) return;
  impl_->write_waiting();
  try {
    impl_->state.state = "failed";
    impl_->state.reason = reason;
    impl_->write_state();
  } catch (const std::exception&) {  // then the run is merely interrupted
  }
}

RunWriter RunWriter::resume(const fs::path& run, const std::string& environment) {
  const fs::path folder = fs::weakly_canonical(run);
  if (!fs::exists(folder / kStateFile)) {
    throw UserError(run.string(), "no run's folder", "isobit log lists the runs");
  }
  RunLock lock = RunLock::acquire(folder.parent_path(), folder.filename().string());
  UnfinishedRun left = cut_back(folder);
  const std::string file = fmt::format("environment-{}.json", left.state.inputs.size() - 1);
  write_file(folder / file, environment);
  left.state.inputs[file] = {environment.size(), sha256(environment)};
  left.state.state = "running";
  left.state.reason.clear();
  left.state.steps = left.checkpoints.empty() ? 0 : left.checkpoints.back().entry.step;

  auto impl = std::make_unique<Impl>(folder, std::move(left.state), std::move(lock));
  for (const auto& [name, log] : impl->logs()) log->continue_from(left.hashes.at(name));
  impl->checkpoints.continue_from(left.hashes.at(kCheckpointsLog));
  impl->experiment = left.inputs[kExperimentFile];
  impl->data = left.inputs[kDataFile];
  for (const CheckpointLine& line : left.checkpoints) {
    if (fs::exists(folder / line.entry.file)) impl->kept.push_back(line.entry);
  }
  if (!impl->kept.empty()) {
    const CheckpointEntry& newest = impl->kept.back();
    impl->checkpoint.emplace(newest.step, Safetensors::read(folder / newest.file));
  }
  impl->replayed.assign(left.cut_off.begin(), left.cut_off.end());
  impl->write_state();
  return RunWriter(std::move(impl));
}

}  // namespace isobit::archive
