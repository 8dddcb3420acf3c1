#include "cli/named_run.h"

#include <system_error>

#include "archive/runs.h"

namespace isobit::cli {

NamedRun::NamedRun(const std::string& word, const std::string& runs) {
  std::error_code ignored;
  if (std::filesystem::is_regular_file(word, ignored)) {
    unpacked_ = std::make_unique<archive::TemporaryFolder>();
    folder_ = archive::import_run(word, unpacked_->path());
    name_ = word;
  } else {
    folder_ = archive::find_run(archive::runs_folder(runs), word);
    name_ = folder_.string();
  }
}

}  // namespace isobit::cli
