#include "archive/output_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "archive/files.h"
#include "archive/user_error.h"

namespace isobit::archive {
namespace {

namespace fs = std::filesystem;

fs::path folder_of(const fs::path& path) { return path.has_parent_path() ? path.parent_path() : fs::path("."); }

}  // namespace

void OutputFile::fail(int code) const {
  if (code == EEXIST) throw UserError(path_.string(), "exists already", "name another file, or move that one away");
  const char* remedy = "check the folder, or name another one";
  if (code == ENOSPC || code == EDQUOT) remedy = "free space there, or name another folder";
  if (code == EFBIG) remedy = "raise the limit of file sizes (ulimit -f)";
  throw UserError(path_.string(), fmt::format("cannot be written: {}", std::strerror(code)), remedy);
}

OutputFile::OutputFile(fs::path path) : path_(std::move(path)) {
  struct stat status {};
  if (::lstat(path_.c_str(), &status) == 0) fail(EEXIST);
  const fs::path folder = folder_of(path_);
  descriptor_ = ::open(folder.c_str(), O_TMPFILE | O_WRONLY | O_CLOEXEC, 0666);
  if (descriptor_ >= 0) return;
  if (errno != EOPNOTSUPP && errno != EISDIR) fail(errno);
  temporary_ = (folder / (".tmp-" + random_suffix())).string();
  descriptor_ = ::open(temporary_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
  if (descriptor_ < 0) fail(errno);
}

OutputFile::~OutputFile() {
  if (descriptor_ >= 0) ::close(descriptor_);
  if (!temporary_.empty()) ::unlink(temporary_.c_str());
}

void OutputFile::write(std::span<const std::byte> bytes) {
  if (const int code = write_all(descriptor_, bytes); code != 0) fail(code);
  size_ += bytes.size();
}

void OutputFile::commit() {
  if (::fsync(descriptor_) != 0) fail(errno);
  commit_unsynced();
  sync_folder(folder_of(path_));
}

void OutputFile::commit_unsynced() {
  // A hard link fails where the name is taken; file systems without them have no nameless files either, but for some.
  const std::string from = temporary_.empty() ? fmt::format("/proc/self/fd/{}", descriptor_) : temporary_;
  if (::linkat(AT_FDCWD, from.c_str(), AT_FDCWD, path_.c_str(), AT_SYMLINK_FOLLOW) != 0) {
    if (temporary_.empty() || errno == EEXIST) fail(errno);
    if (::rename(temporary_.c_str(), path_.c_str()) != 0) fail(errno);
    temporary_.clear();
  }
}

}  // namespace isobit::archive
