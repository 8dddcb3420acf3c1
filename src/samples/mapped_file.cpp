#include "samples/mapped_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "archive/user_error.h"

namespace isobit::samples {

using archive::UserError;

MappedFile::MappedFile(std::string path, std::string remedy) : path_(std::move(path)), remedy_(std::move(remedy)) {
  descriptor_ = ::open(path_.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);  // a pipe would wait for its writer
  if (descriptor_ < 0) {
    const int code = errno;
    const bool missing = code == ENOENT || code == ENOTDIR;
    throw UserError(path_, missing ? "data file missing" : fmt::format("cannot be opened: {}", std::strerror(code)),
                    remedy_);
  }
  try {
    map();
  } catch (...) {
    ::close(descriptor_);
    throw;
  }
}

void MappedFile::map() {
  struct stat status {};
  if (::fstat(descriptor_, &status) != 0)
    throw UserError(path_, fmt::format("cannot be opened: {}", std::strerror(errno)), remedy_);
  if (!S_ISREG(status.st_mode)) throw UserError(path_, "not a data file", remedy_);
  size_ = static_cast<std::size_t>(status.st_size);
  modified_ = status.st_mtim;
  if (size_ == 0) return;  // nothing to map
  void* const data = ::mmap(nullptr, size_, PROT_READ, MAP_SHARED, descriptor_, 0);
  if (data == MAP_FAILED)
    throw UserError(path_, fmt::format("cannot be mapped into memory: {}", std::strerror(errno)), remedy_);
  data_ = static_cast<const std::byte*>(data);
}

MappedFile::~MappedFile() {
  if (data_ != nullptr) ::munmap(const_cast<std::byte*>(data_), size_);
  ::close(descriptor_);
}

void MappedFile::check_unchanged() const {
  struct stat status {};
  const bool same = ::fstat(descriptor_, &status) == 0 && static_cast<std::size_t>(status.st_size) == size_ &&
                    status.st_mtim.tv_sec == modified_.tv_sec && status.st_mtim.tv_nsec == modified_.tv_nsec;
  if (!same) throw UserError(path_, "changed while it was in use", "leave data files alone during a run; run again");
}

void MappedFile::expect_sequential() const {
  if (data_ != nullptr) ::madvise(const_cast<std::byte*>(data_), size_, MADV_SEQUENTIAL);
}

}  // namespace isobit::samples
