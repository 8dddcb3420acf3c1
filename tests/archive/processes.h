// Child processes for tests: killed, racing, or with a file system of their own.
#pragma once

#include <sched.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/wait.h>
#include <unistd.h>

#include <exception>
#include <optional>
#include <string>

namespace isobit::archive {

// A child that runs `action` and sends what it returns (a string), or the message of what it throws. Killed
// and waited for when the object goes.
class Child {
 public:
  template <class Action>
  explicit Child(const Action& action) {
    int ends[2];
    if (::pipe(ends) != 0) std::abort();
    pid_ = ::fork();
    if (pid_ == 0) {
      ::close(ends[0]);
      std::string answer;
      try {
        answer = action();
      } catch (const std::exception& error) {
        answer = error.what();
      }
      [[maybe_unused]] const auto written = ::write(ends[1], answer.data(), answer.size());
      ::_exit(0);
    }
    ::close(ends[1]);
    input_ = ends[0];
  }
  ~Child() {
    kill();
    ::close(input_);
  }
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;

  // kill -9; the child is gone when this returns.
  void kill() {
    if (pid_ < 0) return;
    ::kill(pid_, SIGKILL);
    wait();
  }
  [[nodiscard]] pid_t pid() const { return pid_; }
  // Waits until it is stopped (true) or has ended.
  bool stopped() {
    int status = 0;
    if (pid_ < 0 || ::waitpid(pid_, &status, WUNTRACED) != pid_) return false;
    if (!WIFSTOPPED(status)) pid_ = -1;
    return WIFSTOPPED(status);
  }
  // All that the child sends until it ends.
  std::string answer() {
    std::string text;
    char buffer[4096];
    for (ssize_t n = ::read(input_, buffer, sizeof buffer); n > 0; n = ::read(input_, buffer, sizeof buffer)) {
      text.append(buffer, static_cast<std::size_t>(n));
    }
    wait();
    return text;
  }

 private:
  void wait() {
    if (pid_ >= 0) ::waitpid(pid_, nullptr, 0);
    pid_ = -1;
  }
  pid_t pid_ = -1;
  int input_ = -1;
};

// Runs `action` in a child in which a tmpfs with these options ("size=64k") lies on `folder`; nothing where
// this system lets us not mount (no privilege and no user namespaces).
template <class Action>
std::optional<std::string> with_tmpfs(const std::string& folder, const std::string& options, const Action& action) {
  Child child([&]() -> std::string {
    if (::unshare(CLONE_NEWNS) != 0 && ::unshare(CLONE_NEWUSER | CLONE_NEWNS) != 0) return "cannot mount";
    if (::mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0) return "cannot mount";
    if (::mount("tmpfs", folder.c_str(), "tmpfs", 0, options.c_str()) != 0) return "cannot mount";
    return action();
  });
  std::string answer = child.answer();
  if (answer == "cannot mount") return std::nullopt;
  return answer;
}

}  // namespace isobit::archive
