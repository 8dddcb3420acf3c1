// isobit trace: steps of a recorded run executed again, every operator written down.
#include <memory>

#include "archive/user_error.h"
#include "cli/command.h"
#include "cli/execution_flags.h"
#include "proof/traced_run.h"

namespace isobit::cli {
namespace {

Action declare_trace(OptionSet& app) {
  auto options = std::make_shared<proof::TraceOptions>();
  app.add("run", options->run, "A run's folder, id, beginning of an id, last, or a file written by isobit export")
      .type("RUN")
      .required();
  app.add("--steps", options->steps, "The steps to trace: FIRST:COUNT").type("WINDOW").required();
  app.add("--out", options->out, "The trace (docs/formats/trace.md)").type("FILE").required();
  app.add("--runs", options->runs, "The archive: a folder of runs (default: $ISOBIT_RUNS, else runs)").type("DIR");
  app.add("--data", options->data, "Folder of the data files, if they moved").type("PATH");
  app.add("--network", options->network, "The TorchScript file of a trusted network, if it moved").type("FILE");
  app.add("--samples", options->samples,
          "Values kept of each tensor, at the same indices on every machine (default: 0)")
      .type("N")
      .checked([](const std::string& text) {
        char* end = nullptr;
        const long n = std::strtol(text.c_str(), &end, 10);
        if (*end != '\0' || n < 0 || n > proof::kMostSamples) {
          throw archive::UserError("--samples " + text, "not a number of samples",
                                   fmt::format("use 0 to {}", proof::kMostSamples));
        }
      });
  app.flag("--statistics", options->statistics, "Keep minimum, maximum, mean, NaN and infinite values of each tensor");
  app.add("--values", options->values,
          "Keep all output values of one operator (STEP/PHASE/MODULE/NAME/OCCURRENCE), or of \"all\"")
      .type("KEY");
  app.flag("--json", options->json, "One JSON object on stdout");
  app.flag("--quiet", options->quiet, "No progress on stderr");
  app.add("--repository", options->repository,
          "For a Python program: the folder of its repository and data (default: here)")
      .type("DIR");
  app.flag("--trust", options->trust,
           "Run a Python program or TorchScript network without a sandbox, with all your rights");
  app.add("--read", options->read, "A file or folder that the sandboxed code may read (repeatable)")
      .type("PATH")
      .repeatable();
  app.add("--limit", options->limits,
          "Of the sandboxed code: memory=8G, disk=20G, time=2h or processes=500 (repeatable)")
      .type("NAME=N")
      .repeatable();
  declare_execution(app, options->execution);
  return at_place(app, [options] { return proof::run_trace(*options); });
}

const CommandRegistration trace_command({.name = "trace",
                                         .summary = "Execute steps of a run again and write every operator down",
                                         .example = "isobit trace last --steps 100:3 --out here.trace",
                                         .group = Group::prove,
                                         .rank = 44,
                                         .declare = declare_trace});

}  // namespace
}  // namespace isobit::cli
