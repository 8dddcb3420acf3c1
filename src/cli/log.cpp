// isobit log: the runs of an archive, newest first.
#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <memory>
#include <string_view>

#include "archive/files.h"
#include "archive/runs.h"
#include "archive/summary_text.h"
#include "archive/user_error.h"
#include "cli/command.h"

namespace isobit::cli {
namespace {

struct LogOptions {
  std::string runs;
  std::int64_t count = 0;
  bool json = false;
};

std::string last_test(const archive::RunSummary& run) {
  for (const archive::MetricsLine& line : run.metrics) {
    if (line.set == "test") return archive::metrics_text(line);
  }
  return run.metrics.empty() ? "-" : archive::metrics_text(run.metrics.front());
}

void print_table(const std::vector<archive::RunSummary>& runs) {
  std::size_t width = 2;
  for (const archive::RunSummary& run : runs) width = std::max(width, run.id.size());
  fmt::print("{:<{}}  {:<11}  {:<12}  {:>8}  {:<45}  {}\n", "id", width, "state", "arithmetic", "steps", "weights",
             "test");
  fmt::memory_buffer lines;
  const auto out = std::back_inserter(lines);
  for (const archive::RunSummary& run : runs) {
    fmt::format_to(out, "{:<{}}  {:<11}  {:<12}  {:>8}  {:<45}  {}\n", archive::printable(run.id), width,
                   archive::to_string(run.state), run.contract.empty() ? "-" : archive::printable(run.contract),
                   run.steps, run.weights.empty() ? "-" : archive::printable(run.weights), last_test(run));
    if (!run.note.empty()) fmt::format_to(out, "{:<{}}  {}\n", "", width, archive::printable(run.note));
  }
  fmt::print("{}", std::string_view(lines.data(), lines.size()));
}

int run_log(const LogOptions& options) {
  const std::filesystem::path folder = archive::runs_folder(options.runs);
  // The default one begins to be with the first run.
  if (!options.runs.empty() && !archive::is_there(folder)) {
    throw archive::UserError("--runs", fmt::format("there is no folder {}", folder.string()),
                             "name the archive, a folder of runs");
  }
  auto runs = archive::list_runs(folder);
  if (options.count > 0 && runs.size() > static_cast<std::size_t>(options.count)) runs.resize(options.count);
  if (options.json) {
    archive::Json list = archive::Json::array();
    for (const archive::RunSummary& summary : runs) list.push_back(archive::summary_json(summary));
    archive::print_json_line(list);
  } else if (runs.empty()) {
    fmt::print(stderr, "no runs in {}\n", folder.string());
  } else {
    print_table(runs);
  }
  return 0;
}

Action declare_log(OptionSet& app) {
  auto options = std::make_shared<LogOptions>();
  app.add("--runs", options->runs, "The archive: a folder of runs (default: $ISOBIT_RUNS, else runs)").type("DIR");
  app.add("-n,--count", options->count, "List at most N runs (0: all)").type("N").at_least(0);
  app.flag("--json", options->json, "An array of objects: id, name, state, steps, weights, metrics, ...");
  return [options] { return run_log(*options); };
}

const CommandRegistration log_command({.name = "log",
                                       .summary = "List the runs of an archive, newest first",
                                       .example = "isobit log --json --count 1",
                                       .group = Group::see,
                                       .rank = 30,
                                       .declare = declare_log});

}  // namespace
}  // namespace isobit::cli
