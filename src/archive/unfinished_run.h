// What a run that ended early left behind, proven, and cut back to its newest sound checkpoint: the first half
// of resuming (docs/formats/run.md). The caller holds the run's lock, which is asked before each change.
//
// Nothing of it is lost before the new writer has a checkpoint of its own. What does not belong to the newest sound
// checkpoint is set aside in the folder .cut-<generation> of the run; where the new writer ends before its first
// checkpoint, the next one puts all of it back and begins with what the first one found. Logs get new inodes, so
// that a writer that was stopped and goes on writes into files that nobody reads. Errors are UserError naming the file;
// an error of the file system is a FileError and is never taken for damage.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "archive/log_lines.h"
#include "archive/run_lock.h"
#include "archive/run_state.h"
#include "archive/sha256.h"

namespace isobit::archive {

// What a file is called when another one takes its name, until the record says so: another checkpoint of the same step
// until its line stands, another input until state.json knows it. Resuming takes it where the other one does not count.
inline constexpr const char* kBefore = ".before-";
[[nodiscard]] std::filesystem::path before_of(const std::filesystem::path& file);

struct UnfinishedRun {
  StateFile state;
  std::map<std::string, std::string> inputs;  // contents by file name
  std::vector<std::string> older_inputs;      // those of which the file is another one, that does not count yet
  std::vector<CheckpointLine> checkpoints;    // the newest sound one and those before, oldest first
  std::vector<CheckpointEntry> kept;          // those of them whose files are there and sound
  std::map<std::string, std::string> logs;    // what is kept of each, by file name; checkpoints.jsonl, too
  std::vector<StepLine> cut_off;              // steps that were recorded after the newest checkpoint
};

// One more than any generation that left its mark in the folder.
[[nodiscard]] std::uint64_t generation_of(const std::filesystem::path& folder);

// Reads the state; UserError for a run that is finished, or was recorded under another contract than this, or by stock
// PyTorch where a contract is asked for, or the other way round.
[[nodiscard]] StateFile read_unfinished_state(const std::filesystem::path& folder, const std::string& contract);

// Puts back what a writer had set aside that ended before its first checkpoint.
void put_back_cut(const std::filesystem::path& folder, const RunLock& lock);

// Reads and proves; changes nothing. `logs`: those of the run beside checkpoints.jsonl, steps.jsonl among them.
// `remedy` helps where there were checkpoints and none is sound.
[[nodiscard]] UnfinishedRun read_unfinished(const std::filesystem::path& folder, const std::vector<const char*>& logs,
                                            const std::string& remedy, const std::string& contract);

// Makes the folder what `run` says; the rest goes to .cut-<generation of the lock>.
void cut_back(const std::filesystem::path& folder, const UnfinishedRun& run, const RunLock& lock);

// The end of what this generation set aside; of all that ever was.
void drop_cut(const std::filesystem::path& folder, std::uint64_t generation);
[[nodiscard]] bool has_cuts(const std::filesystem::path& folder);
void drop_cuts(const std::filesystem::path& folder);

}  // namespace isobit::archive
