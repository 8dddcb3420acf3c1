// The archive: a folder of runs. The folders are the truth; the index (run_index.h) only saves reading them.
// Errors are UserError. Thread-safe.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "archive/record_types.h"

namespace isobit::archive {

// `option` where not empty, else $ISOBIT_RUNS where set, else "runs".
[[nodiscard]] std::filesystem::path runs_folder(const std::string& option = {});

// The run that `word` means: a folder's path, "last" (the newest), an id, or the beginning of exactly one id.
[[nodiscard]] std::filesystem::path find_run(const std::filesystem::path& runs, const std::string& word);

// A run of a name that its user chose (isobit run --once) ends in 8 digits that follow from the name. Two names have
// the same ending once in 2^32: whoever finds a run by it looks whether it is the one that was meant.
[[nodiscard]] std::string ending_of(const std::string& once);
// The run with this ending; nothing if there is none. UserError where several have it.
[[nodiscard]] std::optional<std::filesystem::path> find_ending(const std::filesystem::path& runs,
                                                               const std::string& ending);

// Newest first. A missing archive is an empty one. Never fails for one bad run: that one is `damaged`.
[[nodiscard]] std::vector<RunSummary> list_runs(const std::filesystem::path& runs);

// What one folder says: its manifest, the files' sizes and who holds its lock; digests are run_record.h's
// matter. Never throws for bad content: that run is `damaged`.
[[nodiscard]] RunSummary summarize(const std::filesystem::path& run);

}  // namespace isobit::archive
