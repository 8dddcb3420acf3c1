#include "report/output_folder.h"

#include <system_error>

#include "archive/files.h"
#include "archive/user_error.h"

namespace isobit::report {

namespace fs = std::filesystem;

namespace {

// "a/b/" and "a/b" are one folder.
fs::path without_slash(const fs::path& folder) {
  return folder.has_filename() || !folder.has_parent_path() ? folder : folder.parent_path();
}

}  // namespace

OutputFolder::OutputFolder(const fs::path& folder) : folder_(without_slash(folder)) {
  if (archive::is_there(folder_))
    throw archive::UserError(folder_.string(), "exists already", "name a folder that does not exist yet");
  const fs::path parent = folder_.parent_path().empty() ? fs::path(".") : folder_.parent_path();
  archive::make_folders(parent);
  making_ = parent / (".tmp-" + folder_.filename().string() + "-" + archive::random_suffix());
  archive::make_folders(making_);
}

OutputFolder::~OutputFolder() {
  std::error_code ignored;
  if (!making_.empty()) fs::remove_all(making_, ignored);
}

void OutputFolder::write(const std::string& name, const std::string& text) const {
  archive::make_folders((making_ / name).parent_path());
  archive::write_file(making_ / name, text);
}

void OutputFolder::commit() {
  if (archive::is_there(folder_))
    throw archive::UserError(folder_.string(), "exists already", "name a folder that does not exist yet");
  archive::rename_file(making_, folder_);
  making_.clear();
  archive::sync_folder(folder_.parent_path().empty() ? fs::path(".") : folder_.parent_path());
}

}  // namespace isobit::report
