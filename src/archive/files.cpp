#include "archive/files.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <random>
#include <utility>

#include "archive/record_file.h"
#include "archive/user_error.h"

namespace isobit::archive {
namespace {

namespace fs = std::filesystem;

std::atomic<int> fault_code{0};
std::atomic<std::uint64_t> fault_budget{0};
std::atomic<int (*)(FileAction)> injected{nullptr};

// 0, or the errno that a test wants this action to fail with.
int fault_at(FileAction action) {
  const auto fault = injected.load();
  return fault == nullptr ? 0 : fault(action);
}

bool failed_at(FileAction action) {
  const int code = fault_at(action);
  if (code != 0) errno = code;
  return code != 0;
}

// write(2), or what a test wants to happen instead.
ssize_t write_some(int descriptor, const std::byte* data, std::size_t n) {
  if (injected.load() != nullptr) {
    if (failed_at(FileAction::write)) return -1;
    const std::size_t half = n / 2;
    if (half > 0 && ::write(descriptor, data, half) != static_cast<ssize_t>(half)) return -1;
    if (failed_at(FileAction::write)) return -1;
    const ssize_t rest = ::write(descriptor, data + half, n - half);
    return rest < 0 ? rest : rest + static_cast<ssize_t>(half);
  }
  if (const int code = fault_code.load()) {
    const std::uint64_t left = fault_budget.load();
    if (left == 0) {
      errno = code;
      return -1;
    }
    n = std::min<std::size_t>(n, left);
    fault_budget.store(left - n);
  }
  return ::write(descriptor, data, n);
}

}  // namespace

int write_all(int descriptor, std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    // Linux moves at most 2^31 - 4096 bytes per call.
    const ssize_t n = write_some(descriptor, bytes.data(), std::min<std::size_t>(bytes.size(), 1 << 30));
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return errno;
    bytes = bytes.subspan(static_cast<std::size_t>(n));
  }
  return 0;
}

namespace {

const char* remedy_for(int code) {
  switch (code) {
    case ENOSPC:
    case EDQUOT: return "free space there, or name another folder with --runs";
    case EFBIG: return "raise the limit of file sizes (ulimit -f)";
    case EROFS: return "the file system is read-only: name another folder with --runs";
    case EACCES:
    case EPERM: return "check its owner and permissions, or name another folder with --runs";
    case ENOENT: return "check the path";
    case ENOTDIR:
    case EISDIR:
    case EEXIST: return "move the file or folder of that name away";
    case EIO:
    case ESTALE: return "the disk or network file system failed: check the system's log, then try again";
    case EMFILE:
    case ENFILE: return "raise the limit of open files (ulimit -n)";
    default: return "";
  }
}

class Descriptor {
 public:
  explicit Descriptor(int value) : value_(value) {}
  ~Descriptor() {
    if (value_ >= 0) ::close(value_);
  }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  [[nodiscard]] int get() const { return value_; }
  // Network file systems report late errors here.
  int close() { return ::close(std::exchange(value_, -1)) == 0 ? 0 : errno; }

 private:
  int value_;
};

}  // namespace

void throw_file_error(const fs::path& path, std::string_view action, int code) {
  std::string reason = std::strerror(code);
  reason[0] = static_cast<char>(std::tolower(static_cast<unsigned char>(reason[0])));
  throw FileError(code, path, fmt::format("{}: {}", action, reason), remedy_for(code));
}

bool is_there(const fs::path& path) {
  struct stat status {};
  if (!failed_at(FileAction::read) && ::lstat(path.c_str(), &status) == 0) return true;
  if (errno != ENOENT && errno != ENOTDIR) throw_file_error(path, "cannot be read", errno);
  return false;
}

std::vector<std::string> names_in(const fs::path& folder) {
  std::vector<std::string> names;
  std::error_code error;
  if (failed_at(FileAction::read)) throw_file_error(folder, "cannot be read", errno);
  for (fs::directory_iterator it(folder, error), end; !error && it != end; it.increment(error)) {
    names.push_back(it->path().filename().string());
  }
  if (error && error.value() != ENOENT) throw_file_error(folder, "cannot be read", error.value());
  std::sort(names.begin(), names.end());
  return names;
}

