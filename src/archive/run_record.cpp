#include "archive/run_record.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "archive/files.h"
#include "archive/log_lines.h"
#include "archive/manifest.h"
#include "archive/record_part.h"
#include "archive/record_rules.h"
#include "archive/run_state.h"
#include "archive/runs.h"
#include "archive/sha256.h"
#include "archive/user_error.h"

namespace isobit::archive {
namespace {

namespace fs = std::filesystem;

bool is_script_folder(const fs::path& folder) {
  std::error_code ignored;
  const fs::path experiment = folder / kExperimentFile;
  return fs::is_regular_file(experiment, ignored) && is_script(read_file(experiment, largest_file(kExperimentFile)));
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
                  : is_script_folder(folder) ? "run its program to the end: isobit.record(resume=True) resumes it"
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

// All files but checkpoints, by path; every file's digest is checked (of checkpoints where `read` says so).
std::map<std::string, std::string> read_checked(const fs::path& folder, const Manifest& manifest,
                                                RunRecord::Contents read) {
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
      if (read == RunRecord::Contents::all && digest_file(file).sha256 != digest.sha256) {
        throw UserError(file.string(), "damaged: its content is not what was recorded (SHA-256 differs)", kRestore);
      }
    } else {
      require_digest(contents[path] = read_file(file, largest_file(path)), digest, file);
    }
  }
  return contents;
}

SealedParts parse_parts(const fs::path& folder, const Manifest& manifest,
                        const std::map<std::string, std::string>& contents) {
  SealedParts parts;
  parts.folder = folder;
  parts.manifest = manifest;
  parts.contents = &contents;
  parts.state = parse_state(contents.at(kStateFile), (folder / kStateFile).string());
  parts.script = is_script(contents.at(kExperimentFile));
  parts.steps = parse_log<StepLine>(contents.at(kStepsLog), folder / kStepsLog);
  parts.metrics = parse_log<MetricsLine>(contents.at(kMetricsLog), folder / kMetricsLog);
  if (const auto log = contents.find(kEvaluationsLog); log != contents.end()) {
    parts.evaluations = parse_log<EvaluationLine>(log->second, folder / kEvaluationsLog);
  }
  if (const auto log = contents.find(kOutsideLog); log != contents.end()) {
    parts.outside = parse_log<OutsideLine>(log->second, folder / kOutsideLog);
  }
  if (const auto log = contents.find(kPredictionsLog); log != contents.end()) {
    parts.predictions = parse_log<PredictionsLine>(log->second, folder / kPredictionsLog);
  }
  parts.timings = parse_log<TimingLine>(contents.at(kTimingsLog), folder / kTimingsLog);
  parts.checkpoints = parse_log<CheckpointLine>(contents.at(kCheckpointsLog), folder / kCheckpointsLog);
  return parts;
}

}  // namespace

RunRecord RunRecord::open(const fs::path& folder, Contents read) {
  std::error_code ignored;
  if (!fs::exists(folder / kManifest, ignored)) throw_unsealed(folder);
  const fs::path manifest_path = folder / kManifest;
  if (!fs::is_regular_file(fs::symlink_status(manifest_path))) {
    throw UserError(manifest_path.string(), "damaged: not a regular file", kRestore);
  }
  const std::string manifest_text = read_file(manifest_path, largest_file(kManifest));
  const Manifest manifest = parse_manifest(manifest_text, manifest_path.string());
  require_same_files(folder, manifest);
  std::map<std::string, std::string> contents = read_checked(folder, manifest, read);
  for (const char* file : {kStateFile, kExperimentFile, kEnvironmentFile, kDataFile, kStepsLog, kMetricsLog,
                           kTimingsLog, kCheckpointsLog}) {
    if (!contents.contains(file))
      throw UserError((folder / file).string(), "damaged: the manifest does not list it", kRestore);
  }

  SealedParts parts = parse_parts(folder, manifest, contents);
  require_rules(parts);
  RunRecord record;
  record.folder_ = folder;
  record.script_ = parts.script;
  record.seal_ = sha256(manifest_text);
  record.experiment_ = contents[kExperimentFile];
  record.environment_ = contents[kEnvironmentFile];
  record.data_ = contents[kDataFile];
  for (const auto& [path, text] : contents) {
    if (const std::string part = part_name(path); !part.empty()) record.parts_[part] = text;
  }
  record.steps_ = std::move(parts.steps);
  record.metrics_ = std::move(parts.metrics);
  record.evaluations_ = std::move(parts.evaluations);
  record.outside_ = std::move(parts.outside);
  record.predictions_ = std::move(parts.predictions);
  record.timings_ = std::move(parts.timings);
  for (std::size_t i = 0; i < parts.checkpoints.size(); ++i) {
    const CheckpointEntry& entry = parts.checkpoints[i].entry;
    const bool replaced = i + 1 < parts.checkpoints.size() && parts.checkpoints[i + 1].entry.step == entry.step;
    if (manifest.files.contains(entry.file) && !replaced)
      record.checkpoints_.push_back(entry);  // else removed as too old
    if (replaced) {
      record.replaced_weights_.emplace(entry.step, entry.weights_sha256);
    } else {
      record.checkpoint_weights_[entry.step] = entry.weights_sha256;
    }
  }
  const StateFile& state = parts.state;
  record.summary_.id = state.id;
  record.summary_.name = state.name;
  record.summary_.state = RunState::finished;
  record.summary_.contract = state.contract;
  record.summary_.created = state.created;
  record.summary_.steps = state.steps;
  record.summary_.weights = state.weights;
  record.summary_.weights_sha256 = state.weights_sha256;
  record.summary_.metrics = last_of_each_set(record.metrics_);
  record.files_ = static_cast<std::int64_t>(manifest.files.size()) + 1;
  record.bytes_ = manifest_text.size();
  for (const auto& [path, digest] : manifest.files) record.bytes_ += digest.size;
  return record;
}

std::vector<std::string> RunRecord::missing_digests() const {
  std::vector<std::string> missing;
  if (weights_sha256().empty()) missing.emplace_back("the SHA-256 of the weights (there is none)");
  const auto none = [](const auto& step_and_digest) { return step_and_digest.second.empty(); };
  if (std::any_of(checkpoint_weights_.begin(), checkpoint_weights_.end(), none) ||
      std::any_of(replaced_weights_.begin(), replaced_weights_.end(), none))
    missing.emplace_back("the SHA-256 of the weights at a checkpoint (there is none)");
  return missing;
}

Checkpoint RunRecord::checkpoint(const CheckpointEntry& entry) const {
  const fs::path path = folder_ / entry.file;
  const std::string content = read_file(path, std::uint64_t{1} << 40);
  require_digest(content, {entry.size, entry.sha256}, path);
  const auto bytes = std::as_bytes(std::span(content.data(), content.size()));
  return {entry.step, Safetensors::parse({bytes.begin(), bytes.end()}, path.string())};
}

}  // namespace isobit::archive
