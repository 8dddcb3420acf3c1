// A file of a record whose seal has not been checked: of a run under way, or one that somebody sent. Thread-safe.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

namespace isobit::archive {

// As read_file (files.h); a link in the file's place is a UserError: it would show what lies outside the record, in a
// page that is given to others too. 4 GiB: a log of ten million steps has two.
[[nodiscard]] std::string read_record_file(const std::filesystem::path& path,
                                           std::uint64_t limit = std::uint64_t{1} << 32);

// UserError where something in the folder, at any depth, is neither a file nor a folder: whoever moves or deletes files
// there would do so elsewhere, behind a link.
void require_own_files(const std::filesystem::path& folder);

}  // namespace isobit::archive
