#include "archive/run_record.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "archive/files.h"
#include "archive/log_lines.h"
#include "archive/manifest.h"
#include "archive/run_state.h"
#include "archive/runs.h"
#include "archive/sha256.h"
#include "archive/user_error.h"

namespace isobit::archive {
namespace {

namespace fs = std::filesystem;

constexpr const char* kRestore = "restore the run's folder from a copy";

// A Python program's record.
bool is_script(const fs::path& folder) {
  std::error_code ignored;
  const fs::path experiment = folder / kExperimentFile;
  return fs::is_regular_file(experiment, ignored) &&
         ("\n" + read_file(experiment)).find("\n[script]\n") != std::string::npos;
}

[[noreturn]] void throw_unsealed(const fs::path& folder) {
  std::error_code ignored;
  if (!fs::is_directory(folder, ignored))
    throw UserError(folder.string(), "not a run's folder", "isobit log lists the runs");
  const RunSummary summary = summarize(folder);
  if (summary.state == RunState::damaged) throw UserError(folder.string(), "damaged: " + summary.note, kRestore);
  const std::string note = summary.note.empty() ? "" : ": " + summary.note;
  throw UserError(folder.string(),
                  fmt::format("not finished ({} after {} steps{})", to_string(summary.state), summary.steps, note),
                  summary.state == RunState::running ? "wait until it ends"
                  : is_script(folder) ? "run its program to the end: isobit.record(resume=True) resumes it"
                                      : "isobit run --resume finishes it");
}

// The folder holds what the manifest lists, no more and no less.
void require_same_files(const fs::path& folder, const Manifest& manifest) {
  const std::vector<std::string> found = list_files(folder);
  for (const auto& [path, digest] : manifest.files) {
    if (!std::binary_search(found.begin(), found.end(), path)) {
      throw UserError((folder / path).string(), "damaged: the file is missing", kRestore);
    }
  }
  for (const std::string& path : found) {
    if (!manifest.files.contains(path)) {
      throw UserError((folder / path).string(), "damaged: added after the run was finished", "move it away");
    }
  }
}

// All files but checkpoints, by path; every file's digest is checked.
std::map<std::string, std::string> read_checked(const fs::path& folder, const Manifest& manifest) {
  std::map<std::string, std::string> contents;
  for (const auto& [path, digest] : manifest.files) {
    const fs::path file = folder / path;
    if (!fs::is_regular_file(fs::symlink_status(file)))
      throw UserError(file.string(), "damaged: not a regular file", kRestore);
    if (fs::file_size(file) != digest.size) {
      throw UserError(file.string(),
                      fmt::format("damaged: it has {} bytes, the record says {}", fs::file_size(file), digest.size),
                      kRestore);
    }
    if (is_checkpoint(path)) {
      if (digest_file(file).sha256 != digest.sha256) {
        throw UserError(file.string(), "damaged: its content is not what was recorded (SHA-256 differs)", kRestore);
      }
    } else {
      require_digest(contents[path] = read_file(file), digest, file);
    }
  }
  return contents;
}

}  // namespace

RunRecord RunRecord::open(const fs::path& folder) {
  std::error_code ignored;
  if (!fs::exists(folder / kManifest, ignored)) throw_unsealed(folder);
  const fs::path manifest_path = folder / kManifest;
  if (!fs::is_regular_file(fs::symlink_status(manifest_path))) {
    throw UserError(manifest_path.string(), "damaged: not a regular file", kRestore);
  }
  const std::string manifest_text = read_file(manifest_path);
  const Manifest manifest = parse_manifest(manifest_text, manifest_path.string());
  require_same_files(folder, manifest);
  std::map<std::string, std::string> contents = read_checked(folder, manifest);
  for (const char* file : {kStateFile, kExperimentFile, kEnvironmentFile, kDataFile, kStepsLog, kMetricsLog,
                           kTimingsLog, kCheckpointsLog}) {
    if (!contents.contains(file))
      throw UserError((folder / file).string(), "damaged: the manifest does not list it", kRestore);
  }

  const StateFile state = parse_state(contents[kStateFile], (folder / kStateFile).string());
  RunRecord record;
  record.folder_ = folder;
  record.experiment_ = contents[kExperimentFile];
  record.environment_ = contents[kEnvironmentFile];
  record.data_ = contents[kDataFile];
  record.steps_ = parse_log<StepLine>(contents[kStepsLog], folder / kStepsLog);
  record.metrics_ = parse_log<MetricsLine>(contents[kMetricsLog], folder / kMetricsLog);
  if (const auto log = contents.find(kEvaluationsLog); log != contents.end()) {
    record.evaluations_ = parse_log<EvaluationLine>(log->second, folder / kEvaluationsLog);
  }
  record.timings_ = parse_log<TimingLine>(contents[kTimingsLog], folder / kTimingsLog);
  for (const CheckpointLine& line : parse_log<CheckpointLine>(contents[kCheckpointsLog], folder / kCheckpointsLog)) {
    if (manifest.files.contains(line.entry.file)) record.checkpoints_.push_back(line.entry);  // else removed as too old
  }
  for (std::size_t i = 0; i < record.steps_.size(); ++i) {
    if (record.steps_[i].step != static_cast<std::int64_t>(i + 1)) {
      throw UserError(fmt::format("{}:{}", (folder / kStepsLog).string(), i + 1), "damaged: its steps are out of order",
                      kRestore);
    }
  }
  if (state.state != "finished" || state.id != manifest.run ||
      state.steps != static_cast<std::int64_t>(record.steps_.size())) {
    throw UserError((folder / kStateFile).string(), "damaged: state, manifest and log disagree", kRestore);
  }
  record.summary_ = {
      state.id, state.name, RunState::finished, state.contract, state.created, state.steps, state.weights, {}, ""};
  record.summary_.metrics = last_of_each_set(record.metrics_);
  record.files_ = static_cast<std::int64_t>(manifest.files.size()) + 1;
  record.bytes_ = manifest_text.size();
  for (const auto& [path, digest] : manifest.files) record.bytes_ += digest.size;
  return record;
}

Checkpoint RunRecord::checkpoint(const CheckpointEntry& entry) const {
  const fs::path path = folder_ / entry.file;
  const std::string content = read_file(path, std::uint64_t{1} << 40);
  require_digest(content, {entry.size, entry.sha256}, path);
  const auto bytes = std::as_bytes(std::span(content.data(), content.size()));
  return {entry.step, Safetensors::parse({bytes.begin(), bytes.end()}, path.string())};
}

}  // namespace isobit::archive
