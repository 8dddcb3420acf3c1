// What a patch (git diff) changes: files with counts of added and removed lines. Thread-safe; no state.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace isobit::archive {

struct PatchedFile {
  std::string path;
  std::int64_t added = 0, removed = 0;
  bool binary = false;          // its content cannot be read by a person
  std::int64_t first_line = 0;  // of the patch, from 1
};

[[nodiscard]] std::vector<PatchedFile> summarize_patch(std::string_view patch);

}  // namespace isobit::archive
