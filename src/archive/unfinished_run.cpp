#include "archive/unfinished_run.h"

#include <fmt/format.h>

#include <algorithm>

#include "archive/files.h"
#include "archive/manifest.h"
#include "archive/user_error.h"
#include "contract/platform.h"

namespace isobit::archive {
namespace {

namespace fs = std::filesystem;

// The newest checkpoint whose file is what was written; drops the lines after it.
std::optional<CheckpointLine> newest_sound(const fs::path& folder, std::vector<CheckpointLine>& lines) {
  while (!lines.empty()) {
    const CheckpointEntry& entry = lines.back().entry;
    try {
      const FileDigest found = digest_file(folder / entry.file);
      if (found.size == entry.size && found.sha256 == entry.sha256) return lines.back();
    } catch (const UserError&) {  // missing: as good as damaged
    }
    lines.pop_back();
  }
  return std::nullopt;
}

// Reads a log, proves that its beginning is what the checkpoint saw, and cuts it there. Returns all it held.
std::string cut_log(const fs::path& path, const FileDigest& covered, Sha256& hash) {
  std::string content = read_file(path);
  const std::string prefix = content.substr(0, covered.size);
  require_digest(prefix, covered, path);
  hash.update(prefix);
  if (content.size() > covered.size) {
    std::error_code error;
    fs::resize_file(path, covered.size, error);
    if (error) throw_file_error(path, "cannot be written", error.value());
  }
  return content;
}

void remove_checkpoints_but(const fs::path& folder, const std::vector<CheckpointLine>& lines) {
  for (const std::string& path : list_files(folder)) {
    if (!is_checkpoint(path) || path.ends_with('/')) continue;
    const bool listed =
        std::any_of(lines.begin(), lines.end(), [&](const auto& line) { return line.entry.file == path; });
    std::error_code error;
    if (!listed) fs::remove(folder / path, error);
    if (error) throw_file_error(folder / path, "cannot be removed", error.value());
  }
}

StateFile read_unfinished(const fs::path& folder) {
  StateFile state = parse_state(read_file(folder / kStateFile), (folder / kStateFile).string());
  if (fs::exists(folder / kManifest)) {
    throw UserError(folder.string(), "is finished", "check it with isobit verify, or start another with isobit run");
  }
  if (state.contract != contract::kContractVersion) {
    throw UserError(folder.string(),
                    fmt::format("was recorded under contract {}, this program computes by {}", state.contract,
                                contract::kContractVersion),
                    "resume it with the isobit that started it");
  }
  return state;
}

}  // namespace

UnfinishedRun cut_back(const fs::path& folder, const std::vector<const char*>& logs) {
  UnfinishedRun run;
  run.state = read_unfinished(folder);
  for (const auto& [path, digest] : run.state.inputs) {
    require_digest(run.inputs[path] = read_file(folder / path), digest, folder / path);
  }
  remove_temporaries(folder);
  remove_temporaries(folder / kCheckpointFolder);

  run.checkpoints = parse_unfinished_log<CheckpointLine>(read_file(folder / kCheckpointsLog));
  const auto newest = newest_sound(folder, run.checkpoints);
  for (const char* name : logs) {
    FileDigest covered{0, sha256("")};
    if (newest && newest->logs.contains(name)) covered = newest->logs.at(name);
    const std::string content = cut_log(folder / name, covered, run.hashes[name]);
    if (name == std::string_view(kStepsLog)) {
      run.cut_off = parse_unfinished_log<StepLine>(std::string_view(content).substr(covered.size));
    }
  }
  std::string lines;
  for (const CheckpointLine& line : run.checkpoints) lines += format_line(line);
  write_file(folder / kCheckpointsLog, lines);
  run.hashes[kCheckpointsLog].update(lines);
  remove_checkpoints_but(folder, run.checkpoints);
  return run;
}

}  // namespace isobit::archive
