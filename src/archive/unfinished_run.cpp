#include "archive/unfinished_run.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <set>

#include "archive/experiment_text.h"
#include "archive/files.h"
#include "archive/manifest.h"
#include "archive/printable.h"
#include "archive/record_file.h"
#include "archive/user_error.h"

namespace isobit::archive {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kCut = ".cut-";
constexpr std::uint64_t kLargestLog = std::uint64_t{1} << 34;
constexpr std::uint64_t kLastGeneration = std::uint64_t{1} << 62;  // as a lock may name (lock_owner.cpp)
// In such a folder, written last: how many bytes of checkpoints.jsonl were kept.
constexpr const char* kKeptBytes = "kept-bytes";

// "is missing", "is damaged", or "" for what was written. Whatever else the system says is an error.
std::string wrong_with(const fs::path& file, std::uint64_t size, const std::string& sha) {
  try {
    const FileDigest found = digest_file(file);
    return found.size == size && found.sha256 == sha ? "" : "is damaged";
  } catch (const FileError& error) {
    if (error.code() != ENOENT && error.code() != ENOTDIR) throw;
    return "is missing";
  } catch (const UserError&) {  // no regular file
    return "is damaged";
  }
}

std::string wrong_with(const fs::path& folder, const CheckpointEntry& entry) {
  const std::string wrong = wrong_with(folder / entry.file, entry.size, entry.sha256);
  if (wrong.empty() || !is_there(before_of(folder / entry.file))) return wrong;
  return wrong_with(before_of(folder / entry.file), entry.size, entry.sha256).empty() ? "" : wrong;
}

// Files of other names are not the run's: too old ones are deleted later.
bool is_of_run(const CheckpointEntry& entry) {
  const std::string name = fmt::format("{}/step-{}", kCheckpointFolder, entry.step);
  return entry.step >= 0 && (entry.file == name + ".safetensors" || entry.file == name + ".pt");
}

// The lines to the newest checkpoint whose file is what was written. A run that had checkpoints and has none that is
// sound is not begun again in silence.
std::vector<CheckpointLine> lines_to_newest_sound(const fs::path& folder, const std::string& log,
                                                  const std::string& remedy) {
  std::vector<CheckpointLine> lines = parse_unfinished_log<CheckpointLine>(log);
  if (lines.empty() && log.find('\n') != std::string::npos) {
    throw UserError((folder / kCheckpointsLog).string() + ":1",
                    "damaged: the line of the first checkpoint cannot be read", remedy);
  }
  for (std::size_t i = 0; i < lines.size(); ++i) {
    if (!is_of_run(lines[i].entry))
      throw UserError(fmt::format("{}:{}", (folder / kCheckpointsLog).string(), i + 1),
                      "damaged: a checkpoint of this step has another name", remedy);
  }
  std::string unsound;
  int named = 0;
  while (!lines.empty()) {
    const std::string wrong = wrong_with(folder, lines.back().entry);
    if (wrong.empty()) return lines;
    if (++named <= 3) unsound += (unsound.empty() ? "" : ", ") + lines.back().entry.file + " " + wrong;
    lines.pop_back();
  }
  if (named > 0)
    throw UserError(folder.string(),
                    fmt::format("had {} checkpoint{}, and none is sound: {}", named, named == 1 ? "" : "s", unsound),
                    remedy);
  return lines;
}

// Proves that the log's beginning is what the checkpoint saw.
std::string kept_of_log(const fs::path& path, const std::string& content, const FileDigest& covered) {
  std::string prefix = content.substr(0, covered.size);
  require_digest(prefix, covered, path);
  return prefix;
}

std::vector<fs::path> cuts_in(const fs::path& folder) {
  std::vector<fs::path> cuts;
  for (const std::string& name : names_in(folder)) {
    if (name.starts_with(kCut)) cuts.push_back(folder / name);
  }
  return cuts;
}

fs::path cut_folder(const fs::path& folder, std::uint64_t generation) {
  return folder / fmt::format("{}{}", kCut, generation);
}

std::uint64_t number_after(const std::string& name, std::string_view prefix) {
  std::uint64_t number = 0;
  if (name.starts_with(prefix)) std::from_chars(name.data() + prefix.size(), name.data() + name.size(), number);
  return number <= kLastGeneration ? number : 0;
}

// Whether the writer that made this cut then wrote a checkpoint of its own that is sound.
bool is_overcome(const fs::path& folder, const fs::path& cut) {
  if (!is_there(cut / kKeptBytes)) return false;
  const std::string log = read_record_file(folder / kCheckpointsLog, kLargestLog);
  std::uint64_t kept = 0;
  const std::string text = read_record_file(cut / kKeptBytes);
  std::from_chars(text.data(), text.data() + text.size(), kept);
  if (log.size() <= kept) return false;
  const auto lines = parse_unfinished_log<CheckpointLine>(std::string_view(log).substr(kept));
  return std::any_of(lines.begin(), lines.end(),
                     [&](const CheckpointLine& line) { return wrong_with(folder, line.entry).empty(); });
}

// Each change while the lock is held. Whoever is stopped between that question and the change, and taken over
// meanwhile, finds no folder .cut-<generation> of his any more: what he moves comes from there or goes there.
class Mover {
 public:
  explicit Mover(const RunLock& lock) : lock_(lock) {}

