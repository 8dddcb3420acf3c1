// A cache of run summaries: SQLite, per user, at $XDG_CACHE_HOME/isobit/index.sqlite (docs/formats/index.md).
//
// A row counts only while the run's files look as they did when it was made (size, time of change, inode), so
// a stale index is harmless; one that is damaged, of another version or not writable is rebuilt or done
// without, silently. Nothing here throws. One thread per object; processes may share the file.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "archive/record_types.h"

namespace isobit::archive {

// $XDG_CACHE_HOME, else $HOME/.cache; empty where neither is set.
[[nodiscard]] std::filesystem::path index_path();

// Of a row, which has it beside: one that rotted on disk must not be believed.
[[nodiscard]] std::int64_t row_check_sum(std::string_view id, std::string_view stamp, std::string_view summary);

class RunIndex {
 public:
  // Rows of one archive. An empty path: an index that remembers nothing.
  RunIndex(const std::filesystem::path& file, const std::filesystem::path& runs) noexcept;
  ~RunIndex();

  [[nodiscard]] std::optional<RunSummary> find(const std::string& id, const std::string& stamp) noexcept;
  // Kept until the object goes.
  void put(const std::string& id, const std::string& stamp, const RunSummary& summary) noexcept;
  // Whether a database stands behind it.
  [[nodiscard]] bool usable() const noexcept;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace isobit::archive
