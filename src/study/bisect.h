// `isobit bisect`: where two runs or two traces part, and what to trace next on both machines.
#pragma once

#include <string>

namespace isobit::study {

struct BisectOptions {
  std::string a, b, runs;
  bool json = false;
};

// Prints the result. The process's exit code: 0 good, 1 a judged difference or a failed run, 2 cannot be told, 130
// interrupted. Throws archive::UserError for bad input. One at a time.
[[nodiscard]] int run_bisect(const BisectOptions& options);

}  // namespace isobit::study
