#include "process/stop_signal.h"

#include <signal.h>

namespace isobit::process {
namespace {

std::atomic<bool> stop_requested{false};
static_assert(std::atomic<bool>::is_always_lock_free);  // so that a signal handler may set it

void request_stop(int) { stop_requested = true; }

}  // namespace

StopSignal::StopSignal() {
  stop_requested = false;
  struct sigaction action {};
  action.sa_handler = request_stop;
  action.sa_flags = SA_RESETHAND | SA_RESTART;
  sigaction(SIGINT, &action, nullptr);
  sigaction(SIGTERM, &action, nullptr);
}

StopSignal::~StopSignal() {
  signal(SIGINT, SIG_DFL);
  signal(SIGTERM, SIG_DFL);
}

const std::atomic<bool>& StopSignal::flag() const { return stop_requested; }

}  // namespace isobit::process
