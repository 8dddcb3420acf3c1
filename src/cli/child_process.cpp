#include "cli/child_process.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <cstring>

#include "archive/user_error.h"

extern char** environ;

namespace isobit::cli {
namespace {

constexpr std::size_t kMostOutput = 1 << 20;

std::atomic<pid_t> child{0};
static_assert(std::atomic<pid_t>::is_always_lock_free);  // so that a signal handler may read it

void pass_on(int signal) {
  if (const pid_t process = child.load(); process > 0) ::kill(process, signal);
}

// While it lives, SIGINT is ignored and SIGTERM passed on.
class Signals {
 public:
  Signals() {
    struct sigaction action {};
    action.sa_handler = SIG_IGN;
    ::sigaction(SIGINT, &action, &interrupt_);
    action.sa_handler = pass_on;
    action.sa_flags = SA_RESTART;
    ::sigaction(SIGTERM, &action, &terminate_);
  }
  ~Signals() {
    child = 0;
    ::sigaction(SIGINT, &interrupt_, nullptr);
    ::sigaction(SIGTERM, &terminate_, nullptr);
  }
  Signals(const Signals&) = delete;
  Signals& operator=(const Signals&) = delete;

 private:
  struct sigaction interrupt_ {
  }, terminate_{};
};

[[noreturn]] void cannot_start(const std::string& program, int code) {
  throw archive::UserError(program, fmt::format("cannot be started: {}", std::strerror(code)),
                           "set ISOBIT_PYTHON to a Python that has isobit");
}

// The child's process id; its stdout is the pipe's writing end.
pid_t start(const std::vector<std::string>& words, int output) {
  std::vector<std::string> copies = words;
  std::vector<char*> pointers;
  for (std::string& word : copies) pointers.push_back(word.data());
  pointers.push_back(nullptr);
  posix_spawn_file_actions_t actions;
  posix_spawnattr_t attributes;
  ::posix_spawn_file_actions_init(&actions);
  ::posix_spawnattr_init(&attributes);
  ::posix_spawn_file_actions_adddup2(&actions, output, STDOUT_FILENO);
  sigset_t defaults;  // what this process ignores, the child would ignore, too
  ::sigemptyset(&defaults);
  for (const int signal : {SIGINT, SIGTERM, SIGXFSZ}) ::sigaddset(&defaults, signal);
  ::posix_spawnattr_setsigdefault(&attributes, &defaults);
  ::posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGDEF);
  pid_t process = 0;
  const int code = ::posix_spawnp(&process, pointers[0], &actions, &attributes, pointers.data(), environ);
  ::posix_spawn_file_actions_destroy(&actions);
  ::posix_spawnattr_destroy(&attributes);
  if (code != 0) cannot_start(words[0], code);
  return process;
}

std::string read_all(int descriptor) {
  std::string text;
  std::array<char, 4096> buffer{};
  for (;;) {
    const ssize_t n = ::read(descriptor, buffer.data(), buffer.size());
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return text;
    text.append(buffer.data(), std::min(static_cast<std::size_t>(n), kMostOutput - std::min(kMostOutput, text.size())));
  }
}

}  // namespace

std::string ChildResult::how_it_ended() const {
  return code > 128 ? fmt::format("was stopped by signal {}", code - 128)
                    : fmt::format("ended with exit code {}", code);
}

ChildResult run_child(const std::vector<std::string>& words) {
  std::array<int, 2> ends{};
  if (::pipe2(ends.data(), O_CLOEXEC) != 0) cannot_start(words[0], errno);
  const Signals signals;
  pid_t process = 0;
  try {
    process = start(words, ends[1]);
  } catch (...) {
    ::close(ends[0]);
    ::close(ends[1]);
    throw;
  }
  child = process;
  ::close(ends[1]);
  ChildResult result;
  result.output = read_all(ends[0]);
  ::close(ends[0]);
  int status = 0;
  while (::waitpid(process, &status, 0) < 0 && errno == EINTR) {
  }
  result.code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  return result;
}

}  // namespace isobit::cli
