// One writer per run, without the file system's locks (network file systems often have none that work).
//
// The lock of run R is the file .locks/R beside the run's folder. It is made whole under another name and
// then linked to its own, which fails where that exists: atomic on local disks and NFS. It names host, boot,
// process namespace, process and the process' start, so that this machine can tell that its holder is gone; a
// lock from elsewhere is taken for alive. A stale lock is moved aside, looked at again, and dropped. Errors
// are UserError. One thread per object.
#pragma once

#include <filesystem>
#include <optional>
#include <string>

namespace isobit::archive {

class RunLock {
 public:
  // UserError naming the holder where another process (or another RunLock of this one) has the lock.
  [[nodiscard]] static RunLock acquire(const std::filesystem::path& runs, const std::string& id);

  RunLock(RunLock&& other) noexcept;
  RunLock& operator=(RunLock&& other) noexcept;
  ~RunLock();

  // UserError if somebody took the lock away (a person deleted it, another host judged it stale).
  void require_held() const;

 private:
  RunLock(std::filesystem::path path, std::string content);
  std::filesystem::path path_;
  std::string content_;
};

// Who writes the run now ("process 4711 on this machine", "process 4711 on node12"); nothing if nobody.
[[nodiscard]] std::optional<std::string> lock_holder(const std::filesystem::path& runs, const std::string& id);

}  // namespace isobit::archive
