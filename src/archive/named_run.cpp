#include "archive/named_run.h"

#include <system_error>

#include "archive/runs.h"
#include "archive/user_error.h"

namespace isobit::archive {
namespace {

std::filesystem::path unpacked(const std::string& word, const std::string& copy, const std::filesystem::path& runs,
                               archive::Keep keep) {
  if (copy.empty()) return archive::import_run(word, runs, keep);
  try {
    return archive::import_run(copy, runs, keep);
  } catch (const archive::UserError& error) {
    throw archive::UserError(error.place() == copy ? word : error.place(), error.problem(), error.remedy());
  }
}

}  // namespace

NamedRun::NamedRun(const std::string& word, const std::string& runs, const std::string& into, const std::string& copy) {
  std::error_code ignored;
  if (copy.empty() && !std::filesystem::is_regular_file(word, ignored)) {
    if (!into.empty())
      throw archive::UserError("--into", "is only for exported files", "name a file written by isobit export");
    folder_ = archive::find_run(archive::runs_folder(runs), word);
  } else if (!into.empty()) {
    folder_ = unpacked(word, copy, into, archive::Keep::durable);
  } else {
    unpacked_ = std::make_unique<archive::TemporaryFolder>();
    folder_ = unpacked(word, copy, unpacked_->path(), archive::Keep::meanwhile);
  }
  name_ = unpacked_ ? word : folder_.string();
}

}  // namespace isobit::archive
