// isobit study: many runs by one file, and what they say together.
#include <memory>

#include "archive/user_error.h"
#include "cli/command.h"
#include "study/conduct.h"

namespace isobit::cli {
namespace {

Action declare_study(OptionSet& app) {
  auto options = std::make_shared<study::StudyOptions>();
  app.add("file", options->file, "The study (docs/formats/study.md)").type("FILE.toml").required();
  app.add("--out", options->out, "The study's folder (default: studies/NAME)").type("DIR");
  app.add("--jobs", options->jobs, "Runs at a time (default: as many as cores and memory take)").type("N").at_least(1);
  app.flag("--resume", options->resume, "Resume the study in its folder: runs that are there are not made again");
  app.flag("--gather", options->gather, "Make no run: look at those that are there, and write the results");
  app.flag("--dry-run", options->dry_run, "Check the study, list its runs, and make none");
  app.flag("--json", options->json, "The results as JSON; with --dry-run the list of runs, with --submit the job");
  app.flag("--submit", options->submit, "Make the runs as jobs under Slurm; then --gather (docs/guides/study.md)")
      .group("Slurm");
  app.add("--time", options->submission.time, "Time limit of each run (default: the partition's)")
      .type("D-H:M:S")
      .group("Slurm");
  app.add("--partition", options->submission.partition, "Partition (default: the cluster's)")
      .type("NAME")
      .group("Slurm");
  app.add("--at-once", options->submission.at_once, "Jobs at a time").type("N").at_least(1).group("Slurm");
  app.add("--program", options->program, "The isobit that makes the runs (default: this one)")
      .type("FILE")
      .group("Advanced");
  return [options] { return study::run_study(*options); };
}

const CommandRegistration study_command({.name = "study",
                                         .summary = "Make many runs, and say what they show and what is noise",
                                         .example = "isobit study examples/study-optimizers.toml --jobs 2",
                                         .group = Group::train,
                                         .rank = 46,
                                         .declare = declare_study});

}  // namespace
}  // namespace isobit::cli
