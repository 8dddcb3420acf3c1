// A cache of files' digests: SQLite, per user, at $XDG_CACHE_HOME/isobit/digests.sqlite.
//
// A row counts only while the file's device, inode, size, and times of modification and of change are as they were when
// it was digested; the last of them no program can set back. A file that changed within two seconds before is not
// remembered: times may be coarser than two writes. A cache that is damaged, of another version, absent or not writable
// is made anew or done without, silently. Nothing here throws. One thread per object; processes may share the file.
#pragma once

#include <sys/stat.h>

#include <filesystem>
#include <memory>
#include <optional>
#include <string>

namespace isobit::samples {

// Where it is; empty where neither $XDG_CACHE_HOME nor $HOME says so.
[[nodiscard]] std::filesystem::path digest_cache_path();

class DigestCache {
 public:
  // An empty path: a cache that remembers nothing.
  explicit DigestCache(const std::filesystem::path& file) noexcept;
  ~DigestCache();

  [[nodiscard]] std::optional<std::string> find(const struct stat& status) noexcept;
  // Written when the object goes.
  void put(const struct stat& status, const std::string& sha256) noexcept;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

// Whether a file of these times may be remembered at `now`, a time of CLOCK_REALTIME.
[[nodiscard]] bool is_settled(const struct stat& status, std::int64_t now_seconds);
// Whether both are the same file with the same content, as far as the file system can tell.
[[nodiscard]] bool is_same(const struct stat& a, const struct stat& b);

}  // namespace isobit::samples
