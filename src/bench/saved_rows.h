// What was measured, kept: rows of benchmarks in a file that grows, a JSON object a line (docs/performance.md, "Results
// that are kept"). A row says by itself what was measured by which command, on which machine, when, with which code and
// against which peers, so that rows of several machines and days may stand in one file.
//
// A line is written whole or not at all, by processes side by side too. scripts/saved_rows.py writes the same lines.
#pragma once

#include <filesystem>
#include <map>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>

namespace isobit::bench {

inline constexpr const char* kSavedRow = "isobit-bench-saved-1";

// What all rows of a command share.
struct Measurement {
  std::string command;                       // as one would type it, without where its rows go
  std::string what;                          // what one row is of: "step", "memory", ...
  std::map<std::string, std::string> peers;  // what isobit is compared with: name and version
};

class SavedRows {
 public:
  // Looks at the file before minutes are spent on measuring; it is made with the first row. UserError where it is there
  // and has a line that is no such row, or can't be written.
  SavedRows(std::filesystem::path file, Measurement measurement);

  // figures: the row's own keys, with units in their names. waited: the share of the time for which others had the
  // core; nothing where the kernel does not count. UserError where the file has become another one, or the line can't
  // be written.
  void append(const nlohmann::json& figures, std::optional<double> waited) const;

 private:
  std::filesystem::path file_;
  Measurement measurement_;
};

}  // namespace isobit::bench