std::ptrdiff_t read_some(int descriptor, std::span<std::byte> buffer) {
  if (failed_at(FileAction::read)) return -1;
  return ::read(descriptor, buffer.data(), buffer.size());
}

namespace {

std::string read_whole(const fs::path& path, std::uint64_t limit, int flags) {
  // O_NONBLOCK: a pipe put in the place of a file must not make us wait.
  flags |= O_RDONLY | O_CLOEXEC | O_NONBLOCK;
  const Descriptor file(failed_at(FileAction::read) ? -1 : ::open(path.c_str(), flags));
  if (file.get() < 0 && errno == ELOOP && (flags & O_NOFOLLOW) != 0)
    throw UserError(path.string(), "is a link: a record's files are its own", "restore the run's folder from a copy");
  if (file.get() < 0) throw_file_error(path, "cannot be read", errno);
  struct stat status {};
  if (::fstat(file.get(), &status) != 0) throw_file_error(path, "cannot be read", errno);
  if (!S_ISREG(status.st_mode)) throw UserError(path.string(), "not a regular file", "");
  if (static_cast<std::uint64_t>(status.st_size) > limit) {
    throw UserError(path.string(), fmt::format("has {} bytes, at most {} are expected", status.st_size, limit), "");
  }
  std::string content(static_cast<std::size_t>(status.st_size), '\0');
  std::size_t done = 0;
  while (done < content.size()) {
    const auto rest = std::as_writable_bytes(std::span(content).subspan(done));
    const std::ptrdiff_t n = read_some(file.get(), rest);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) throw_file_error(path, "cannot be read", errno);
    if (n == 0) break;
    done += static_cast<std::size_t>(n);
  }
  content.resize(done);  // shortened by somebody meanwhile
  return content;
}

}  // namespace

std::string read_file(const fs::path& path, std::uint64_t limit) { return read_whole(path, limit, 0); }

std::string read_record_file(const fs::path& path, std::uint64_t limit) { return read_whole(path, limit, O_NOFOLLOW); }

void require_own_files(const fs::path& folder) {
  std::error_code error;
  fs::recursive_directory_iterator entry(folder, error);  // follows no links
  for (const fs::recursive_directory_iterator end; !error && entry != end; entry.increment(error)) {
    const fs::file_type type = entry->symlink_status(error).type();
    if (error || type == fs::file_type::regular || type == fs::file_type::directory) continue;
    if (type == fs::file_type::not_found || type == fs::file_type::none) continue;  // gone meanwhile
    throw UserError(entry->path().string(),
                    type == fs::file_type::symlink ? "is a link: a run's folder holds its own files alone"
                                                   : "is neither a file nor a folder",
                    "move it away, or restore the run's folder from a copy");
  }
  if (error) throw_file_error(folder, "cannot be read", error.value());
}

void write_file(const fs::path& path, std::string_view content) {
  const std::span<const std::byte> piece = std::as_bytes(std::span(content.data(), content.size()));
  write_file(path, std::span(&piece, 1));
}

void write_file(const fs::path& path, std::span<const std::span<const std::byte>> pieces,
                const std::function<void()>& before_rename) {
  const fs::path temporary = path.parent_path() / (".tmp-" + random_suffix());
  Descriptor file(::open(temporary.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666));
  if (file.get() < 0) throw_file_error(path, "cannot be written", errno);
  int code = 0;
  for (const auto& piece : pieces) {
    if (code == 0) code = write_all(file.get(), piece);
  }
  if (code == 0 && (failed_at(FileAction::sync) || ::fsync(file.get()) != 0)) code = errno;
  const int closed = file.close();
  if (code == 0) code = closed;
  try {
    if (code == 0 && before_rename) before_rename();
  } catch (...) {
    ::unlink(temporary.c_str());
    throw;
  }
  if (code == 0 && (failed_at(FileAction::rename) || ::rename(temporary.c_str(), path.c_str()) != 0)) code = errno;
  if (code != 0) {
    ::unlink(temporary.c_str());
    throw_file_error(path, "cannot be written", code);
  }
  sync_folder(path.parent_path());
}

void rename_file(const fs::path& from, const fs::path& to) {
  if (failed_at(FileAction::rename) || ::rename(from.c_str(), to.c_str()) != 0)
    throw_file_error(from, "cannot be renamed", errno);
}

