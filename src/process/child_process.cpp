#include "process/child_process.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <optional>

#include "archive/user_error.h"
#include "process/process_watch.h"

extern char** environ;

namespace isobit::process {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int kReports = 3, kHanded = 4, kProblems = 5;  // descriptors in the child
constexpr int kTick = 200;                               // milliseconds

[[noreturn]] void cannot_start(const std::string& program, const std::string& reason) {
  throw archive::UserError(program, "cannot be started: " + reason, "");
}

class Descriptor {
 public:
  Descriptor() = default;
  explicit Descriptor(int value) : value_(value) {}
  Descriptor(Descriptor&& other) noexcept : value_(std::exchange(other.value_, -1)) {}
  Descriptor& operator=(Descriptor&& other) noexcept {
    std::swap(value_, other.value_);
    return *this;
  }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  ~Descriptor() { close(); }
  [[nodiscard]] int get() const { return value_; }
  void close() {
    if (value_ >= 0) ::close(std::exchange(value_, -1));
  }

 private:
  int value_ = -1;
};

// Above those that the child's descriptors are moved to.
Descriptor moved_up(int value) {
  const int up = ::fcntl(value, F_DUPFD_CLOEXEC, 16);
  ::close(value);
  return Descriptor(up);
}

struct Pipe {
  Descriptor read, write;
  explicit Pipe(const std::string& program) {
    std::array<int, 2> ends{};
    if (::pipe2(ends.data(), O_CLOEXEC) != 0) cannot_start(program, std::strerror(errno));
    read = moved_up(ends[0]);
    write = moved_up(ends[1]);
  }
};

// What a child wrote about a start that failed.
struct Problem {
  int code = 0;
  std::array<char, 252> text{};
};

// All that the child needs, made before the fork: between fork and exec a process with threads may only make system
// calls.
class Start {
 public:
  explicit Start(const ChildRequest& request)
      : request_(request),
        program_(find_program(request.words.at(0))),
        out_(request.words[0]),
        err_(request.words[0]),
        reports_(request.words[0]),
        problems_(request.words[0]) {
    if (program_.empty()) cannot_start(request.words[0], std::strerror(ENOENT));
    for (const std::string& word : request.words) words_.push_back(const_cast<char*>(word.c_str()));
    words_.push_back(nullptr);
    if (!request.own_environment) {
      for (char** entry = environ; *entry != nullptr; ++entry) add_inherited(*entry);
    }
    for (const std::string& entry : request.environment) environment_.push_back(const_cast<char*>(entry.c_str()));
    environment_.push_back(nullptr);
    nothing_ = moved_up(::open("/dev/null", O_RDWR | O_CLOEXEC));
    if (!request.handed.empty()) hand();
  }

  // In the child: never returns.
  [[noreturn]] void child(pid_t parent) const {
    Problem problem;
    const int code = begin(parent, problem);
    problem.code = code;
    [[maybe_unused]] const ssize_t ignored = ::write(kProblems, &problem, sizeof problem);
    ::_exit(127);
  }
  // In the parent.
  void started() {
    out_.write.close();
    err_.write.close();
    reports_.write.close();
    problems_.write.close();
  }
  void expect_begun() const {
    Problem problem;
    ssize_t n = 0;
    while ((n = ::read(problems_.read.get(), &problem, sizeof problem)) < 0 && errno == EINTR) {
    }
    if (n != sizeof problem) return;
    problem.text.back() = '\0';
    const std::string what = problem.text.data();
    cannot_start(request_.words[0],
                 what.empty() ? std::strerror(problem.code) : fmt::format("{}: {}", what, std::strerror(problem.code)));
  }
  [[nodiscard]] int out() const { return out_.read.get(); }
  [[nodiscard]] int err() const { return err_.read.get(); }
  [[nodiscard]] int reports() const { return reports_.read.get(); }

 private:
  void add_inherited(char* entry) {
    const std::string_view name = std::string_view(entry).substr(0, std::string_view(entry).find('='));
    const auto replaces = [&](const std::string& other) {
      return other.size() > name.size() && other.compare(0, name.size(), name) == 0 && other[name.size()] == '=';
    };
    if (std::none_of(request_.environment.begin(), request_.environment.end(), replaces)) environment_.push_back(entry);
  }

  void hand() {
    handed_ = moved_up(::memfd_create("handed", MFD_CLOEXEC));
    const std::string& text = request_.handed;
    if (handed_.get() < 0 || ::write(handed_.get(), text.data(), text.size()) != static_cast<ssize_t>(text.size()) ||
        ::lseek(handed_.get(), 0, SEEK_SET) != 0)
      cannot_start(request_.words[0], std::strerror(errno));
  }

