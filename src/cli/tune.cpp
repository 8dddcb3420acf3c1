// isobit tune: the command, and the table in force.
#include <memory>

#include "archive/tuning_text.h"
#include "cli/command.h"
#include "cli/tune_search.h"

namespace isobit::cli {
namespace {

Action declare_tune(OptionSet& app) {
  auto options = std::make_shared<bench::TuneOptions>();
  app.add("--out", options->out,
          "File to write (default: $ISOBIT_TUNING, else isobit/tuning.json in $XDG_CONFIG_HOME or ~/.config)")
      .type("FILE");
  app.add("--rounds", options->rounds, "Interleaved rounds; their median counts").at_least(1).show_default();
  app.flag("--dry-run", options->dry_run, "Measure and print, write nothing");
  app.flag("--show", options->show, "Print the table in use, measure nothing");
  app.flag("--json", options->json, "One JSON object on stdout");
  app.add("--threads", options->threads, "Threads that compute (default: all this process may use)")
      .type("N")
      .at_least(1);
  app.add("--isa", options->isa, "Instruction set: auto, avx2, avx512, reference").type("ISA");
  return [options] {
    if (!options->show) return tune_search()(*options);
    archive::show_tuning(options->json);
    return 0;
  };
}

const CommandRegistration tune_command(
    {.name = "tune",
     .summary = "Fit the kernels' block sizes to this machine: changes speed, never a bit",
     .example = "isobit tune\n  isobit tune --threads 1 --dry-run\n  isobit tune --show",
     .group = Group::train,
     .rank = 65,
     .without_torch_only_with = "--show",
     .declare = declare_tune});

}  // namespace

TuneSearch& tune_search() {
  static TuneSearch search = nullptr;
  return search;
}

}  // namespace isobit::cli