  void rename(const fs::path& from, const fs::path& to) const {
    lock_.require_held();
    rename_file(from, to);
  }
  // Two names of one file are one after it: a rename leaves them both.
  void merge(const fs::path& from, const fs::path& to) const {
    rename(from, to);
    remove_file(from);
  }
  // Another name for the file; where the file system has no hard links, its only one until it is written anew.
  void set_aside(const fs::path& file, const fs::path& aside) const {
    lock_.require_held();
    if (::link(file.c_str(), aside.c_str()) != 0) rename_file(file, aside);
  }
  void write(const fs::path& file, std::string_view content) const { write_held(lock_, file, content); }

 private:
  const RunLock& lock_;
};

void put_back(const fs::path& folder, const fs::path& cut, const Mover& mover) {
  if (is_there(cut / kCheckpointFolder)) {
    make_folders(folder / kCheckpointFolder);
    for (const std::string& name : names_in(cut / kCheckpointFolder))
      mover.merge(cut / kCheckpointFolder / name, folder / kCheckpointFolder / name);
    sync_folder(folder / kCheckpointFolder);
  }
  for (const std::string& name : names_in(cut)) {
    if (name != kCheckpointFolder && name != kCheckpointsLog && name != kKeptBytes)
      mover.merge(cut / name, folder / name);
  }
  sync_folder(folder);
  // Last: only when all the rest is back may its lines look like those of a checkpoint that stands.
  if (is_there(cut / kCheckpointsLog)) mover.merge(cut / kCheckpointsLog, folder / kCheckpointsLog);
  sync_folder(folder);
}

}  // namespace

fs::path before_of(const fs::path& file) { return file.parent_path() / (kBefore + file.filename().string()); }

std::uint64_t generation_of(const fs::path& folder) {
  std::uint64_t generation = 1;
  for (const std::string& name : names_in(folder)) {
    for (const std::string_view prefix : {kCut, std::string_view("environment-")})
      generation = std::max(generation, number_after(name, prefix));
  }
  return generation;
}

StateFile read_unfinished_state(const fs::path& folder, const std::string& contract) {
  StateFile state =
      parse_state(read_record_file(folder / kStateFile, largest_file(kStateFile)), (folder / kStateFile).string());
  if (!is_run_id(state.id, state.name))
    throw UserError((folder / kStateFile).string(), "damaged: id and name are not those of a run", kRestore);
  if (is_there(folder / kManifest)) {
    throw UserError(folder.string(), "is finished", "check it with isobit verify, or start another with isobit run");
  }
  if (is_stock(state.contract) != is_stock(contract)) {
    throw UserError(folder.string(),
                    fmt::format("was begun by {}; a run cannot be resumed by {}", printable(state.contract), contract),
                    "resume it with the arithmetic that it was begun with, or start a new run");
  }
  if (state.contract != contract) {
    throw UserError(
        folder.string(),
        fmt::format("was recorded under {}, this program computes by {}", printable(state.contract), contract),
        is_stock(contract) ? "resume it with the torch that started it" : "resume it with the isobit that started it");
  }
  return state;
}

void put_back_cut(const fs::path& folder, const RunLock& lock) {
  std::vector<fs::path> cuts = cuts_in(folder);
  // The oldest last: it is what was there first. (There is more than one only if somebody copied folders together.)
  std::sort(cuts.begin(), cuts.end(), [](const fs::path& a, const fs::path& b) {
    return number_after(a.filename().string(), kCut) > number_after(b.filename().string(), kCut);
  });
  for (const fs::path& cut : cuts) {
    if (!is_overcome(folder, cut)) put_back(folder, cut, Mover(lock));
    lock.require_held();
    remove_folder(cut);
  }
}

