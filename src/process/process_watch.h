// How many processes descend from one, and how much memory they hold together: for limits that the system has only for
// each of them alone. Where /proc does not say, nothing is exceeded. One thread.
#pragma once

#include <sys/types.h>

#include <cstdint>

namespace isobit::process {

class ProcessWatch {
 public:
  // 0: no limit.
  ProcessWatch(pid_t root, std::uint64_t memory, std::int64_t processes)
      : root_(root), memory_(memory), processes_(processes) {}
  // "memory", "processes", or nothing.
  [[nodiscard]] const char* exceeded() const;

 private:
  pid_t root_;
  std::uint64_t memory_;
  std::int64_t processes_;
};

}  // namespace isobit::process
