// The files of a record that was opened (archive::RunRecord), read again: the very bytes that were checked then.
// Whoever can write the folder could put others there meanwhile; what is executed and compared must be what was sealed.
// Immutable; thread-safe.
#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include "archive/manifest.h"
#include "archive/run_record.h"

namespace isobit::archive {

class CheckedFiles {
 public:
  // UserError, here and below, where the folder was changed since.
  explicit CheckedFiles(const archive::RunRecord& record);

  // Nothing where the record has no such file.
  [[nodiscard]] std::optional<std::string> find(const std::string& name) const;
  [[nodiscard]] std::string read(const std::string& name) const;
  // Of a large one: `to` must not be there, and nobody else can write it.
  void copy(const std::string& name, const std::filesystem::path& to) const;

 private:
  [[nodiscard]] const archive::FileDigest& digest_of(const std::string& name) const;

  std::filesystem::path folder_;
  archive::Manifest manifest_;
};

}  // namespace isobit::archive