  static void give(int from, int to) {
    if (from >= 0) ::dup2(from, to);
  }

  // errno of what failed.
  int begin(pid_t parent, Problem& problem) const {
    ::dup2(problems_.write.get(), kProblems);
    ::fcntl(kProblems, F_SETFD, FD_CLOEXEC);
    if (!request_.with_user) {
      ::setpgid(0, 0);
      give(nothing_.get(), STDIN_FILENO);
      give(request_.together ? out_.write.get() : err_.write.get(), STDERR_FILENO);
    }
    give(out_.write.get(), STDOUT_FILENO);
    give(request_.report ? reports_.write.get() : nothing_.get(), kReports);
    give(handed_.get() >= 0 ? handed_.get() : nothing_.get(), kHanded);
    close_others();
    for (int signal = 1; signal < NSIG; ++signal)
      ::signal(signal, SIG_DFL);  // what is ignored here stays ignored there
    sigset_t none;
    ::sigemptyset(&none);
    ::sigprocmask(SIG_SETMASK, &none, nullptr);
    for (const auto& [which, most] : request_.limits) {
      rlimit limit{};
      ::getrlimit(static_cast<__rlimit_resource_t>(which), &limit);
      limit.rlim_max = std::min(limit.rlim_max, most);
      limit.rlim_cur = limit.rlim_max;
      if (::setrlimit(static_cast<__rlimit_resource_t>(which), &limit) != 0) return errno;
    }
    if (request_.prepare) {
      if (const int code = request_.prepare(problem.text.data(), problem.text.size() - 1); code != 0) return code;
    }
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (::getppid() != parent) return ECANCELED;  // it ended before this was in force
    ::execve(program_.c_str(), words_.data(), environment_.data());
    return errno;
  }

  static void close_others() {
    if (::syscall(SYS_close_range, kProblems + 1, ~0U, 0) == 0) return;
    for (int descriptor = kProblems + 1; descriptor < 65536; ++descriptor) ::close(descriptor);
  }

  const ChildRequest& request_;
  std::string program_;
  Pipe out_, err_, reports_, problems_;
  Descriptor nothing_, handed_;
  std::vector<char*> words_, environment_;
};

// Ends the child and its group when it goes.
class Child {
 public:
  Child(const Start& start, bool own_group) : own_group_(own_group) {
    const pid_t self = ::getpid();
    process_ = ::fork();
    if (process_ < 0) cannot_start("the program", std::strerror(errno));
    if (process_ == 0) start.child(self);
    if (own_group) ::setpgid(process_, process_);  // here, too: whoever comes first
  }
  ~Child() {
    if (process_ > 0 && !status_) end();
    if (process_ > 0) static_cast<void>(wait());
  }
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;

  [[nodiscard]] pid_t process() const { return process_; }
  void end() const {
    if (!status_) ::kill(own_group_ ? -process_ : process_, SIGKILL);
  }
  void ask_to_end() const {
    if (!status_) ::kill(own_group_ ? -process_ : process_, SIGINT);
  }
  bool has_ended() {
    siginfo_t info{};
    if (!status_ && ::waitid(P_PID, static_cast<id_t>(process_), &info, WEXITED | WNOHANG | WNOWAIT) == 0 &&
        info.si_pid == process_)
      static_cast<void>(wait());
    return status_.has_value();
  }
  int wait() {
    while (!status_) {
      siginfo_t info{};
      if (::waitid(P_PID, static_cast<id_t>(process_), &info, WEXITED | WNOWAIT) != 0) {
        if (errno == EINTR) continue;
        status_ = 255 << 8;  // nobody can say
        break;
      }
      if (own_group_)
        ::kill(-process_, SIGKILL);  // those that it left; while it is not reaped, its number is nobody else's
      int status = 0;
      while (::waitpid(process_, &status, 0) < 0 && errno == EINTR) {
      }
      status_ = status;
    }
    return WIFEXITED(*status_) ? WEXITSTATUS(*status_) : 128 + WTERMSIG(*status_);
  }

 private:
  pid_t process_ = -1;
  bool own_group_;
  std::optional<int> status_;
};

void keep_last(std::string& text, std::string_view more, std::size_t most) {
  text.append(more);
  if (text.size() > 2 * most) text.erase(0, text.size() - most);
}

class Conversation {
 public:
  Conversation(const ChildRequest& request, const Start& start, Child& child)
      : request_(request),
        child_(child),
        watch_(child.process(), request.memory, request.processes),
        polled_{{{start.out(), POLLIN, 0}, {start.err(), POLLIN, 0}, {start.reports(), POLLIN, 0}}} {}

