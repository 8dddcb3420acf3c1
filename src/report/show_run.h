// `isobit show`: one run's record, checked against its manifest.
#pragma once

#include <string>

namespace isobit::report {

struct ShowOptions {
  std::string run, runs;
  bool json = false, tables = false;
};

// Prints the result. The process's exit code: 0 good, 1 a judged difference or a failed run, 2 cannot be told, 130
// interrupted. Throws archive::UserError for bad input. One at a time.
[[nodiscard]] int run_show(const ShowOptions& options);

}  // namespace isobit::report
