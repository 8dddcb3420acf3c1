#include "jobs/worker_processes.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <string_view>

#include "archive/user_error.h"

extern char** environ;

namespace isobit::jobs {
namespace {

constexpr off_t kKept = 4096;

std::string end_of(int file) {
  const off_t size = ::lseek(file, 0, SEEK_END), first = std::max<off_t>(0, size - kKept);
  std::string text(static_cast<std::size_t>(std::max<off_t>(0, size - first)), '\0');
  const ssize_t count = ::pread(file, text.data(), text.size(), first);
  text.resize(static_cast<std::size_t>(std::max<ssize_t>(0, count)));
  return text;
}

}  // namespace

WorkerProcesses::WorkerProcesses(std::vector<std::string> words, std::vector<std::string> environment)
    : words_(std::move(words)), environment_(std::move(environment)) {}

WorkerProcesses::~WorkerProcesses() {
  for (const Process& process : running_) ::kill(process.pid, SIGKILL);
  for (const Process& process : running_) {
    ::waitpid(process.pid, nullptr, 0);
    ::close(process.stderr_file);
  }
}

void WorkerProcesses::start() {
  std::vector<char*> words, environment;
  for (const std::string& word : words_) words.push_back(const_cast<char*>(word.c_str()));
  words.push_back(nullptr);
  for (char** entry = environ; *entry != nullptr; ++entry) environment.push_back(*entry);
  for (const std::string& entry : environment_) environment.push_back(const_cast<char*>(entry.c_str()));
  environment.push_back(nullptr);
  const int said = ::memfd_create("isobit-worker", MFD_CLOEXEC), nothing = ::open("/dev/null", O_RDWR | O_CLOEXEC);
  const pid_t parent = ::getpid(), pid = ::fork();
  if (pid == 0) {  // only system calls from here on
    ::setpgid(0, 0);
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (::getppid() != parent) ::_exit(127);
    ::dup2(nothing, STDIN_FILENO);
    ::dup2(nothing, STDOUT_FILENO);
    ::dup2(said, STDERR_FILENO);
    ::execve("/proc/self/exe", words.data(), environment.data());
    ::_exit(127);
  }
  const int code = errno;
  ::close(nothing);
  if (pid > 0) {
    running_.push_back({pid, said, std::chrono::steady_clock::now()});
    return;
  }
  ::close(said);
  throw archive::UserError("--workers", std::string("no process can be started: ") + std::strerror(code),
                           "use fewer workers");
}

std::vector<WorkerProcesses::Ended> WorkerProcesses::collect() {
  std::vector<Ended> all;
  for (std::size_t i = 0; i < running_.size();) {
    const Process process = running_[i];
    Ended ended{process.pid, 0, "", 0};
    if (::waitpid(process.pid, &ended.status, WNOHANG) != process.pid) {
      ++i;
      continue;
    }
    ended.said = end_of(process.stderr_file);
    ended.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - process.start).count();
    ::close(process.stderr_file);
    all.push_back(std::move(ended));
    running_.erase(running_.begin() + static_cast<std::ptrdiff_t>(i));
  }
  return all;
}

std::vector<pid_t> WorkerProcesses::pids() const {
  std::vector<pid_t> all;
  for (const Process& process : running_) all.push_back(process.pid);
  return all;
}

std::string how_it_ended(const WorkerProcesses::Ended& ended) {
  if (WIFSIGNALED(ended.status)) return fmt::format("signal {}", WTERMSIG(ended.status));
  return fmt::format("exit code {}", WEXITSTATUS(ended.status));
}

}  // namespace isobit::jobs
