// A file that is there whole or not at all, for output of any length at a place that the user named.
//
// Without a name until commit() (where the file system knows such files): neither an error nor a kill leaves anything.
// An existing file is never replaced. Errors are UserError with file and remedy. One thread per object.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>

namespace isobit::archive {

class OutputFile {
 public:
  explicit OutputFile(std::filesystem::path path);
  OutputFile(const OutputFile&) = delete;
  OutputFile& operator=(const OutputFile&) = delete;
  ~OutputFile();

  void write(std::span<const std::byte> bytes);
  // On the disk and under its name.
  void commit();
  // Under its name alone: of many files, all of which sync_file_system makes durable at once.
  void commit_unsynced();
  [[nodiscard]] std::uint64_t size() const { return size_; }

 private:
  [[noreturn]] void fail(int code) const;

  std::filesystem::path path_;
  std::string temporary_;  // "" while the file has no name
  int descriptor_ = -1;
  std::uint64_t size_ = 0;
};

}  // namespace isobit::archive
