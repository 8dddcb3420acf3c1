#include "bench/disturbance.h"

#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cerrno>
#include <system_error>

#include "bench/affinity.h"

namespace isobit::bench {
namespace {

constexpr long kPeriod = 20'000'000;  // ns

long nanoseconds(clockid_t clock) {
  timespec now{};
  clock_gettime(clock, &now);
  return now.tv_sec * 1'000'000'000L + now.tv_nsec;
}

// Only what is safe in a fork of a process with threads. The share is one of processor time: whoever is measured beside
// it does not get it back by being scheduled in between.
[[noreturn]] void disturb(int percent, pid_t parent) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != parent) _exit(0);
  pin_to_allowed_cpu(0);
  for (long next = nanoseconds(CLOCK_MONOTONIC) + kPeriod;; next += kPeriod) {
    const long until = nanoseconds(CLOCK_PROCESS_CPUTIME_ID) + kPeriod / 100 * percent;
    while (nanoseconds(CLOCK_PROCESS_CPUTIME_ID) < until) {
    }
    const long now = nanoseconds(CLOCK_MONOTONIC);
    if (now >= next) {
      next = now;
      continue;
    }
    const timespec rest{0, next - now};
    nanosleep(&rest, nullptr);
  }
}

}  // namespace

Disturbance::Disturbance(int percent) {
  if (percent == 0) return;
  const pid_t parent = getpid();
  child_ = fork();
  if (child_ < 0) throw std::system_error(errno, std::generic_category(), "fork");
  if (child_ == 0) disturb(percent, parent);
}

Disturbance::~Disturbance() {
  if (child_ < 0) return;
  kill(child_, SIGKILL);
  waitpid(child_, nullptr, 0);
}

}  // namespace isobit::bench
