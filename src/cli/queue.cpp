// isobit queue: the user's jobs, and what of the cluster is free.
#include <memory>

#include "archive/user_error.h"
#include "cli/command.h"
#include "slurm/queue.h"

namespace isobit::cli {
namespace {

Action declare_queue(OptionSet& app) {
  auto options = std::make_shared<slurm::QueueOptions>();
  app.flag("--all", options->all, "Jobs of all users");
  app.flag("--json", options->json, "One object: jobs and partitions, with what is free of each");
  return [options] { return slurm::run_queue(*options); };
}

const CommandRegistration queue_command({.name = "queue",
                                         .summary = "Show your jobs under Slurm, and what of the cluster is free",
                                         .example = "isobit queue --all",
                                         .group = Group::scale,
                                         .rank = 14,
                                         .declare = declare_queue});

}  // namespace
}  // namespace isobit::cli
