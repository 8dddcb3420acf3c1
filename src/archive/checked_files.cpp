#include "archive/checked_files.h"

#include "archive/files.h"
#include "archive/record_file.h"
#include "archive/sha256.h"
#include "archive/user_error.h"

namespace isobit::archive {
namespace {

namespace fs = std::filesystem;
using archive::UserError;

UserError changed(const fs::path& path) {
  return {path.string(), "was changed while it was verified", "verify it once nobody writes it"};
}

}  // namespace

CheckedFiles::CheckedFiles(const archive::RunRecord& record) : folder_(record.folder()) {
  const fs::path path = folder_ / archive::kManifest;
  const std::string text = archive::read_record_file(path);
  if (archive::sha256(text) != record.seal()) throw changed(path);
  manifest_ = archive::parse_manifest(text, path.string());
}

std::optional<std::string> CheckedFiles::find(const std::string& name) const {
  if (!manifest_.files.contains(name)) return {};
  return read(name);
}

std::string CheckedFiles::read(const std::string& name) const {
  const fs::path path = folder_ / name;
  std::string content = archive::read_record_file(path);
  if (archive::sha256(content) != digest_of(name).sha256) throw changed(path);
  return content;
}

void CheckedFiles::copy(const std::string& name, const fs::path& to) const {
  std::error_code error;
  fs::copy_file(folder_ / name, to, error);
  if (error) throw UserError((folder_ / name).string(), "cannot be read: " + error.message(), "");
  if (archive::digest_file(to).sha256 != digest_of(name).sha256) throw changed(folder_ / name);
}

const archive::FileDigest& CheckedFiles::digest_of(const std::string& name) const {
  const auto found = manifest_.files.find(name);
  if (found == manifest_.files.end()) throw changed(folder_ / name);
  return found->second;
}

}  // namespace isobit::archive
