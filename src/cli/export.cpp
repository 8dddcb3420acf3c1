// isobit export: a finished run as one file that a stranger can verify.
#include <memory>

#include "archive/user_error.h"
#include "cli/command.h"
#include "report/export_run.h"

namespace isobit::cli {
namespace {

Action declare_export(OptionSet& app) {
  auto options = std::make_shared<report::ExportOptions>();
  app.add("run", options->run, "A finished run's folder, id, beginning of an id, or last").type("RUN").required();
  app.add("folder", options->folder, "With --to: the folder to write (default: <id>-<format> here)").type("DIR");
  app.add("-o,--out", options->out, "The file to write (default: <id>.tar here); with --to the folder").type("FILE");
  app.add("--to", options->to,
          "For other tools: csv, mlflow or ro-crate, a folder each (default: tar, which isobit verifies)")
      .type("FORMAT")
      .checked([](const std::string& word) {
        if (word != "tar" && word != "csv" && word != "mlflow" && word != "ro-crate")
          throw archive::UserError("", fmt::format("'{}' is no format", word), "tar, csv, mlflow, ro-crate");
      });
  app.add("--runs", options->runs, "The archive: a folder of runs (default: $ISOBIT_RUNS, else runs)").type("DIR");
  app.flag("--with-weights", options->with_weights, "Include the checkpoints");
  app.flag("--redact", options->redact, "Write '(left out)' where something looks like a secret");
  app.add("--allow", options->allow, "Accept lines that contain TEXT: they hold no secret (repeatable)")
      .type("TEXT")
      .repeatable();
  app.add("--sign", options->sign, "Sign the file with this OpenSSH key: who vouches for it (writes FILE.sig)")
      .type("KEY");
  app.flag("--yes", options->yes, "Export uncommitted changes without asking");
  app.flag("--json", options->json, "One JSON object on stdout (docs/formats/export.md)");
  return [options] { return report::run_export(*options); };
}

const CommandRegistration export_command(
    {.name = "export",
     .summary = "Write a finished run to one file that anyone can verify",
     .example = "isobit export last --out run.tar --sign ~/.ssh/id_ed25519\n  isobit verify run.tar --signers signers\n"
                "  isobit export last --to mlflow mlruns",
     .group = Group::prove,
     .rank = 25,
     .declare = declare_export});

}  // namespace
}  // namespace isobit::cli
