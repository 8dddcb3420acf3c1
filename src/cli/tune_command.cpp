// isobit tune: the command, and the table in force.
#include <fmt/format.h>

#include <memory>
#include <nlohmann/json.hpp>

#include "archive/environment.h"
#include "archive/tuning_file.h"
#include "archive/user_error.h"
#include "cli/command.h"
#include "cli/tune.h"

namespace isobit::cli {
namespace {

using kernels::Tuning;

int show(const TuneOptions& options) {
  const bool found = archive::load_tuning();
  print_tuning(kernels::tuning(), {.file = found ? archive::tuning_path().string() : "", .json = options.json});
  return 0;
}

Action declare_tune(OptionSet& app) {
  auto options = std::make_shared<TuneOptions>();
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
  return [options] { return options->show ? show(*options) : tune_search()(*options); };
}

const CommandRegistration tune_command(
    {.name = "tune",
     .summary = "Fit the kernels' block sizes to this machine: changes speed, never a bit",
     .example = "isobit tune\n  isobit tune --threads 1 --dry-run\n  isobit tune --show",
     .rank = 65,
     .without_torch_only_with = "--show",
     .declare = declare_tune});

}  // namespace

int (*&tune_search())(const TuneOptions&) {
  static int (*search)(const TuneOptions&) = nullptr;
  return search;
}

void print_tuning(const Tuning& tuning, const TuningReport& report) {
  if (report.json) {
    nlohmann::ordered_json json{{"cpu", archive::cpu_name()}};
    if (report.measured) json["threads"] = report.threads, json["isa"] = report.isa;
    json["file"] = report.file;
    if (report.measured) json["saved"] = report.saved;
    for (const kernels::TuningKey& key : kernels::tuning_keys()) json["sizes"][key.name] = tuning.*key.member;
    fmt::print("{}\n", json.dump());
    return;
  }
  fmt::print("{:20} {:>10} {:>10}\n", "size", "default", "tuned");
  for (const kernels::TuningKey& key : kernels::tuning_keys()) {
    fmt::print("{:20} {:>10} {:>10}  {}\n", key.name, Tuning{}.*key.member, tuning.*key.member, key.meaning);
  }
  if (report.measured) {
    fmt::print("{:.1f} % saved on products and convolutions; {}\n", 100 * report.saved,
               report.file.empty() ? "nothing written" : "written to " + report.file);
  } else {
    fmt::print("{}\n", report.file.empty() ? "the defaults: no table for this processor" : "from " + report.file);
  }
}

}  // namespace isobit::cli
