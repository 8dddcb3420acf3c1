// A program called as a child process, watched and waited for.
//
// It runs in a process group of its own with /dev/null as stdin, without any descriptor of this process but those named
// here, and ends with this process; one that talks with the user keeps terminal, stdin and stderr. What it prints is
// kept up to a bound; what it writes to descriptor 3 is handed on as it comes. Errors are archive::UserError.
// Thread-safe: each of several that run at once is called by a thread of its own.
#pragma once

#include <sys/resource.h>

#include <atomic>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace isobit::process {

struct ChildRequest {
  std::vector<std::string> words;        // words[0] is looked for on PATH
  bool own_environment = false;          // `environment` alone, else this process's with `environment` added
  std::vector<std::string> environment;  // "NAME=value"
  std::size_t keep = 64 << 10;           // bytes of what it prints: the last ones
  bool with_user = false;                // it may ask at the terminal
  bool together = false;                 // stderr's text among stdout's, in the order in which they came

  std::vector<std::pair<int, rlim_t>> limits;  // RLIMIT_..., in the child
  std::uint64_t memory = 0;                    // bytes of all its processes together; 0: no limit, as below
  std::int64_t processes = 0, seconds = 0;

  std::string handed;  // what it can read from descriptor 4

  // Called in the child before the program begins, where only system calls may be made. What could not be done is
  // written to `problem`, with errno in the result; 0: all is well.
  std::function<int(char* problem, std::size_t size)> prepare;
  // What it wrote to descriptor 3; false: enough, it is ended. None: it has no descriptor 3.
  std::function<bool(std::string_view)> report;
  std::function<void()> tick;               // called a few times per second
  const std::atomic<bool>* stop = nullptr;  // it is ended once this is true
  int patience = 0;                         // seconds: it is sent SIGINT first, and ended only after so long
};

struct ChildResult {
  int code = 0;              // its exit code; 128 + signal where a signal ended it
  std::string output, err;   // the last of what it printed; `err` is empty where it went elsewhere
  std::string limit;         // the limit that it was ended for, "memory"; "" otherwise
  bool interrupted = false;  // by `stop`
  // "ended with exit code 1", "was stopped by signal 9"
  [[nodiscard]] std::string how_it_ended() const;
  // Of a child that is this program: the line of its error, which names place, problem and remedy; else how it ended.
  [[nodiscard]] std::string error_line() const;
};

// UserError where it cannot be started.
[[nodiscard]] ChildResult run_child(const ChildRequest& request);

// With the user, and else as words alone say.
[[nodiscard]] ChildResult run_child(const std::vector<std::string>& words);

// Where a program of this name is on PATH; "" where it is not.
[[nodiscard]] std::string find_program(const std::string& name);

}  // namespace isobit::process
