#include "archive/patch_summary.h"

namespace isobit::archive {
namespace {

// "diff --git a/train.py b/train.py" -> "train.py": both names are the same but for a rename, where the second counts.
std::string path_of(std::string_view header) {
  const std::size_t second = header.rfind(" b/");
  if (second != std::string_view::npos) return std::string(header.substr(second + 3));
  return std::string(header);  // a quoted name, as git writes unusual ones
}

}  // namespace

std::vector<PatchedFile> summarize_patch(std::string_view patch) {
  constexpr std::string_view kHeader = "diff --git ";
  std::vector<PatchedFile> files;
  bool in_hunk = false;
  for (std::int64_t number = 1; !patch.empty(); ++number) {
    const std::size_t end = patch.find('\n');
    const std::string_view line = patch.substr(0, end);
    patch.remove_prefix(end == std::string_view::npos ? patch.size() : end + 1);
    if (line.starts_with(kHeader)) {
      files.push_back({path_of(line.substr(kHeader.size())), 0, 0, false, number});
      in_hunk = false;
    } else if (files.empty()) {
      continue;
    } else if (line.starts_with("@@ ")) {
      in_hunk = true;
    } else if (line.starts_with("GIT binary patch")) {
      files.back().binary = true;
    } else if (in_hunk) {
      if (line.starts_with('+')) ++files.back().added;
      if (line.starts_with('-')) ++files.back().removed;
    }
  }
  return files;
}

}  // namespace isobit::archive
