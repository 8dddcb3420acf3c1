// What isobit._proof._verify says about running a recorded program again: JSON on its stdout. The package is the user's
// own; the words in it are the record's. No torch; no state; thread-safe.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace isobit::proof {

struct ScriptPlan {
  std::string python;          // the interpreter, absolute
  std::string file, folder;    // script and working folder, relative to the program's folder; "" is that folder
  std::string beside;          // folder whose files it sees next to its own, absolute; "": none
  std::int64_t processes = 1;  // that share a process group
  bool seeded = true;          // whether a source calls something like seed()
  std::vector<std::string> arguments;
  std::string instead;                        // what is executed in place of something recorded, as words; "": nothing
  std::vector<std::string> unused;            // what of the record plays no part in this, as words for people
  std::vector<std::string> readable, hidden;  // absolute paths
  std::vector<std::string> own;               // of what verifies, and lies beside: absolute paths
  std::vector<std::pair<std::filesystem::path, std::string>> links;  // (where, to what)
  std::vector<std::string> environment;                              // "NAME=value"
};

// Throws std::exception where the text is no such plan: other types, paths that are not as above or have "..", a count
// of processes that is none, names of variables with "=", a NUL in any word, more than 65,536 words.
[[nodiscard]] ScriptPlan parse_plan(std::string_view text);

}  // namespace isobit::proof
