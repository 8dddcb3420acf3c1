// isobit watch: the page of runs, live while they go on, on this machine alone.
#include <fmt/format.h>

#include <cstdio>
#include <memory>

#include "archive/runs.h"
#include "archive/user_error.h"
#include "cli/command.h"
#include "report/live_page.h"
#include "report/live_server.h"

namespace isobit::cli {
namespace {

struct WatchOptions {
  std::vector<std::string> what;
  std::string runs;
  std::int64_t port = 0;
};

int run_watch(const WatchOptions& options) {
  if (options.port > 65535) throw archive::UserError("--port", "is above 65535", "name another port, or none");
  const std::filesystem::path archive_folder = archive::runs_folder(options.runs);
  std::vector<std::filesystem::path> folders;
  for (const std::string& word : options.what) folders.push_back(archive::find_run(archive_folder, word));
  report::LivePage page(archive_folder, folders);
  const report::LiveSource source{[&] { return page.html(); }, [&](std::int64_t since) { return page.changes(since); }};
  report::serve(source, static_cast<int>(options.port), [](const std::string& url) {
    fmt::print("{}\n", url);
    std::fflush(stdout);
    fmt::print(stderr,
               "open this address in a browser on this machine; who has it can read the runs. Ctrl-C ends it\n");
  });
  return 0;
}

Action declare_watch(OptionSet& app) {
  auto options = std::make_shared<WatchOptions>();
  app.add("runs", options->what,
          "Runs: a folder, id, beginning of an id, or last (default: the newest 40 of the archive)")
      .type("RUN");
  app.add("--runs", options->runs, "The archive: a folder of runs (default: $ISOBIT_RUNS, else runs)").type("DIR");
  app.add("--port", options->port, "The port on 127.0.0.1 (default: one that is free)").type("N").at_least(1);
  return [options] { return run_watch(*options); };
}

const CommandRegistration watch_command({.name = "watch",
                                         .summary = "Show runs in a browser on this machine while they go on",
                                         .example = "isobit watch last",
                                         .group = Group::see,
                                         .rank = 49,
                                         .declare = declare_watch});

}  // namespace
}  // namespace isobit::cli