  ChildResult hold() {
    const auto begin = Clock::now();
    auto next = begin;
    while (!done()) {
      ::poll(polled_.data(), polled_.size(), kTick);
      for (std::size_t i = 0; i < polled_.size(); ++i) {
        if (polled_[i].revents != 0) read(i);
      }
      const auto now = Clock::now();
      if (request_.stop != nullptr && *request_.stop) stop(now);
      if (now < next) continue;
      next = now + std::chrono::milliseconds(kTick);
      if (request_.tick) request_.tick();
      if (request_.seconds > 0 && now - begin > std::chrono::seconds(request_.seconds)) end_for("time");
      if (const char* limit = watch_.exceeded()) end_for(limit);
    }
    result_.code = child_.wait();
    for (std::string* text : {&result_.output, &result_.err})
      text->erase(0, text->size() - std::min(text->size(), request_.keep));
    return std::move(result_);
  }

 private:
  // Where the child has ended, what others of its group still hold open is not waited for.
  bool done() {
    const bool all_closed = std::all_of(polled_.begin(), polled_.end(), [](const pollfd& p) { return p.fd < 0; });
    if (all_closed) return true;
    if (!child_.has_ended()) return false;
    return ::poll(polled_.data(), polled_.size(), 0) == 0;
  }

  void read(std::size_t i) {
    std::array<char, 1 << 16> buffer;
    const ssize_t n = ::read(polled_[i].fd, buffer.data(), buffer.size());
    if (n < 0 && errno == EINTR) return;
    if (n <= 0) {
      polled_[i].fd = -1;
      return;
    }
    const std::string_view text(buffer.data(), static_cast<std::size_t>(n));
    if (i < 2) return keep_last(i == 0 ? result_.output : result_.err, text, request_.keep);
    if (request_.report && !request_.report(text)) child_.end();
  }

  void stop(Clock::time_point now) {
    if (!result_.interrupted) {
      result_.interrupted = true;
      end_at_ = now + std::chrono::seconds(request_.patience);
      if (request_.patience > 0) child_.ask_to_end();
    }
    if (now >= end_at_) child_.end();
  }

  void end_for(const char* limit) {
    if (result_.limit.empty()) result_.limit = limit;
    child_.end();
  }

  const ChildRequest& request_;
  Child& child_;
  ProcessWatch watch_;
  std::array<pollfd, 3> polled_;
  ChildResult result_;
  Clock::time_point end_at_{};
};

}  // namespace

std::string ChildResult::how_it_ended() const {
  return code > 128 ? fmt::format("was stopped by signal {}", code - 128)
                    : fmt::format("ended with exit code {}", code);
}

std::string ChildResult::error_line() const {
  constexpr std::string_view kPrefix = "isobit: ";
  for (std::string_view rest = err; !rest.empty();) {
    const std::string_view line = rest.substr(0, rest.find('\n'));
    if (line.starts_with(kPrefix)) return std::string(line.substr(kPrefix.size()));
    rest.remove_prefix(std::min(rest.size(), line.size() + 1));
  }
  return how_it_ended();
}

std::string find_program(const std::string& name) {
  if (name.find('/') != std::string::npos) return name;
  const char* path = std::getenv("PATH");
  std::string_view rest = path != nullptr ? path : "/usr/bin:/bin";
  while (!rest.empty()) {
    const std::string_view folder = rest.substr(0, rest.find(':'));
    rest.remove_prefix(std::min(rest.size(), folder.size() + 1));
    if (folder.empty() || folder[0] != '/') continue;  // not what lies in a folder that a record came with
    const std::string found = std::string(folder) + "/" + name;
    std::error_code ignored;
    if (::access(found.c_str(), X_OK) == 0 && std::filesystem::is_regular_file(found, ignored)) return found;
  }
  return "";
}

ChildResult run_child(const ChildRequest& request) {
  Start start(request);
  Child child(start, !request.with_user);
  start.started();
  start.expect_begun();
  return Conversation(request, start, child).hold();
}

ChildResult run_child(const std::vector<std::string>& words) {
  ChildRequest request;
  request.words = words;
  request.keep = 1 << 20;
  request.with_user = true;
  return run_child(request);
}

}  // namespace isobit::process
