// A log of a run and the digest of all it holds. Lines may wait for each other, a quarter of a second at most where
// more come: a system call a line would be a part of a short step. Each write asks the run's lock first. Errors are
// FileError, and UserError where the lock is lost. One thread per object.
#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <string>

#include "archive/files.h"
#include "archive/run_lock.h"
#include "archive/sha256.h"

namespace isobit::archive {

class LogFile {
 public:
  // `lock` outlives the log.
  LogFile(const std::filesystem::path& path, const RunLock& lock) : file_(path), lock_(lock) {}

  void append(const std::string& text);
  void write() { write(Clock::now()); }
  void sync() {
    write();
    file_.sync();
  }
  [[nodiscard]] std::uint64_t size() const { return file_.size() + waiting_.size(); }
  // Precondition: nothing waits.
  [[nodiscard]] FileDigest digest() const { return {file_.size(), hash_.hex()}; }
  void continue_from(const Sha256& hash) { hash_ = hash; }

 private:
  using Clock = std::chrono::steady_clock;
  void write(Clock::time_point now);

  AppendFile file_;
  const RunLock& lock_;
  Sha256 hash_;
  std::string waiting_;
  Clock::time_point written_{};  // so that the first line is written at once
};

}  // namespace isobit::archive
