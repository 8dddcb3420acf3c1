// `isobit report`: runs, a study or a comparison gathered, cleaned of secrets and written as one page.
#pragma once

#include <string>
#include <vector>

namespace isobit::report {

struct ReportOptions {
  std::vector<std::string> what, allow;
  std::string runs, out, diff, drift, targets, title;
  bool redact = false, json = false;
};

// Prints the result. The process's exit code: 0 good, 1 a judged difference or a failed run, 2 cannot be told, 130
// interrupted. Throws archive::UserError for bad input. One at a time.
[[nodiscard]] int run_report(const ReportOptions& options);

}  // namespace isobit::report
