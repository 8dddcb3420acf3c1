// isobit report: runs, a study or a comparison as one page that works offline.
#include <memory>

#include "archive/user_error.h"
#include "cli/command.h"
#include "report/write_report.h"

namespace isobit::cli {
namespace {

Action declare_report(OptionSet& app) {
  auto options = std::make_shared<report::ReportOptions>();
  app.add("runs", options->what,
          "Runs (folder, id, beginning of an id, or last), folders of runs, or one study's folder (default: all of "
          "--runs)")
      .type("RUN");
  app.add("-o,--out", options->out, "The page to write; - for stdout (default: <id>.html, of several report.html)")
      .type("FILE");
  app.add("--runs", options->runs, "The archive: a folder of runs (default: $ISOBIT_RUNS, else runs)").type("DIR");
  app.add("--diff", options->diff,
          "What `isobit diff A B --json` printed (of two runs, else their records are compared)")
      .type("FILE");
  app.add("--drift", options->drift, "What `isobit drift RUN RUN --json` printed (of two runs, else measured)")
      .type("FILE");
  app.add("--targets", options->targets,
          "True classes, one per line, for confusion matrices (default: from the runs' data, where it is here)")
      .type("FILE");
  app.add("--title", options->title, "The page's title").type("TEXT");
  app.flag("--redact", options->redact, "Write '(left out)' where something looks like a secret");
  app.add("--allow", options->allow, "Accept lines that contain TEXT: they hold no secret (repeatable)")
      .type("TEXT")
      .repeatable();
  app.flag("--json", options->json, "One JSON object on stdout: file, size, sha256, runs");
  return [options] { return report::run_report(*options); };
}

const CommandRegistration report_command(
    {.name = "report",
     .summary = "Write runs, a study or a comparison as one page that works offline",
     .example = "isobit report last --out run.html\n  isobit report RUN RUN --diff diff.json --out comparison.html",
     .group = Group::see,
     .rank = 48,
     .declare = declare_report});

}  // namespace
}  // namespace isobit::cli
