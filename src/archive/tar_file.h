// Tar archives (POSIX pax, without compression) by libarchive: written with the same bytes for the same content, read
// without trust.
//
// Written: entries in the order given, mode 0644, owner 0, time 0. Read: regular files alone, named FOLDER/FILE or
// FOLDER/checkpoints/FILE, all in one folder, at most 10,000; no links, folders, devices, holes, doubled or other names
// ("../x", "/x"); no entry larger than the archive itself. Errors are UserError naming the archive. Thread-safe.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "archive/output_file.h"

namespace isobit::archive {

struct TarEntry {
  std::string name;
  std::string content;         // or, where `file` is not empty,
  std::filesystem::path file;  // that file's content
};

void write_tar(OutputFile& out, const std::vector<TarEntry>& entries);

// Writes the entries' files below `folder`, which must be empty; not yet durable (sync_file_system, files.h). The name
// of the one folder in the archive.
[[nodiscard]] std::string unpack_tar(const std::filesystem::path& archive, const std::filesystem::path& folder);

}  // namespace isobit::archive
