// Files of a record: read whole, written whole, appended to; every failure a UserError with file and remedy, a
// FileError where the system gave an errno.
//
// write_file: a temporary file in the same folder, written, fsynced, renamed over the target, folder fsynced;
// a reader sees the old content or the new one. Temporaries are called ".tmp-<random>"; one left by a kill is
// no part of a record and is removed by remove_temporaries. Thread-safe but for the fault injection, which
// tests set while nothing else runs.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>

#include "archive/user_error.h"

namespace isobit::archive {

// What the file system said no to, with its errno.
class FileError : public UserError {
 public:
  FileError(int code, const std::filesystem::path& path, const std::string& problem, const std::string& remedy)
      : UserError(path.string(), problem, remedy), code_(code) {}
  [[nodiscard]] int code() const { return code_; }

 private:
  int code_;
};

// FileError for errno `code`: "no space left on device", with what to do about it.
[[noreturn]] void throw_file_error(const std::filesystem::path& path, std::string_view action, int code);

// The whole of a regular file; at most `limit` bytes.
[[nodiscard]] std::string read_file(const std::filesystem::path& path, std::uint64_t limit = std::uint64_t{1} << 34);

void write_file(const std::filesystem::path& path, std::string_view content);
// The pieces one after the other.
void write_file(const std::filesystem::path& path, std::span<const std::span<const std::byte>> pieces);

// All bytes to an open file: 0, or errno of what stopped it. Faults for tests count here, too.
[[nodiscard]] int write_all(int descriptor, std::span<const std::byte> bytes);

void remove_temporaries(const std::filesystem::path& folder) noexcept;

// Makes entries of the folder (new names, renames) durable.
void sync_folder(const std::filesystem::path& folder);

// Creates it and what is missing above.
void make_folders(const std::filesystem::path& folder);

// 8 random lower-case hex digits from the system.
[[nodiscard]] std::string random_suffix();

// A file that grows: each append is one write at the end, whole or taken back.
class AppendFile {
 public:
  explicit AppendFile(std::filesystem::path path);  // created where missing
  AppendFile(AppendFile&& other) noexcept;
  AppendFile& operator=(AppendFile&& other) noexcept;
  ~AppendFile();

  void append(std::string_view text);
  void sync();
  [[nodiscard]] std::uint64_t size() const { return size_; }

 private:
  std::filesystem::path path_;
  int descriptor_ = -1;
  std::uint64_t size_ = 0;
};

// Fault injection for tests: writes in this process fail with `code` once `bytes` more have been written.
// A code of 0 ends it.
void inject_write_fault(int code, std::uint64_t bytes);

}  // namespace isobit::archive
