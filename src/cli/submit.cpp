// isobit submit: a run as a job of a cluster under Slurm, in one line.
#include <memory>

#include "archive/user_error.h"
#include "cli/command.h"
#include "slurm/submit.h"

namespace isobit::cli {
namespace {

Action declare_submit(OptionSet& app) {
  auto options = std::make_shared<slurm::SubmitOptions>();
  app.add("file", options->file, "The experiment (docs/experiment.md)").type("FILE.toml").required();
  app.add("--set", options->overrides, "Override a key: --set optimizer.lr=0.1 (repeatable)")
      .type("KEY=VALUE")
      .repeatable();
  app.add("--nodes", options->nodes, "Nodes (of each type of GPU)").type("N").at_least(1).show_default();
  app.add("--workers-per-node", options->workers, "Workers on each node (default: one per GPU, else one)")
      .type("N")
      .at_least(1);
  app.add("--gpus", options->gpus, "GPUs of each node; several types: nodes of each").type("TYPE:N,...");
  app.add("--cpus", options->cpus, "CPUs of each worker (default: Slurm's)").type("N").at_least(1);
  app.add("--mem", options->memory, "Memory of each node: 1500M, 4G (default: Slurm's)").type("SIZE");
  app.add("--time", options->time, "Time limit; the job is requeued there and resumes (default: the partition's)")
      .type("D-H:M:S");
  app.add("--partition", options->partition, "Partition (default: the cluster's)").type("NAME");
  app.add("--array", options->array, "A run for each value: seed=1..5, optimizer.lr=0.1,0.01 (repeatable: all pairs)")
      .type("KEY=V,V")
      .repeatable();
  app.add("--at-once", options->at_once, "Runs of the array at a time").type("N").at_least(1);
  app.add("--container", options->container, "Run inside this image, by Apptainer (guides/slurm.md)").type("IMAGE");
  app.add("--device", options->device, "Where the workers compute (default: cuda with --gpus, else cpu)").type("NAME");
  app.add("--name", options->name, "The job's name (default: the file's)").type("NAME");
  app.add("--runs", options->runs,
          "The archive, on a file system that all nodes share (default: $ISOBIT_RUNS, else runs)")
      .type("DIR");
  app.flag("--dry-run", options->dry_run, "Check, print the job script, and submit nothing");
  app.flag("--json", options->json, "One JSON object on stdout instead of the job's id or script");
  return [options] { return slurm::run_submit(*options); };
}

const CommandRegistration submit_command({.name = "submit",
                                          .summary = "Submit a run to a cluster under Slurm",
                                          .example = "isobit submit examples/fashion-lenet5.toml --time 30",
                                          .group = Group::scale,
                                          .rank = 12,
                                          .declare = declare_submit});

}  // namespace
}  // namespace isobit::cli
