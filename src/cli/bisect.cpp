// isobit bisect: the first operator that differs between two machines, whose traces or records meet here.
#include <memory>

#include "archive/user_error.h"
#include "cli/command.h"
#include "study/bisect.h"

namespace isobit::cli {
namespace {

Action declare_bisect(OptionSet& app) {
  auto options = std::make_shared<study::BisectOptions>();
  app.add("a", options->a, "A trace, or a run as isobit diff takes it").type("A").required();
  app.add("b", options->b, "The same of another machine or setting").type("B").required();
  app.add("--runs", options->runs, "The archive: a folder of runs (default: $ISOBIT_RUNS, else runs)").type("DIR");
  app.flag("--json", options->json, "One JSON object on stdout (docs/cli.md)");
  return [options] { return study::run_bisect(*options); };
}

const CommandRegistration bisect_command(
    {.name = "bisect",
     .summary = "Find the first operator that differs between two machines' traces",
     .example = "isobit bisect here.trace there.trace",
     .group = Group::prove,
     .rank = 43,
     .declare = declare_bisect});

}  // namespace
}  // namespace isobit::cli
