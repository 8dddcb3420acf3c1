#include "jobs/run_once.h"

#include "archive/files.h"
#include "archive/runs.h"
#include "archive/user_error.h"

namespace isobit::jobs {

std::optional<std::filesystem::path> find_run_once(const std::filesystem::path& runs, const std::string& name,
                                                   const train::Experiment& experiment) {
  const auto found = archive::find_ending(runs, archive::ending_of(name));
  if (!found) return std::nullopt;
  if (archive::read_file(*found / "experiment.toml") != train::to_toml(experiment)) {
    throw archive::UserError(found->string(), "is the run of this name (--once), and has another experiment",
                             "give the new run another name");
  }
  return found;
}

}  // namespace isobit::jobs
