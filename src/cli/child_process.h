// A program called as a child process and waited for.
#pragma once

#include <string>
#include <vector>

namespace isobit::cli {

struct ChildResult {
  int code = 0;        // its exit code; 128 + signal where a signal ended it
  std::string output;  // what it wrote to stdout, at most 1 MiB
  // "ended with exit code 1", "was ended by signal 9"
  [[nodiscard]] std::string how_it_ended() const;
};

// words[0] is looked for on PATH. stdin and stderr are this process's. While it runs, Ctrl-C is the child's alone to
// obey, and SIGTERM is passed on to it: so that who waits can clean up. UserError where it cannot be started. One at a
// time.
[[nodiscard]] ChildResult run_child(const std::vector<std::string>& words);

}  // namespace isobit::cli
