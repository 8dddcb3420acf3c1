#include "proof/syscall_filter.h"

#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/socket.h>
#include <sys/syscall.h>

#include <cerrno>
#include <cstddef>
#include <vector>

namespace isobit::proof {
namespace {

#if defined(__x86_64__)
constexpr std::uint32_t kArchitecture = AUDIT_ARCH_X86_64;
#elif defined(__aarch64__)
constexpr std::uint32_t kArchitecture = AUDIT_ARCH_AARCH64;
#elif defined(__powerpc64__) && defined(__LITTLE_ENDIAN__)
constexpr std::uint32_t kArchitecture = AUDIT_ARCH_PPC64LE;
#else
#error "name this architecture's AUDIT_ARCH_..."
#endif

constexpr std::uint32_t kRefused = SECCOMP_RET_ERRNO | ENOSYS;

// Numbers from 424 on are the same on every architecture; headers may be older than the kernel.
constexpr int kRefusedCalls[] = {
    SYS_memfd_create,
    447 /* memfd_secret */,
    SYS_shmget,
    SYS_shmat,
    SYS_userfaultfd,
    SYS_bpf,
    SYS_add_key,
    SYS_request_key,
    SYS_keyctl,
    425 /* io_uring_setup */,
    426 /* io_uring_enter */,
    427 /* io_uring_register */,
    SYS_perf_event_open,
    SYS_open_by_handle_at,
    SYS_ptrace,  // the sandbox's first process, stopped so, would be waited for until time is up
    SYS_process_vm_readv,
    SYS_process_vm_writev};
constexpr int kDomains[] = {AF_UNIX, AF_INET, AF_INET6, AF_NETLINK};

class Program {
 public:
  void load(std::size_t offset) { add(BPF_LD | BPF_W | BPF_ABS, static_cast<std::uint32_t>(offset)); }
  void answer(std::uint32_t value) { add(BPF_RET | BPF_K, value); }
  // Where the loaded word is `value`, the next `then` instructions are left out, else the next `otherwise`.
  void where_equal(std::uint32_t value, std::uint8_t then, std::uint8_t otherwise) {
    add(BPF_JMP | BPF_JEQ | BPF_K, value, then, otherwise);
  }
  void where_at_least(std::uint32_t value, std::uint8_t then, std::uint8_t otherwise) {
    add(BPF_JMP | BPF_JGE | BPF_K, value, then, otherwise);
  }
  [[nodiscard]] std::string bytes() const {
    return {reinterpret_cast<const char*>(code_.data()), code_.size() * sizeof(sock_filter)};
  }

 private:
  void add(int code, std::uint32_t value, std::uint8_t then = 0, std::uint8_t otherwise = 0) {
    code_.push_back({static_cast<std::uint16_t>(code), then, otherwise, value});
  }
  std::vector<sock_filter> code_;
};

}  // namespace

std::string syscall_filter() {
  Program program;
  program.load(offsetof(seccomp_data, arch));
  program.where_equal(kArchitecture, 1, 0);
  program.answer(SECCOMP_RET_KILL_PROCESS);  // another table of calls, where the numbers mean other things
  program.load(offsetof(seccomp_data, nr));
#if defined(__x86_64__)
  program.where_at_least(0x40000000, 0, 1);  // x32
  program.answer(kRefused);
#endif
  for (const int call : kRefusedCalls) {
    program.where_equal(static_cast<std::uint32_t>(call), 0, 1);
    program.answer(kRefused);
  }
  constexpr std::uint8_t kTests = std::size(kDomains);
  program.where_equal(SYS_socket, 0, kTests + 2);
  program.load(offsetof(seccomp_data, args));  // the lower half of the first one: all of these are little-endian
  std::uint8_t left = kTests;
  for (const int domain : kDomains) program.where_equal(static_cast<std::uint32_t>(domain), left--, 0);
  program.answer(SECCOMP_RET_ERRNO | EAFNOSUPPORT);
  program.answer(SECCOMP_RET_ALLOW);
  return program.bytes();
}

}  // namespace isobit::proof
