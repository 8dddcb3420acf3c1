// isobit diff: where two runs or two traces part.
#include <fmt/format.h>

#include <filesystem>
#include <memory>

#include "archive/named_run.h"
#include "archive/user_error.h"
#include "cli/command.h"
#include "study/diff.h"
#include "study/diff_text.h"
#include "study/trace_again.h"
#include "trace/trace_file.h"

namespace isobit::cli {
namespace {

struct DiffOptions {
  std::string a, b, runs;
  study::AgainOptions again;
  bool json = false, all = false, records_only = false;
};

study::Diff diff_of_runs(const DiffOptions& options) {
  const archive::NamedRun named_a(options.a, options.runs), named_b(options.b, options.runs);
  const study::ComparedRun a = study::read_run(named_a.folder(), named_a.name());
  const study::ComparedRun b = study::read_run(named_b.folder(), named_b.name());
  study::Diff diff = study::compare_runs(a, b);
  if (options.records_only) {
    if (diff.results == study::Results::differ) {
      diff.not_looked_into = "only the records were compared (--records-only)";
    }
  } else {
    study::find_operator(a, b, options.again, diff);
  }
  return diff;
}

study::Diff diff_of(const DiffOptions& options) {
  const bool trace_a = trace::looks_like_trace(options.a), trace_b = trace::looks_like_trace(options.b);
  if (trace_a && trace_b) return study::compare_traces(trace::read_trace(options.a), trace::read_trace(options.b));
  if (trace_a != trace_b) {
    throw archive::UserError(trace_a ? options.b : options.a, "is no trace, the other one is",
                             "compare two runs or two traces (isobit trace makes one of a run)");
  }
  return diff_of_runs(options);
}

int run_diff(const DiffOptions& options) {
  const study::Diff diff = diff_of(options);
  fmt::print("{}", options.json ? to_json(diff) + "\n" : study::diff_text(diff, options.all));
  return diff.results == study::Results::equal ? 0 : diff.results == study::Results::differ ? 1 : 2;
}

Action declare_diff(OptionSet& app) {
  auto options = std::make_shared<DiffOptions>();
  app.add("a", options->a, "A run's folder, id, beginning of an id, last, a file written by isobit export, or a trace")
      .type("A")
      .required();
  app.add("b", options->b, "Another one").type("B").required();
  app.add("--runs", options->runs, "The archive: a folder of runs (default: $ISOBIT_RUNS, else runs)").type("DIR");
  app.add("--data", options->again.data, "Folder of the data files, if they moved").type("PATH");
  app.flag("--records-only", options->records_only, "Execute nothing again: no operator is named");
  app.flag("--all", options->all, "List every difference of environment and hardware");
  app.flag("--json", options->json, "One JSON object on stdout (docs/cli.md)");
  app.flag("--quiet", options->again.quiet, "No progress on stderr");
  return [options] { return run_diff(*options); };
}

const CommandRegistration diff_command(
    {.name = "diff",
     .summary = "Compare two runs or traces: the first step and operator that differ",
     .example = "isobit diff 20261121-0458 last",
     .group = Group::prove,
     .rank = 42,
     .declare = declare_diff});

}  // namespace
}  // namespace isobit::cli
