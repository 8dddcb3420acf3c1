// isobit verify: executes a recorded run again and compares all that was recorded.
#include "cli/verify.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <memory>
#include <optional>
#include <utility>

#include "archive/printable.h"
#include "archive/run_export.h"
#include "archive/run_record.h"
#include "archive/runs.h"
#include "archive/user_error.h"
#include "aten/operator_switch.h"
#include "cli/command.h"
#include "cli/signature.h"
#include "cli/summary_text.h"
#include "cli/training_progress.h"
#include "cli/verify_script.h"
#include "contract/platform.h"
#include "train/experiment.h"
#include "train/verification.h"

namespace isobit::cli {
namespace {

void show(void* context, const train::StepReport& report, std::int64_t last) {
  auto& progress = *static_cast<std::unique_ptr<TrainingProgress>*>(context);
  if (!progress) progress = std::make_unique<TrainingProgress>(report.result.place.step - 1, last, 0);
  progress->step(report);
}

// What is known when a verification ends, in whatever way.
struct Judgement {
  std::string folder;                     // "" until the run is found
  std::string recorded_weights;           // "" until the record is read
  std::string signer;                     // who signed the exported file; "" where nobody was asked for
  std::string settings;                   // of a Python program: how it was executed again
  std::string hint;                       // why it differs
  std::string script_output;              // what code from the record printed, escaped
  std::optional<train::Verdict> verdict;  // nothing: an error came first
};

// A run's folder: that of the archive, or one unpacked from an exported file.
std::filesystem::path find_or_unpack(const VerifyOptions& options,
                                     std::unique_ptr<archive::TemporaryFolder>& temporary) {
  std::error_code ignored;
  if (!std::filesystem::is_regular_file(options.run, ignored)) {
    if (!options.into.empty())
      throw archive::UserError("--into", "is only for exported files", "name a file written by isobit export");
    return archive::find_run(archive::runs_folder(options.runs), options.run);
  }
  if (!options.into.empty()) return archive::import_run(options.run, options.into);
  temporary = std::make_unique<archive::TemporaryFolder>();
  return archive::import_run(options.run, temporary->path());
}

std::string signer(const VerifyOptions& options) {
  std::error_code ignored;
  if (std::filesystem::is_regular_file(options.run, ignored)) return signer_of(options.run, options.signers);
  throw archive::UserError("--signers", "is only for exported files", "name a file written by isobit export --sign");
}

// Of a record that holds code, executed in a child process.
void take(ScriptVerdict judged, Judgement& so_far) {
  so_far.verdict = std::move(judged.verdict);
  so_far.settings = std::move(judged.settings);
  so_far.hint = std::move(judged.hint);
}

// A record of isobit run whose network is a file of code. Of another contract's, which is refused, nothing is read.
bool has_code(const archive::RunRecord& record) {
  if (record.contract() != contract::kContractVersion) return false;
  const std::string place = (record.folder() / "experiment.toml").string();
  return !train::parse_experiment(record.experiment(), place).model.torchscript.empty();
}

// Fills `so_far` as it goes, so that an error leaves what was known.
void judge(const VerifyOptions& options, Judgement& so_far) {
  options.execution.apply();
  std::unique_ptr<archive::TemporaryFolder> temporary;
  const auto folder = find_or_unpack(options, temporary);
  so_far.folder = temporary ? options.run : folder.string();
  if (!options.signers.empty()) so_far.signer = signer(options);
  const archive::RunRecord record = archive::RunRecord::open(folder);
  so_far.recorded_weights = record.weights();
  if (record.steps().empty()) {
    throw archive::UserError(so_far.folder, "has no step, so there is nothing to prove", "verify a run that trains");
  }
  if (record.is_script()) {
    return take(verify_script(record, options, so_far.folder, so_far.script_output), so_far);
  }
  if (!options.arguments.empty() || !options.repository.empty()) {
    throw archive::UserError(so_far.folder, "is a record of isobit run and has no script",
                             "leave out --repository and everything after --");
  }
  if (!options.trust && has_code(record))
    return take(verify_network(record, options, so_far.folder, so_far.script_output), so_far);
  if (!options.read.empty() || !options.limits.empty()) {
    throw archive::UserError(so_far.folder, "runs without a sandbox", "leave out --read and --limit");
  }
  train::VerifyRequest request;
  if (options.from != 0) request.from = options.from;
  if (options.to != 0) request.to = options.to;
  request.data_path = options.data;
  request.execution = options.execution.execution();

  const aten::OperatorSwitch on;
  const StopSignal stop;
  std::unique_ptr<TrainingProgress> progress;
  so_far.verdict = train::verify(record, request, stop.flag(), show, &progress);
}

// One line for people. Where nothing can be said it belongs on stderr.
std::string sentence(const Judgement& judgement) {
  const train::Verdict& verdict = *judgement.verdict;
  if (verdict.interrupted) return fmt::format("interrupted; no verdict on {}", judgement.folder);
  if (verdict.difference) {
    const train::Difference& d = *verdict.difference;
    return archive::printable(fmt::format("different at step {}: {} recorded {}, recomputed {}{}{}", d.step, d.what,
                                          d.recorded, d.recomputed, judgement.hint.empty() ? "" : "; ",
                                          judgement.hint));
  }
  std::string settings = judgement.settings.empty() ? "" : fmt::format(" ({})", judgement.settings);
  if (!judgement.signer.empty()) settings += archive::printable("; signed by " + judgement.signer);
  std::string but;
  for (const archive::OutsideLine& stretch : verdict.outside) but += ", but " + archive::describe(stretch);
  but = archive::printable(but);
  if (verdict.whole) {
    return fmt::format("identical{}: {} steps, weights {}, sha256 {}{}", but, verdict.last, verdict.weights,
                       verdict.weights_sha256, settings);
  }
  const std::string start =
      verdict.start == 0 ? "" : fmt::format(", from the recorded checkpoint of step {}", verdict.start);
  return fmt::format("identical in steps {}..{}{}{}{}", verdict.first, verdict.last, start, but, settings);
}

// Of what nothing was compared with: whoever recorded the run may have written there what he liked.
std::vector<std::string> not_recomputed(const train::Verdict& verdict) {
  std::vector<std::string> parts = {"id and date of the run", "times", "machine"};
  if (!verdict.whole) parts.push_back(fmt::format("all other steps than {}..{}", verdict.first, verdict.last));
  if (verdict.start != 0) parts.push_back(fmt::format("the checkpoint of step {}", verdict.start));
  parts.insert(parts.end(), verdict.not_recomputed.begin(), verdict.not_recomputed.end());
  return parts;
}

bool judged(const Judgement& judgement) { return judgement.verdict && !judgement.verdict->interrupted; }

// docs/cli.md describes it; every key is always there.
void print_json(const Judgement& judgement, const std::string& message) {
  const auto text = [](const std::string& value) { return value.empty() ? Json(nullptr) : Json(value); };
  Json object{{"verdict", "cannot-judge"},
              {"path", text(judgement.folder)},
              {"from", nullptr},
              {"to", nullptr},
              {"whole", nullptr},
              {"weights", nullptr},
              {"recorded_weights", text(judgement.recorded_weights)},
              {"signer", text(judgement.signer)},
              {"weights_sha256", nullptr},
              {"start", nullptr},
              {"outside", nullptr},
              {"not_recomputed", nullptr},
              {"difference", nullptr},
              {"message", message},
              {"script_output", text(judgement.script_output)}};
  if (judged(judgement)) {
    const train::Verdict& verdict = *judgement.verdict;
    object["verdict"] = verdict.difference ? "different" : "identical";
    object["from"] = verdict.first;
    object["to"] = verdict.last;
    object["whole"] = verdict.whole;
    object["weights"] = text(verdict.weights);
    object["weights_sha256"] = text(verdict.weights_sha256);
    object["start"] = verdict.start;
    object["outside"] = Json::array();
    for (const archive::OutsideLine& line : verdict.outside) {
      object["outside"].push_back(
          {{"after", line.after}, {"until", line.until}, {"place", line.place}, {"call", line.call}});
    }
    object["not_recomputed"] = not_recomputed(verdict);
    if (const auto& d = verdict.difference) {
      object["difference"] = {
          {"step", d->step}, {"what", d->what}, {"recorded", d->recorded}, {"recomputed", d->recomputed}};
    }
  }
  print_json_line(object);
}

}  // namespace

int verify(const VerifyOptions& options) {
  Judgement judgement;
  try {
    judge(options, judgement);
  } catch (const std::exception& error) {
    if (options.json) print_json(judgement, message_of(error));
    throw;
  }
  const std::string message = sentence(judgement);
  if (options.json) print_json(judgement, message);
  if (!judged(judgement)) {
    fmt::print(stderr, "isobit: {}\n", message);
    return kInterruptedExit;
  }
  if (!options.json) {
    fmt::print("{}\n", message);
    if (!judgement.verdict->difference)
      fmt::print("not recomputed: {}\n",
                 archive::printable(fmt::format("{}", fmt::join(not_recomputed(*judgement.verdict), ", "))));
  }
  return judgement.verdict->difference ? 1 : 0;
}

namespace {

Action declare(OptionSet& app) {
  auto options = std::make_shared<VerifyOptions>();
  app.add("run", options->run, "A run's folder, id, beginning of an id, last, or a file written by isobit export")
      .type("RUN")
      .required();
  app.add("--runs", options->runs, "The archive: a folder of runs (default: $ISOBIT_RUNS, else runs)").type("DIR");
  app.add("--into", options->into, "Unpack an exported file into this archive and keep it").type("DIR");
  app.add("--data", options->data, "Folder of the data files, if they moved").type("PATH");
  app.add("--from", options->from, "First step to compare (default: 1)").type("STEP").at_least(1);
  app.add("--to", options->to, "Last step to compare (default: the run's last)").type("STEP").at_least(1);
  app.add("--repository", options->repository,
          "For a Python program: the folder of its repository and data (default: here)")
      .type("DIR");
  app.add("--signers", options->signers, "Who may have signed the exported file (OpenSSH's allowed_signers)")
      .type("FILE");
  app.flag("--trust", options->trust, "Run code from the record without a sandbox, with all your rights");
  app.add("--read", options->read, "A file or folder that code from the record may read (repeatable)")
      .type("PATH")
      .repeatable();
  app.add("--limit", options->limits, "Of that code: memory=8G, disk=20G, time=2h or processes=500 (repeatable)")
      .type("NAME=N")
      .repeatable();
  app.flag("--json", options->json, "One JSON object on stdout: verdict, steps, weights, difference (docs/cli.md)");
  options->execution.declare(app);
  app.after_dashes(options->arguments, "arguments for a Python program's script instead of the recorded ones");
  return [options] { return verify(*options); };
}

const CommandRegistration registration(
    {.name = "verify",
     .summary = "Execute a recorded run again and compare everything",
     .example = "isobit verify last --threads 1 --isa reference\n  isobit verify last --from 100 --to 120 --json\n  "
                "isobit verify run.tar --data data\n  isobit verify last --repository ~/project -- --epochs 2",
     .rank = 20,
     .declare = declare});

}  // namespace
}  // namespace isobit::cli
