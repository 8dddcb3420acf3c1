// `isobit export`: a finished run as one file that a stranger can verify, or as a folder for another tool.
#pragma once

#include <string>
#include <vector>

namespace isobit::report {

struct ExportOptions {
  std::string run, folder, runs, out, sign, to = "tar";
  std::vector<std::string> allow;
  bool with_weights = false, redact = false, yes = false, json = false;
};

// Prints the result. The process's exit code: 0 good, 1 a judged difference or a failed run, 2 cannot be told, 130
// interrupted. Throws archive::UserError for bad input. One at a time.
[[nodiscard]] int run_export(const ExportOptions& options);

}  // namespace isobit::report
