// One writer per run, without the file system's locks (network file systems often have none that work).
//
// The lock of run R is the file .locks/R beside the run's folder. It is made whole under another name and
// then linked to its own, which fails where that exists: atomic on local disks and NFS. It names host, boot,
// process namespace, process, the process' start, the scheduler's job where there is one, and a generation: one more
// than that of any writer before. A lock is taken over only where this process can be sure that its holder is gone, or
// where a later restart of the same job meets an earlier one's; what cannot be judged is alive, and the error names the
// file to delete. Errors are UserError, those of the file system FileError. One thread per object.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <ctime>
#include <filesystem>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "archive/user_error.h"

namespace isobit::archive {

class RunLock {
 public:
  // UserError naming the holder where another process (or another RunLock of this one) has the lock, or may have it.
  // The generation is above `generation` and above that of the lock that is taken over.
  [[nodiscard]] static RunLock acquire(const std::filesystem::path& runs, const std::string& id,
                                       std::uint64_t generation = 0);

  RunLock(RunLock&& other) noexcept;
  RunLock& operator=(RunLock&& other) noexcept;
  ~RunLock();

  [[nodiscard]] std::uint64_t generation() const { return generation_; }

  // UserError if somebody took the lock away (a person deleted it, a later restart of the job took it over).
  void require_held() const;
  // The same by a look at the file's inode and times, a few times a second at most: for every write of a log.
  void require_held_lately() const;

 private:
  struct Stamp {  // of the lock's file; another file of this name has another
    dev_t device = 0;
    ino_t inode = 0;
    off_t size = 0;
    std::timespec changed{};
    bool operator==(const Stamp& other) const;
  };
  RunLock(std::filesystem::path path, std::string content, std::uint64_t generation);
  [[nodiscard]] std::optional<Stamp> stamp() const;

  std::filesystem::path path_;
  std::string content_;
  std::uint64_t generation_ = 0;
  mutable std::optional<Stamp> seen_;
  mutable std::chrono::steady_clock::time_point looked_{};
};

// What `action` gives. Where it fails, and the lock is lost: the error is that, since whoever took it over changes what
// the action works on.
template <class Action>
auto while_held(const RunLock& lock, const Action& action) {
  try {
    return action();
  } catch (const UserError&) {
    lock.require_held();
    throw;
  }
}

// write_file while the lock is held: it is asked when the file is complete, right before that gets its name. Whoever
// takes a run over removes its temporaries first, so that a writer which was stopped in between has nothing to rename.
void write_held(const RunLock& lock, const std::filesystem::path& path,
                std::span<const std::span<const std::byte>> pieces, const std::function<void()>& before_rename = {});
void write_held(const RunLock& lock, const std::filesystem::path& path, std::string_view content);

// Who writes the run now, as far as can be known ("process 4711 on this machine", "process 4711 on node12 (cannot be
// seen from here: ...)"); nothing if nobody.
[[nodiscard]] std::optional<std::string> lock_holder(const std::filesystem::path& runs, const std::string& id);

}  // namespace isobit::archive
