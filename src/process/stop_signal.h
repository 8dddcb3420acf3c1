// Ctrl-C, heard between steps of work instead of ending the process in the middle of one. One object at a time.
#pragma once

#include <atomic>

namespace isobit::process {

// True once SIGINT or SIGTERM came while the object lived; a second signal ends the process at once.
class StopSignal {
 public:
  StopSignal();
  ~StopSignal();
  StopSignal(const StopSignal&) = delete;
  StopSignal& operator=(const StopSignal&) = delete;
  [[nodiscard]] const std::atomic<bool>& flag() const;
};

inline constexpr int kInterruptedExit = 130;

}  // namespace isobit::process
