// A control group of this process's own: a hard limit of processes and memory for what a child starts. Only root needs
// it and can make one: the kernel holds every other user to RLIMIT_NPROC, but not root, and a watcher is slower than a
// program that forks. Errors are UserError. One thread.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace isobit::proof {

class ControlGroup {
 public:
  // Nothing for other users than the machine's root. UserError where root cannot limit processes.
  ControlGroup(std::uint64_t memory, std::int64_t processes);
  ~ControlGroup();  // its processes have ended
  ControlGroup(const ControlGroup&) = delete;
  ControlGroup& operator=(const ControlGroup&) = delete;

  // Moves the calling process in; by system calls alone. False: errno says why.
  [[nodiscard]] bool enter() const;

 private:
  std::vector<std::string> folders_, entries_;
};

}  // namespace isobit::proof
