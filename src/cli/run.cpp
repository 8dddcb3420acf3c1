// isobit run: trains by the contract, or by stock PyTorch, and leaves a record.
#include <memory>

#include "archive/user_error.h"
#include "cli/command.h"
#include "cli/execution_flags.h"
#include "jobs/run.h"

namespace isobit::cli {
namespace {

Action declare_run(OptionSet& app) {
  auto options = std::make_shared<jobs::RunOptions>();
  app.add("file", options->file, "The experiment (docs/experiment.md)").type("FILE.toml");
  app.add("--set", options->overrides, "Override a key: --set optimizer.lr=0.1 (repeatable)")
      .type("KEY=VALUE")
      .repeatable();
  app.add("--resume", options->resume, "Resume an interrupted run from its newest checkpoint").type("RUN");
  app.add("--once", options->once, "Name the run: begun where there is none of that name, else resumed").type("NAME");
  app.flag("--finished", options->finished, "Only say whether the run of --once is finished: exit code 0, else 1");
  app.flag("--dry-run", options->dry_run, "Check the experiment, print it as a record has it, and train nothing");
  app.add("--runs", options->runs, "The archive: a folder of runs (default: $ISOBIT_RUNS, else runs)").type("DIR");
  app.add("--workers", options->workers, "Train in so many processes on this machine; the bits are those of one")
      .type("N")
      .at_least(1)
      .group("Workers");
  app.add("--listen", options->listen,
          "Let workers of other machines join --workers there (default: this machine alone)")
      .type("HOST[:PORT]")
      .group("Workers");
  app.add("--join", options->join, "Be a worker of the job whose host is there").type("HOST:PORT").group("Workers");
  app.add("--key-file", options->key_file, "The job's key, readable by you alone (default: $ISOBIT_JOB_KEY)")
      .type("FILE")
      .group("Workers");
  app.add("--silence", options->silence, "Seconds after which a worker that says nothing counts as gone (default: 10)")
      .type("SECONDS")
      .at_least(2)
      .group("Workers");
  app.flag("--json", options->json, "One JSON object on stdout instead of the last line, or of --dry-run's TOML");
  declare_execution(app, options->execution);
  return at_place(app, [options] { return jobs::run(*options).code; });
}

const CommandRegistration run_command({.name = "run",
                                       .summary = "Train by the contract and leave a record",
                                       .example = "isobit run examples/fashion-lenet5.toml --set epochs=2",
                                       .group = Group::train,
                                       .rank = 10,
                                       .declare = declare_run});

}  // namespace
}  // namespace isobit::cli