UnfinishedRun read_unfinished(const fs::path& folder, const std::vector<const char*>& logs, const std::string& remedy,
                              const std::string& contract) {
  UnfinishedRun run;
  run.state = read_unfinished_state(folder, contract);
  for (const auto& [path, digest] : run.state.inputs) {
    if (path.empty() || path[0] == '.' || path.find('/') != std::string::npos)
      throw UserError((folder / kStateFile).string(), "damaged: no run has such an input", kRestore);
    run.inputs[path] = read_record_file(folder / path, largest_file(path));
    if (sha256(run.inputs[path]) != digest.sha256 && is_there(before_of(folder / path))) {
      run.inputs[path] = read_record_file(before_of(folder / path), largest_file(path));
      run.older_inputs.push_back(path);
    }
    require_digest(run.inputs[path], digest, folder / path);
  }
  run.checkpoints = lines_to_newest_sound(folder, read_record_file(folder / kCheckpointsLog, kLargestLog), remedy);
  for (const char* name : logs) {
    FileDigest covered{0, sha256("")};
    if (!run.checkpoints.empty()) {
      const auto& newest = run.checkpoints.back().logs;
      if (newest.contains(name)) covered = newest.at(name);
    }
    // Records of earlier versions lack some.
    const bool newer = (name == std::string_view(kEvaluationsLog) || name == std::string_view(kOutsideLog)) &&
                       covered.size == 0 && !is_there(folder / name);
    const std::string content = newer ? "" : read_record_file(folder / name, kLargestLog);
    run.logs[name] = kept_of_log(folder / name, content, covered);
    if (name == std::string_view(kStepsLog)) {
      run.cut_off = parse_unfinished_log<StepLine>(std::string_view(content).substr(covered.size));
    }
  }
  std::string& lines = run.logs[kCheckpointsLog];
  std::set<std::string> seen;
  for (const CheckpointLine& line : run.checkpoints) lines += format_line(line);
  // Of two checkpoints of one step the later one has the file. Files of older ones may be gone.
  for (auto line = run.checkpoints.rbegin(); line != run.checkpoints.rend(); ++line) {
    if (seen.insert(line->entry.file).second && wrong_with(folder, line->entry).empty())
      run.kept.insert(run.kept.begin(), line->entry);
  }
  return run;
}

void cut_back(const fs::path& folder, const UnfinishedRun& run, const RunLock& lock) {
  const fs::path cut = cut_folder(folder, lock.generation()), checkpoints = cut / kCheckpointFolder;
  const Mover mover(lock);
  lock.require_held();
  make_folders(checkpoints);
  sync_folder(folder);
  for (const std::string& path : run.older_inputs) mover.rename(before_of(folder / path), folder / path);

  std::set<std::string> kept;
  for (const CheckpointEntry& entry : run.kept) {
    const fs::path file = folder / entry.file;
    kept.insert(file.filename().string());
    if (!is_there(before_of(file)) || wrong_with(file, entry.size, entry.sha256).empty()) continue;
    mover.rename(before_of(file), file);  // the other one never counted, and put back it would replace this one
  }
  for (const std::string& name : names_in(folder / kCheckpointFolder)) {
    if (!kept.contains(name)) mover.rename(folder / kCheckpointFolder / name, checkpoints / name);
  }
  for (const auto& [name, content] : run.logs) {
    if (is_there(folder / name)) mover.set_aside(folder / name, cut / name);
  }
  sync_folder(checkpoints);
  sync_folder(cut);
  for (const auto& [name, content] : run.logs) mover.write(folder / name, content);
  mover.write(cut / kKeptBytes, std::to_string(run.logs.at(kCheckpointsLog).size()));
}

void drop_cut(const fs::path& folder, std::uint64_t generation) {
  const fs::path cut = cut_folder(folder, generation);
  if (is_there(cut)) remove_folder(cut);
}

bool has_cuts(const fs::path& folder) { return !cuts_in(folder).empty(); }

void drop_cuts(const fs::path& folder) {
  for (const fs::path& cut : cuts_in(folder)) remove_folder(cut);
}

}  // namespace isobit::archive
