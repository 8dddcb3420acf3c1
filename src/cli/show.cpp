// isobit show: one run's record, checked against its manifest.
#include <memory>

#include "archive/user_error.h"
#include "cli/command.h"
#include "report/show_run.h"

namespace isobit::cli {
namespace {

Action declare_show(OptionSet& app) {
  auto options = std::make_shared<report::ShowOptions>();
  app.add("run", options->run, "A run's folder, id, beginning of an id, or last").type("RUN").required();
  app.add("--runs", options->runs, "The archive: a folder of runs (default: $ISOBIT_RUNS, else runs)").type("DIR");
  app.flag("--json", options->json, "One object: what `log --json` says, and path, record, experiment, ...");
  app.flag("--tables", options->tables, "A finished run's logs as one object of columns (docs/formats/tables.md)");
  return [options] { return report::run_show(*options); };
}

const CommandRegistration show_command({.name = "show",
                                        .summary = "Show one run and check its record against its manifest",
                                        .example = "isobit show last",
                                        .group = Group::see,
                                        .rank = 40,
                                        .declare = declare_show});

}  // namespace
}  // namespace isobit::cli
