#include "cli/named_run.h"

#include <system_error>

#include "archive/runs.h"
#include "archive/user_error.h"

namespace isobit::cli {

NamedRun::NamedRun(const std::string& word, const std::string& runs, const std::string& into) {
  std::error_code ignored;
  if (!std::filesystem::is_regular_file(word, ignored)) {
    if (!into.empty())
      throw archive::UserError("--into", "is only for exported files", "name a file written by isobit export");
    folder_ = archive::find_run(archive::runs_folder(runs), word);
  } else if (!into.empty()) {
    folder_ = archive::import_run(word, into);
  } else {
    unpacked_ = std::make_unique<archive::TemporaryFolder>();
    folder_ = archive::import_run(word, unpacked_->path());
  }
  name_ = unpacked_ ? word : folder_.string();
}

}  // namespace isobit::cli
