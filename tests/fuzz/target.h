// What one reader is fed with. A target gets bytes that anybody may have written and fails by an exception: Fault where
// a promise is broken, or whatever else the reader lets through. libFuzzer (fuzz_main.cpp) and a plain test
// (replay_test.cpp) call the same targets. One thread.
#pragma once

#include <cstddef>
#include <filesystem>
#include <ostream>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "archive/user_error.h"

namespace isobit::fuzz {

// A reader did something that it promises not to do.
class Fault : public std::logic_error {
 public:
  using std::logic_error::logic_error;
};

inline void require(bool holds, const std::string& promise) {
  if (!holds) throw Fault("broken: " + promise);
}

// Whether `read` took its input; the one refusal allowed is a UserError that says where. Anything else comes through.
template <class Read>
bool accepts(const Read& read) {
  try {
    read();
    return true;
  } catch (const archive::UserError& error) {
    require(!error.place().empty() && !error.problem().empty(), "an error names its file and problem");
    return false;
  }
}

struct Target {
  const char* name;
  void (*run)(std::string_view input);
  std::vector<std::string> (*seeds)();  // made by the program's own writers
  int mutations;                        // of a quick test
};
// For GoogleTest: the same in every process.
inline void PrintTo(const Target& target, std::ostream* out) { *out << target.name; }

[[nodiscard]] std::span<const Target> targets();
// Throws std::invalid_argument listing all names.
[[nodiscard]] const Target& find_target(std::string_view name);

// A folder of this process, in memory where the system has such a folder; removed when the process ends.
[[nodiscard]] const std::filesystem::path& scratch();
void put(const std::filesystem::path& file, std::string_view content);

// Longer inputs are tried as they are; changing them would take the time of many short ones.
inline constexpr std::size_t kLongestChanged = 1 << 14;

// One changed input. The same for the same three arguments; `others` are what pieces are taken from.
[[nodiscard]] std::string mutated(std::string input, std::span<const std::string> others, std::uint64_t seed);

}  // namespace isobit::fuzz
