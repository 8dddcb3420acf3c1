// A regular file, mapped into memory for reading: nothing is read before it is used.
//
// Errors are archive::UserError naming the file: missing, no regular file, not readable. Immutable; thread-safe.
#pragma once

#include <cstddef>
#include <ctime>
#include <span>
#include <string>

namespace isobit::samples {

class MappedFile {
 public:
  // `remedy` is what the errors advise.
  explicit MappedFile(std::string path, std::string remedy);
  ~MappedFile();
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;

  [[nodiscard]] const std::string& path() const { return path_; }
  [[nodiscard]] std::span<const std::byte> bytes() const { return {data_, size_}; }
  // UserError where the file has another size or time of modification than when it was opened. To be called before what
  // is mapped is used: pages behind a new end cannot be read, and other content is not what was recorded.
  void check_unchanged() const;
  // That it is read from front to back.
  void expect_sequential() const;

 private:
  void map();

  std::string path_, remedy_;
  int descriptor_ = -1;
  const std::byte* data_ = nullptr;
  std::size_t size_ = 0;
  std::timespec modified_{};
};

}  // namespace isobit::samples
