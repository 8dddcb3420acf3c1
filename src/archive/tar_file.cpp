#include "archive/tar_file.h"

#include <archive.h>
#include <archive_entry.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <exception>
#include <fstream>
#include <memory>
#include <set>

#include "archive/files.h"
#include "archive/user_error.h"

namespace isobit::archive {
namespace {

namespace fs = std::filesystem;
using Writer = std::unique_ptr<::archive, decltype(&archive_write_free)>;
using Reader = std::unique_ptr<::archive, decltype(&archive_read_free)>;
using Entry = std::unique_ptr<archive_entry, decltype(&archive_entry_free)>;

// What libarchive's callbacks, which know no exceptions, write to.
struct Sink {
  OutputFile& file;
  std::exception_ptr error;
};

la_ssize_t write_to_sink(::archive*, void* data, const void* bytes, std::size_t size) {
  auto& sink = *static_cast<Sink*>(data);
  try {
    sink.file.write({static_cast<const std::byte*>(bytes), size});
  } catch (...) {
    sink.error = std::current_exception();
    return -1;
  }
  return static_cast<la_ssize_t>(size);
}

void expect_written(::archive* tar, const Sink& sink, bool good) {
  if (sink.error) std::rethrow_exception(sink.error);
  if (!good) throw UserError("", fmt::format("the archive cannot be written: {}", archive_error_string(tar)), "");
}

void write_content(::archive* tar, const Sink& sink, const TarEntry& entry) {
  const auto write = [&](const char* bytes, std::size_t size) {
    expect_written(tar, sink, archive_write_data(tar, bytes, size) == static_cast<la_ssize_t>(size));
  };
  if (entry.file.empty()) return write(entry.content.data(), entry.content.size());
  std::ifstream file(entry.file, std::ios::binary);
  std::vector<char> buffer(1 << 16);
  while (file.read(buffer.data(), static_cast<std::streamsize>(buffer.size())) || file.gcount() > 0) {
    write(buffer.data(), static_cast<std::size_t>(file.gcount()));
  }
  if (!file.eof()) throw UserError(entry.file.string(), "cannot be read", "");
}

[[noreturn]] void refuse(const fs::path& archive, const std::string& problem) {
  throw UserError(archive.string(), problem, "get the file again from where it was exported");
}

bool is_plain_name(const std::string& name) {
  if (name.empty() || name[0] == '.' || name.size() > 255) return false;
  for (const char c : name) {
    if (!(c >= 'a' && c <= 'z') && !(c >= 'A' && c <= 'Z') && !(c >= '0' && c <= '9') && c != '-' && c != '_' &&
        c != '.')
      return false;
  }
  return true;
}

// "FOLDER/FILE" or "FOLDER/checkpoints/FILE" in its parts; empty for any other name.
std::vector<std::string> parts_of(const std::string& name) {
  std::vector<std::string> parts(1);
  for (const char c : name) {
    if (c == '/') {
      parts.emplace_back();
    } else {
      parts.back() += c;
    }
  }
  for (const std::string& part : parts) {
    if (!is_plain_name(part)) return {};
  }
  if (parts.size() == 2 || (parts.size() == 3 && parts[1] == "checkpoints")) return parts;
  return {};
}

// A run's record has a dozen.
constexpr std::size_t kMostFiles = 10'000;

// libarchive's words; it does not always have some.
std::string reason_of(::archive* tar) {
  const char* text = archive_error_string(tar);
  return text == nullptr ? "its headers contradict each other" : text;
}

// An error message's safe form of a name that somebody else chose.
std::string shown(const char* name) {
  std::string text;
  for (const char* c = name == nullptr ? "" : name; *c != '\0' && text.size() < 80; ++c)
    text += *c < ' ' || *c == 127 ? '?' : *c;
  return text;
}

void unpack_entry(::archive* tar, archive_entry* entry, const fs::path& archive, const fs::path& target,
                  std::uint64_t limit) {
  if (!archive_entry_size_is_set(entry) || archive_entry_size(entry) < 0 ||
      static_cast<std::uint64_t>(archive_entry_size(entry)) > limit) {
    refuse(archive, fmt::format("'{}' claims to be larger than the archive", shown(archive_entry_pathname(entry))));
  }
  make_folders(target.parent_path());
  OutputFile file(target);
  std::vector<std::byte> buffer(
      static_cast<std::size_t>(std::clamp<la_int64_t>(archive_entry_size(entry), 512, 1 << 20)));
  for (;;) {
    const la_ssize_t n = archive_read_data(tar, buffer.data(), buffer.size());
    if (n < 0) refuse(archive, "damaged: " + reason_of(tar));
    if (n == 0) break;
    file.write(std::span(buffer).first(static_cast<std::size_t>(n)));
  }
  file.commit_unsynced();
}

}  // namespace

void write_tar(OutputFile& out, const std::vector<TarEntry>& entries) {
  Sink sink{out, nullptr};
  const Writer tar(archive_write_new(), archive_write_free);
  archive_write_set_format_pax_restricted(tar.get());
  archive_write_set_bytes_per_block(tar.get(), 10240);
  archive_write_set_bytes_in_last_block(tar.get(), 1);
  expect_written(tar.get(), sink, archive_write_open(tar.get(), &sink, nullptr, write_to_sink, nullptr) == ARCHIVE_OK);
  for (const TarEntry& given : entries) {
    const Entry entry(archive_entry_new(), archive_entry_free);
    archive_entry_set_pathname(entry.get(), given.name.c_str());
    archive_entry_set_filetype(entry.get(), AE_IFREG);
    archive_entry_set_perm(entry.get(), 0644);
    archive_entry_set_mtime(entry.get(), 0, 0);
    const std::uint64_t size = given.file.empty() ? given.content.size() : fs::file_size(given.file);
    archive_entry_set_size(entry.get(), static_cast<la_int64_t>(size));
    expect_written(tar.get(), sink, archive_write_header(tar.get(), entry.get()) == ARCHIVE_OK);
    write_content(tar.get(), sink, given);
  }
  expect_written(tar.get(), sink, archive_write_close(tar.get()) == ARCHIVE_OK);
}

std::string unpack_tar(const fs::path& archive, const fs::path& folder) {
  std::error_code error;
  const std::uint64_t size = fs::file_size(archive, error);
  if (error) throw_file_error(archive, "cannot be read", error.value());
  const Reader tar(archive_read_new(), archive_read_free);
  archive_read_support_format_tar(tar.get());
  if (archive_read_open_filename(tar.get(), archive.c_str(), 1 << 16) != ARCHIVE_OK)
    refuse(archive, "not an exported run");
  std::string top;
  std::set<std::string> seen;
  for (;;) {
    archive_entry* entry = nullptr;
    const int code = archive_read_next_header(tar.get(), &entry);
    if (code == ARCHIVE_EOF) break;
    if (code != ARCHIVE_OK) refuse(archive, top.empty() ? "not an exported run" : "damaged: " + reason_of(tar.get()));
    const char* name = archive_entry_pathname(entry);
    const std::vector<std::string> parts = parts_of(name == nullptr ? "" : name);
    if (archive_entry_filetype(entry) != AE_IFREG || archive_entry_hardlink(entry) != nullptr ||
        archive_entry_sparse_count(entry) > 0)
      refuse(archive, fmt::format("'{}' is not a regular file", shown(name)));
    if (parts.empty() || (!top.empty() && parts[0] != top))
      refuse(archive, fmt::format("'{}' cannot be a file of a run", shown(name)));
    if (seen.size() == kMostFiles) refuse(archive, fmt::format("it holds more than {} files", kMostFiles));
    if (!seen.insert(name).second) refuse(archive, fmt::format("it holds '{}' twice", shown(name)));
    top = parts[0];
    unpack_entry(tar.get(), entry, archive, folder / name, size);
  }
  if (top.empty()) refuse(archive, "not an exported run: it is empty");
  return top;
}

}  // namespace isobit::archive
