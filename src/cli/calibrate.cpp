// isobit calibrate: makes tagged baselines anew, and says what an upgrade moved.
#include <memory>

#include "archive/user_error.h"
#include "cli/command.h"
#include "study/calibrate.h"

namespace isobit::cli {
namespace {

Action declare_calibrate(OptionSet& app) {
  auto options = std::make_shared<study::CalibrateOptions>();
  app.add("--tag", options->tags, "Only this baseline (repeatable; default: all)").type("NAME").repeatable();
  app.add("--add", options->add, "Make a finished run a baseline, or one more run of a stock one").type("RUN");
  app.add("--as", options->as, "The baseline's name").type("NAME");
  app.add("--remove", options->remove, "Forget a baseline; its runs stay").type("NAME");
  app.flag("--list", options->list, "List the baselines");
  app.add("--runs", options->runs, "The archive: a folder of runs (default: $ISOBIT_RUNS, else runs)").type("DIR");
  app.flag("--json", options->json, "One object: each baseline with its verdict, metrics and changes");
  app.add("--program", options->program, "The isobit that makes the runs (default: this one)")
      .type("FILE")
      .group("Advanced");
  return [options] { return study::run_calibrate(*options); };
}

const CommandRegistration calibrate_command({.name = "calibrate",
                                             .summary = "Make baselines anew after an upgrade, and say what moved",
                                             .example = "isobit calibrate --add last --as lenet; isobit calibrate",
                                             .group = Group::prove,
                                             .rank = 47,
                                             .declare = declare_calibrate});

}  // namespace
}  // namespace isobit::cli
