#include "archive/patch_summary.h"

#include <utility>

namespace isobit::archive {
namespace {

// "\"b/\\303\\274.env\"" -> "b/\xc3\xbc.env": as git writes names with other characters than ASCII's.
std::string unquoted(std::string_view name) {
  if (name.size() < 2 || name.front() != '"' || name.back() != '"') return std::string(name);
  constexpr std::string_view kLetters = "abtnvfr", kMeaning = "\a\b\t\n\v\f\r";
  std::string plain;
  for (std::size_t i = 1; i + 1 < name.size(); ++i) {
    if (name[i] != '\\') {
      plain += name[i];
      continue;
    }
    const char next = name[++i];
    if (next >= '0' && next <= '3' && i + 3 < name.size()) {
      plain += static_cast<char>((next - '0') * 64 + (name[i + 1] - '0') * 8 + (name[i + 2] - '0'));
      i += 2;
    } else {
      const std::size_t letter = kLetters.find(next);
      plain += letter == std::string_view::npos ? next : kMeaning[letter];
    }
  }
  return plain;
}

// Without "b/", whatever the two sides are called.
std::string without_side(std::string name) {
  return name.size() > 2 && name[1] == '/' ? name.substr(2) : std::move(name);
}

// "diff --git a/train.py b/train.py" -> "train.py": both names are the same but for a rename, where the second counts.
std::string path_of(std::string_view header) {
  if (header.ends_with('"')) {
    std::size_t begin = header.size() - 1;  // of the last quoted name: the quote before it that is not escaped
    do {
      begin = header.rfind('"', begin - 1);
    } while (begin != std::string_view::npos && begin > 0 && header[begin - 1] == '\\');
    if (begin != std::string_view::npos) return without_side(unquoted(header.substr(begin)));
  }
  const std::size_t middle = header.size() / 2;
  if (header.size() % 2 == 1 && header[middle] == ' ') {
    const std::string first = without_side(std::string(header.substr(0, middle))),
                      second = without_side(std::string(header.substr(middle + 1)));
    if (first == second) return second;
  }
  const std::size_t second = header.rfind(" b/");
  if (second != std::string_view::npos) return std::string(header.substr(second + 3));
  return std::string(header);
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
