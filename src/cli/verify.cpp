// isobit verify: executes a recorded run again and compares all that was recorded.
#include <memory>

#include "archive/user_error.h"
#include "cli/command.h"
#include "cli/execution_flags.h"
#include "proof/verify.h"

namespace isobit::cli {
namespace {

Action declare_verify(OptionSet& app) {
  auto options = std::make_shared<proof::VerifyOptions>();
  app.add("run", options->run, "A run's folder, id, beginning of an id, last, or a file written by isobit export")
      .type("RUN")
      .required();
  app.add("--runs", options->runs, "The archive: a folder of runs (default: $ISOBIT_RUNS, else runs)").type("DIR");
  app.add("--into", options->into, "Unpack an exported file into this archive and keep it").type("DIR");
  app.add("--data", options->data, "Folder of the data files, if they moved").type("PATH");
  app.add("--from", options->from, "First step to compare (default: 1)").type("STEP").at_least(1);
  app.add("--to", options->to, "Last step to compare (default: the run's last)").type("STEP").at_least(1);
  app.add("--workers", options->workers,
          "Processes side by side, each from a recorded checkpoint to the next; --threads is of each (default: 1)")
      .type("N")
      .at_least(1);
  app.add("--segment", options->segment, "What --workers calls: one segment of the record with this seal").group("");
  app.add("--repository", options->repository,
          "For a Python program: the folder of its repository and data (default: here)")
      .type("DIR");
  app.add("--signers", options->signers, "Who may have signed the exported file (OpenSSH's allowed_signers)")
      .type("FILE");
  app.flag("--trust", options->trust, "Run code from the record without a sandbox, with all your rights");
  app.add("--read", options->read, "A file or folder that code from the record may read (repeatable)")
      .type("PATH")
      .repeatable();
  app.add("--limit", options->limits, "Of that code: memory=8G, disk=20G, time=2h or processes=500 (repeatable)")
      .type("NAME=N")
      .repeatable();
  app.flag("--json", options->json, "One JSON object on stdout: verdict, steps, weights, difference (docs/cli.md)");
  declare_execution(app, options->execution);
  app.after_dashes(options->arguments, "arguments for a Python program's script instead of the recorded ones");
  return at_place(app, [options] { return proof::verify(*options); });
}

const CommandRegistration verify_command(
    {.name = "verify",
     .summary = "Execute a recorded run again and compare everything",
     .example = "isobit verify last --threads 1 --isa reference\n  isobit verify last --from 100 --to 120 --json\n  "
                "isobit verify last --workers 4\n  isobit verify run.tar --data data\n  isobit verify last "
                "--repository ~/project -- --epochs 2",
     .group = Group::prove,
     .rank = 20,
     .declare = declare_verify});

}  // namespace
}  // namespace isobit::cli
