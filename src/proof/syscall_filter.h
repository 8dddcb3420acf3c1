// What a sandboxed program may not ask of the kernel: ways to hold memory that no limit counts (memfd, System V shared
// memory), to reach what namespaces do not cover (vsock, kernel keys), to stop or alter the sandbox's other processes
// (ptrace), and rarely used interfaces in which escapes were found (bpf, io_uring, userfaultfd). All else is allowed:
// the sandbox itself are namespaces and read-only mounts.
#pragma once

#include <string>

namespace isobit::proof {

// A seccomp program, as bubblewrap's --seccomp reads it.
[[nodiscard]] std::string syscall_filter();

}  // namespace isobit::proof
