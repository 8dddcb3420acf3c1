// `isobit calibrate`: tagged baselines of an archive made anew, each in a child process, and what an upgrade moved.
#pragma once

#include <string>
#include <vector>

namespace isobit::study {

struct CalibrateOptions {
  std::string runs, add, as, remove, program;
  std::vector<std::string> tags;
  bool list = false, json = false;
};

// Prints the result. The process's exit code: 0 good, 1 a judged difference or a failed run, 2 cannot be told, 130
// interrupted. Throws archive::UserError for bad input. One at a time.
[[nodiscard]] int run_calibrate(const CalibrateOptions& options);

}  // namespace isobit::study
