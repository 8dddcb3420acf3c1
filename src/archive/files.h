// Files of a record: read whole, written whole, appended to; every failure a UserError with file and remedy, a
// FileError where the system gave an errno.
//
// write_file: a temporary file in the same folder, written, fsynced, renamed over the target, folder fsynced;
// a reader sees the old content or the new one. Temporaries are called ".tmp-<random>"; one left by a kill is
// no part of a record and is removed by remove_temporaries. Thread-safe but for the fault injection, which
// tests set while nothing else runs.
//
// What the file system cannot say is never taken for an answer: only ENOENT and ENOTDIR mean that a file is missing.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

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

// Whether there is anything of this name, a link included. FileError where the system cannot say.
[[nodiscard]] bool is_there(const std::filesystem::path& path);
// The names in a folder, in byte order; none where it is missing. FileError where the system cannot say.
[[nodiscard]] std::vector<std::string> names_in(const std::filesystem::path& folder);

// The whole of a regular file; at most `limit` bytes.
[[nodiscard]] std::string read_file(const std::filesystem::path& path, std::uint64_t limit = std::uint64_t{1} << 34);

void write_file(const std::filesystem::path& path, std::string_view content);
// The pieces one after the other. `before_rename` is called when the temporary is complete; what it throws leaves the
// target as it was. A writer asks there whether it still may write: whoever takes its place removes its temporaries
// first, so that a rename which comes too late finds nothing to rename.
void write_file(const std::filesystem::path& path, std::span<const std::span<const std::byte>> pieces,
                const std::function<void()>& before_rename = {});

// All bytes to an open file: 0, or errno of what stopped it. Faults for tests count here, too.
[[nodiscard]] int write_all(int descriptor, std::span<const std::byte> bytes);

// read(2) into the buffer; errno as it sets it. Faults for tests count here, too.
[[nodiscard]] std::ptrdiff_t read_some(int descriptor, std::span<std::byte> buffer);

// Renames, and replaces what has the new name; the folders' entries are not yet durable.
void rename_file(const std::filesystem::path& from, const std::filesystem::path& to);
// A file, or nothing where it is missing.
void remove_file(const std::filesystem::path& path);
// A folder that nobody needs any more: first renamed to a temporary, so that it goes whole or not at all.
void remove_folder(const std::filesystem::path& folder);

// What a kill left of files and folders; all of it, or FileError.
void remove_temporaries(const std::filesystem::path& folder);

// Makes entries of the folder (new names, renames) durable.
void sync_folder(const std::filesystem::path& folder);

// Makes all that was written to the folder's file system durable: once for many files.
void sync_file_system(const std::filesystem::path& folder);

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
  int take_back();

  std::filesystem::path path_;
  int descriptor_ = -1;
  std::uint64_t size_ = 0;
  bool torn_ = false;  // behind size_ stands a part of what could not be written
  int unsynced_ = 0;   // why a sync failed: none succeeds after it
};

// Fault injection for tests. `fault` is asked before each action on a file, and before the second half of a write; an
// errno that it returns is what the action fails with. nullptr ends it.
enum class FileAction { read, write, sync, rename, remove };
void inject_fault(int (*fault)(FileAction));
// Writes in this process fail with `code` once `bytes` more have been written.
// A code of 0 ends it.
void inject_write_fault(int code, std::uint64_t bytes);

}  // namespace isobit::archive
