#include "archive/run_lock.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <functional>
#include <utility>

#include "archive/files.h"
#include "archive/lock_owner.h"
#include "archive/user_error.h"

namespace isobit::archive {
namespace {

namespace fs = std::filesystem;

// How old what was seen of the lock may be: less than lines wait for each other, so that each batch is preceded by a
// look.
constexpr std::chrono::milliseconds kLately{200};
constexpr std::uint64_t kLongestLock = 1 << 16;

// Nothing where there is no lock. FileError where that cannot be known: never taken for a lock that is free.
std::optional<std::string> read_lock(const fs::path& path) {
  if (!is_there(path)) return std::nullopt;
  try {
    return read_file(path, kLongestLock);
  } catch (const FileError& error) {
    if (error.code() == ENOENT) return std::nullopt;  // released meanwhile
    throw;
  } catch (const UserError&) {
    return "";  // there, but not to be understood: taken for alive
  }
}

Judgement judge_lock(const std::string& text, const fs::path& folder) {
  const auto owner = parse_owner(text);
  if (!owner) return {Life::unknown, "its lock cannot be read"};
  const LockOwner self = this_process();
  if (is_later_restart(self, *owner)) return {Life::gone, ""};
  return judge(*owner, self, folder);
}

std::string describe(const std::string& text) {
  const auto owner = parse_owner(text);
  if (!owner) return "an unknown process";
  return fmt::format("process {} on {}", owner->pid, owner->boot == this_process().boot ? "this machine" : owner->host);
}

// True: `path` now holds `content`, and did not exist before.
bool create_exclusively(const fs::path& path, const std::string& content) {
  const fs::path temporary = path.parent_path() / (".tmp-" + random_suffix());
  write_file(temporary, content);
  bool created = ::link(temporary.c_str(), path.c_str()) == 0;
  const int code = errno;
  struct stat status {};
  // NFS may lose the answer of a link that was made: the count of names tells.
  if (!created && ::stat(temporary.c_str(), &status) == 0) created = status.st_nlink == 2;
  if (!created && code != EEXIST) {  // no hard links here: exclusive creation, whose content comes a moment later
    const int file = ::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (file < 0 && errno != EEXIST) {
      const int reason = errno;
      ::unlink(temporary.c_str());
      throw_file_error(path, "cannot be written", reason);
    }
    if (file >= 0) {
      created = ::write(file, content.data(), content.size()) == static_cast<ssize_t>(content.size());
      ::close(file);
      if (!created) ::unlink(path.c_str());
    }
  }
  ::unlink(temporary.c_str());
  return created;
}

// Puts `content` in the place of the stale lock `seen`. Only who created the marker named after `seen` may do so, and
// the replacement is one rename: nobody finds the place empty meanwhile, and a slow process that saw the same stale
// lock finds another one under its marker. A marker whose owner died is itself a stale lock.
bool take_over(const fs::path& path, const std::string& seen, const std::string& content) {
  const fs::path marker = path.string() + fmt::format(".{:016x}", std::hash<std::string>()(seen));
  if (!create_exclusively(marker, content)) {
    const auto other = read_lock(marker);
    if (!other || judge_lock(*other, path.parent_path()).life != Life::gone || !take_over(marker, *other, content))
      return false;
  }
  bool taken = false;
  try {
    if (read_lock(path) == seen) {
      write_file(path, content);
      taken = true;
    }
  } catch (...) {
    ::unlink(marker.c_str());
    throw;
  }
  ::unlink(marker.c_str());
  return taken;
}

[[noreturn]] void throw_held(const fs::path& runs, const std::string& id, const fs::path& lock, const std::string& text,
                             const Judgement& judged) {
  if (judged.life == Life::alive) {
    throw UserError((runs / id).string(), fmt::format("is being written by {}", describe(text)),
                    fmt::format("wait until it ends; if it surely ended, delete {}", lock.string()));
  }
  throw UserError((runs / id).string(),
                  fmt::format("may still be written by {}: this process cannot tell whether that one lives, since {}",
                              describe(text), judged.why),
                  fmt::format("if it surely ended, delete {}", lock.string()));
}

}  // namespace

RunLock::RunLock(fs::path path, std::string content, std::uint64_t generation)
    : path_(std::move(path)), content_(std::move(content)), generation_(generation) {}

RunLock::RunLock(RunLock&& other) noexcept
    : path_(std::exchange(other.path_, {})),
      content_(std::exchange(other.content_, {})),
      generation_(other.generation_),
      seen_(other.seen_),
      looked_(other.looked_) {}

RunLock& RunLock::operator=(RunLock&& other) noexcept {
  std::swap(path_, other.path_);
  std::swap(content_, other.content_);
  std::swap(generation_, other.generation_);
  std::swap(seen_, other.seen_);
  std::swap(looked_, other.looked_);
  return *this;
}

RunLock::~RunLock() {
  if (path_.empty()) return;
  try {
    // Only our own: whoever took it away may have put theirs there.
    if (read_lock(path_) == content_) ::unlink(path_.c_str());
  } catch (const std::exception&) {  // it stays, and names a process that is gone
  }
}

RunLock RunLock::acquire(const fs::path& runs, const std::string& id, std::uint64_t generation) {
  const fs::path folder = runs / ".locks";
  make_folders(folder);
  const fs::path path = folder / id;
  LockOwner self = this_process();
  self.token = random_suffix() + random_suffix();
  for (int attempt = 0; attempt < 10; ++attempt) {
    self.generation = generation + 1;
    const std::string content = format_owner(self);
    if (create_exclusively(path, content)) return {path, content, self.generation};
    const auto other = read_lock(path);
    if (!other) continue;  // released meanwhile
    const Judgement judged = judge_lock(*other, folder);
    if (judged.life != Life::gone) throw_held(runs, id, path, *other, judged);
    if (const auto owner = parse_owner(*other)) self.generation = std::max(generation, owner->generation) + 1;
    const std::string above = format_owner(self);
    if (take_over(path, *other, above)) return {path, above, self.generation};
  }
  throw UserError(path.string(), "cannot be locked: other processes keep taking the lock", "try again later");
}

void RunLock::require_held() const {
  const auto before = stamp();
  const auto content = read_lock(path_);
  if (content != content_) {
    throw UserError(path_.string(),
                    fmt::format("this process lost its lock on the run{}, and stops writing",
                                content ? " to " + describe(*content) : ""),
                    "resume the run when no other process writes it");
  }
  seen_ = before;
  looked_ = std::chrono::steady_clock::now();
}

void RunLock::require_held_lately() const {
  const auto now = std::chrono::steady_clock::now();
  if (seen_ && now - looked_ < kLately) return;
  if (!seen_ || stamp() != seen_) return require_held();
  looked_ = now;
}

bool RunLock::Stamp::operator==(const Stamp& other) const {
  return device == other.device && inode == other.inode && size == other.size &&
         changed.tv_sec == other.changed.tv_sec && changed.tv_nsec == other.changed.tv_nsec;
}

std::optional<RunLock::Stamp> RunLock::stamp() const {
  struct stat status {};
  if (::stat(path_.c_str(), &status) != 0) return std::nullopt;  // require_held says why
  return Stamp{status.st_dev, status.st_ino, status.st_size, status.st_mtim};
}

void write_held(const RunLock& lock, const fs::path& path, std::span<const std::span<const std::byte>> pieces,
                const std::function<void()>& before_rename) {
  while_held(lock, [&] {
    write_file(path, pieces, [&] {
      lock.require_held();
      if (before_rename) before_rename();
    });
  });
}

void write_held(const RunLock& lock, const fs::path& path, std::string_view content) {
  const std::span<const std::byte> piece = std::as_bytes(std::span(content.data(), content.size()));
  write_held(lock, path, std::span(&piece, 1));
}

std::optional<std::string> lock_holder(const fs::path& runs, const std::string& id) {
  const fs::path folder = runs / ".locks";
  try {
    const auto text = read_lock(folder / id);
    if (!text) return std::nullopt;
    const Judgement judged = judge_lock(*text, folder);
    if (judged.life == Life::gone) return std::nullopt;
    return describe(*text) + (judged.life == Life::alive ? "" : ", if it lives: " + judged.why);
  } catch (const UserError& error) {
    return std::string(error.what());
  }
}

}  // namespace isobit::archive
