#include "report/export_run.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <memory>

#include "archive/files.h"
#include "archive/out_option.h"
#include "archive/printable.h"
#include "archive/run_export.h"
#include "archive/runs.h"
#include "archive/summary_text.h"
#include "archive/user_error.h"
#include "proof/signature.h"
#include "report/export_formats.h"

namespace isobit::report {
namespace {

using archive::plural;
using archive::UserError;

void show_patch(const archive::ExportPlan& plan, bool whole) {
  if (whole) fmt::print(stderr, "{}\n", archive::printable_lines(plan.texts.at(archive::kPatchFile)));
  fmt::print(stderr, "uncommitted changes that the export will contain ({}):\n", archive::kPatchFile);
  for (const archive::PatchedFile& file : plan.patch) {
    if (file.binary) {
      fmt::print(stderr, "  {}: binary\n", archive::printable(file.path));
    } else {
      fmt::print(stderr, "  {}: +{} -{}\n", archive::printable(file.path), file.added, file.removed);
    }
  }
  if (plan.patch.empty())
    fmt::print(stderr, "  {}\n", archive::printable_lines(plan.texts.at(archive::kPatchFile).substr(0, 200)));
}

// Whether the uncommitted changes may go out.
bool confirmed(const archive::ExportPlan& plan, const ExportOptions& options) {
  if (!plan.texts.contains(archive::kPatchFile)) return true;
  const bool person = isatty(STDIN_FILENO) != 0 && isatty(STDERR_FILENO) != 0;
  show_patch(plan, person && !options.yes);
  if (options.yes) return true;
  if (!person) {
    throw UserError(plan.run, "has uncommitted changes, and no terminal is there to ask whether to export them",
                    fmt::format("read {}, then call isobit export again with --yes", archive::kPatchFile));
  }
  fmt::print(stderr, "export them? [y/N] ");
  std::fflush(stderr);
  const int answer = std::getchar();
  return answer == 'y' || answer == 'Y';
}

void tell(const archive::ExportPlan& plan) {
  std::uint64_t bytes = 0;
  for (const auto& [path, file] : plan.left_out) bytes += file.size;
  if (!plan.left_out.empty())
    fmt::print(stderr, "left out: {}, {} bytes (--with-weights includes them)\n",
               plural(plan.left_out.size(), "checkpoint"), bytes);
  for (const auto& [path, changes] : plan.changed) {
    fmt::print(stderr, "changed: {}: {}\n", path, fmt::join(changes, ", "));
  }
}

void print_json(const archive::ExportPlan& plan, const std::string& file, const archive::FileDigest& written,
                const std::string& signature) {
  archive::Json object{
      {"run", plan.run}, {"file", nullptr}, {"size", nullptr}, {"sha256", nullptr}, {"signature", nullptr}};
  if (!written.sha256.empty()) object["file"] = file, object["size"] = written.size, object["sha256"] = written.sha256;
  if (!signature.empty()) object["signature"] = signature;
  for (const char* list : {"left_out", "changed", "patch", "findings"}) object[list] = archive::Json::array();
  for (const auto& [path, digest] : plan.left_out) object["left_out"].push_back(path);
  for (const auto& [path, changes] : plan.changed) object["changed"].push_back({{"path", path}, {"changes", changes}});
  for (const archive::PatchedFile& patched : plan.patch)
    object["patch"].push_back(
        {{"path", patched.path}, {"added", patched.added}, {"removed", patched.removed}, {"binary", patched.binary}});
  for (const archive::Finding& finding : plan.findings)
    object["findings"].push_back({{"place", finding.place}, {"what", finding.what}});
  archive::print_json_line(object);
}

[[noreturn]] void refuse(const archive::ExportPlan& plan, const ExportOptions& options) {
  if (options.json) print_json(plan, "", {}, "");
  for (const archive::Finding& finding : plan.findings)
    fmt::print(stderr, "{}: looks like {}\n", archive::printable(finding.place), archive::printable(finding.what));
  const auto keys = std::count_if(plan.findings.begin(), plan.findings.end(), [](const auto& f) { return f.always; });
  if (keys > 0) {
    throw UserError(plan.run, plural(static_cast<std::size_t>(keys), "private key") + "; nothing written",
                    "no option lets a private key pass: take it out of the program, and record the run again");
  }
  throw UserError(plan.run, plural(plan.findings.size(), "possible secret") + "; nothing written",
                  "--redact removes them; --allow TEXT accepts lines that contain TEXT");
}

// For another tool: a folder in its format.
int write_folder(const archive::ExportPlan& plan, const archive::RunRecord& record, const ExportOptions& options) {
  const std::string& named = options.folder.empty() ? options.out : options.folder;
  const std::string folder = named.empty() ? plan.run + "-" + options.to : named;
  if (options.to == "csv") report::write_csv(plan, folder);
  if (options.to == "mlflow") report::write_mlflow(plan, record, folder);
  if (options.to == "ro-crate") report::write_ro_crate(plan, record, folder);
  if (options.to == "ro-crate") tell(plan);
  if (options.json) {
    archive::Json object{{"run", plan.run}, {"folder", folder}, {"to", options.to}};
    if (options.to == "mlflow") object["mlflow_run"] = report::mlflow_run_id(plan.run);
    archive::print_json_line(object);
  } else {
    fmt::print("{}: {}\n", archive::printable(folder), options.to);
  }
  return 0;
}

void require_sound(const ExportOptions& options) {
  if (options.to == "tar" && !options.folder.empty())
    throw UserError(options.folder, "a second argument is the folder of --to", "name the file with --out");
  if (options.to != "tar" && !options.folder.empty() && !options.out.empty())
    throw UserError("--out", "names a second folder", "leave one of the two out");
  if (options.to != "tar" && !options.sign.empty())
    throw UserError("--sign", "signs a file, and --to writes a folder", "sign what isobit export writes without --to");
  if (!options.sign.empty()) proof::require_can_sign(options.sign);
}

}  // namespace

int run_export(const ExportOptions& options) {
  require_sound(options);
  const auto folder = archive::find_run(archive::runs_folder(options.runs), options.run);
  const archive::RunRecord record = archive::RunRecord::open(folder);
  const char* home = std::getenv("HOME");
  const archive::SecretScan scan(options.allow, archive::environment_variables(), home == nullptr ? "" : home);
  const archive::ExportPlan plan = archive::plan_export(record, {options.with_weights, options.redact}, scan);
  if (!plan.findings.empty()) refuse(plan, options);
  const bool with_changes = options.to == "tar" || options.to == "ro-crate";  // tables hold no program
  if (with_changes && !confirmed(plan, options)) {
    fmt::print(stderr, "isobit: nothing written\n");
    return 2;
  }
  if (options.to != "tar") return archive::writing_out([&] { return write_folder(plan, record, options); });
  const std::string file = options.out.empty() ? plan.run + ".tar" : options.out;
  const archive::FileDigest written = archive::write_export(plan, file);
  const std::string signature = options.sign.empty() ? "" : proof::sign_file(file, options.sign);
  tell(plan);
  if (options.json) {
    print_json(plan, file, written, signature);
  } else {
    fmt::print("{}: {}, {} bytes, sha256 {}\n", file, plural(plan.texts.size() + plan.files.size() + 1, "file"),
               written.size, written.sha256);
    if (!signature.empty()) fmt::print("{}: signature\n", signature);
  }
  return 0;
}

}  // namespace isobit::report