void remove_file(const fs::path& path) {
  if (failed_at(FileAction::remove) || ::unlink(path.c_str()) != 0) {
    if (errno != ENOENT) throw_file_error(path, "cannot be removed", errno);
  }
}

namespace {

void remove_tree(const fs::path& path) {
  std::error_code error;
  if (failed_at(FileAction::remove)) throw_file_error(path, "cannot be removed", errno);
  fs::remove_all(path, error);
  if (error) throw_file_error(path, "cannot be removed", error.value());
}

}  // namespace

void remove_folder(const fs::path& folder) {
  const fs::path going = folder.parent_path() / (".tmp-" + random_suffix());
  rename_file(folder, going);
  remove_tree(going);
}

void remove_temporaries(const fs::path& folder) {
  for (const std::string& name : names_in(folder)) {
    if (name.starts_with(".tmp-")) remove_tree(folder / name);
  }
}

namespace {

void sync_opened(const fs::path& folder, int (*sync)(int)) {
  const Descriptor opened(::open(folder.empty() ? "." : folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (opened.get() < 0) throw_file_error(folder, "cannot be opened", errno);
  if (failed_at(FileAction::sync)) throw_file_error(folder, "cannot be written", errno);
  // Some network file systems have nothing to sync in a folder and say so.
  if (sync(opened.get()) != 0 && errno != EINVAL && errno != ENOTSUP)
    throw_file_error(folder, "cannot be written", errno);
}

}  // namespace

void sync_folder(const fs::path& folder) { sync_opened(folder, &::fsync); }

void sync_file_system(const fs::path& folder) { sync_opened(folder, &::syncfs); }

void make_folders(const fs::path& folder) {
  std::error_code error;
  fs::create_directories(folder, error);
  if (error) throw_file_error(folder, "cannot be created", error.value());
  if (!fs::is_directory(folder, error)) throw_file_error(folder, "cannot be created", ENOTDIR);
}

std::string random_suffix() {
  std::random_device device;
  return fmt::format("{:08x}", device() & 0xffffffffu);
}

AppendFile::AppendFile(fs::path path) : path_(std::move(path)) {
  descriptor_ = ::open(path_.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
  if (descriptor_ < 0) throw_file_error(path_, "cannot be written", errno);
  struct stat status {};
  if (::fstat(descriptor_, &status) == 0) size_ = static_cast<std::uint64_t>(status.st_size);
}

AppendFile::AppendFile(AppendFile&& other) noexcept
    : path_(std::move(other.path_)),
      descriptor_(std::exchange(other.descriptor_, -1)),
      size_(other.size_),
      torn_(other.torn_),
      unsynced_(other.unsynced_) {}

AppendFile& AppendFile::operator=(AppendFile&& other) noexcept {
  std::swap(path_, other.path_);
  std::swap(descriptor_, other.descriptor_);
  std::swap(size_, other.size_);
  std::swap(torn_, other.torn_);
  std::swap(unsynced_, other.unsynced_);
  return *this;
}

AppendFile::~AppendFile() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

// Takes a part of a line back; where that fails, nothing is written behind it, and resume recognises the torn line.
int AppendFile::take_back() {
  if (!torn_) return 0;
  if (failed_at(FileAction::write) || ::ftruncate(descriptor_, static_cast<off_t>(size_)) != 0) return errno;
  torn_ = false;
  return 0;
}

void AppendFile::append(std::string_view text) {
  int code = take_back();
  if (code == 0) {
    code = write_all(descriptor_, std::as_bytes(std::span(text.data(), text.size())));
    if (code != 0) {
      torn_ = true;
      static_cast<void>(take_back());
    }
  }
  if (code != 0) throw_file_error(path_, "cannot be written", code);
  size_ += text.size();
}

void AppendFile::sync() {
  // What a sync could not write it forgets: the next one would succeed without it.
  if (unsynced_ == 0 && (failed_at(FileAction::sync) || ::fdatasync(descriptor_) != 0)) unsynced_ = errno;
  if (unsynced_ != 0) throw_file_error(path_, "cannot be written", unsynced_);
}

void inject_fault(int (*fault)(FileAction)) { injected.store(fault); }

void inject_write_fault(int code, std::uint64_t bytes) {
  fault_budget.store(bytes);
  fault_code.store(code);
}

}  // namespace isobit::archive
