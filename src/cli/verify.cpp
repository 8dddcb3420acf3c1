// isobit verify: executes a recorded run again and compares all that was recorded.
#include <fmt/format.h>

#include <memory>
#include <optional>

#include "archive/run_export.h"
#include "archive/run_record.h"
#include "archive/runs.h"
#include "archive/user_error.h"
#include "aten/operator_switch.h"
#include "cli/command.h"
#include "cli/execution_options.h"
#include "cli/summary_text.h"
#include "cli/training_progress.h"
#include "cli/usage.h"
#include "cli/verify_script.h"
#include "train/verification.h"

namespace isobit::cli {
namespace {

struct VerifyOptions {
  std::string run, runs, data, into;
  std::int64_t from = 0, to = 0;  // 0: not given
  bool json = false;
  ExecutionOptions execution;
};

void show(void* context, const train::StepReport& report, std::int64_t last) {
  auto& progress = *static_cast<std::unique_ptr<TrainingProgress>*>(context);
  if (!progress) progress = std::make_unique<TrainingProgress>(report.result.place.step - 1, last, 0);
  progress->step(report);
}

// What is known when a verification ends, in whatever way.
struct Judgement {
  std::string folder;                    // "" until the run is found
  std::string recorded_weights;          // "" until the record is read
  std::optional<train::Verdict> verdict;  // nothing: an error came first
};

// A Python program's record is the Python package's to judge, with the options that it knows.
void hand_over(const VerifyOptions& options, const std::filesystem::path& place) {
  if (options.from != 0 || options.to != 0 || !options.data.empty() || options.execution.device != "cpu") {
    throw archive::UserError(place.string(), "is a Python program's record, which is verified as a whole and on the CPU",
                             "leave out --from, --to, --data and --device");
  }
  std::vector<std::string> words;
  if (options.execution.threads > 0) words.insert(words.end(), {"--threads", std::to_string(options.execution.threads)});
  if (options.execution.isa != "auto") words.insert(words.end(), {"--isa", options.execution.isa});
  if (options.json) words.emplace_back("--json");
  verify_script(place, words);
}

// A run's folder: that of the archive, or one unpacked from an exported file.
std::filesystem::path find_or_unpack(const VerifyOptions& options, std::unique_ptr<archive::TemporaryFolder>& temporary) {
  std::error_code ignored;
  if (!std::filesystem::is_regular_file(options.run, ignored)) {
    if (!options.into.empty()) throw archive::UserError("--into", "is for exported files", "name a file made by isobit export");
    return archive::find_run(archive::runs_folder(options.runs), options.run);
  }
  if (!options.into.empty()) return archive::import_run(options.run, options.into);
  temporary = std::make_unique<archive::TemporaryFolder>();
  return archive::import_run(options.run, temporary->path());
}

// Fills `so_far` as it goes, so that an error leaves what was known.
void judge(const VerifyOptions& options, Judgement& so_far) {
  options.execution.apply();
  std::unique_ptr<archive::TemporaryFolder> temporary;
  const auto folder = find_or_unpack(options, temporary);
  so_far.folder = temporary ? options.run : folder.string();
  const archive::RunRecord record = archive::RunRecord::open(folder);
  so_far.recorded_weights = record.weights();
  if (is_script(record.experiment())) {
    // The package unpacks the file itself; nothing is cleaned up once it has taken this process's place.
    const std::filesystem::path place = temporary ? std::filesystem::path(options.run) : folder;
    temporary.reset();
    hand_over(options, place);
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
  if (verdict.interrupted) return fmt::format("interrupted; nothing can be said of {}", judgement.folder);
  if (verdict.difference) {
    const train::Difference& d = *verdict.difference;
    return fmt::format("different at step {}: {} recorded {}, recomputed {}", d.step, d.what, d.recorded, d.recomputed);
  }
  if (verdict.whole) return fmt::format("identical: {} steps, weights {}", verdict.last, verdict.weights);
  return fmt::format("identical in steps {}..{}", verdict.first, verdict.last);
}

bool judged(const Judgement& judgement) { return judgement.verdict && !judgement.verdict->interrupted; }

// docs/cli.md describes it; every key is always there.
void print_json(const Judgement& judgement, const std::string& message) {
  const auto text = [](const std::string& value) { return value.empty() ? Json(nullptr) : Json(value); };
  Json object{{"verdict", "cannot-judge"}, {"path", text(judgement.folder)}, {"from", nullptr},       {"to", nullptr},
              {"whole", nullptr},          {"weights", nullptr},             {"recorded_weights", text(judgement.recorded_weights)},
              {"difference", nullptr},     {"message", message}};
  if (judged(judgement)) {
    const train::Verdict& verdict = *judgement.verdict;
    object["verdict"] = verdict.difference ? "different" : "identical";
    object["from"] = verdict.first;
    object["to"] = verdict.last;
    object["whole"] = verdict.whole;
    object["weights"] = text(verdict.weights);
    if (const auto& d = verdict.difference) {
      object["difference"] = {{"step", d->step}, {"what", d->what}, {"recorded", d->recorded}, {"recomputed", d->recomputed}};
    }
  }
  fmt::print("{}\n", object.dump(2, ' ', false, Json::error_handler_t::replace));
}

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
  if (!options.json) fmt::print("{}\n", message);
  return judgement.verdict->difference ? 1 : 0;
}

Action declare(CLI::App& app) {
  auto options = std::make_shared<VerifyOptions>();
  app.add_option("run", options->run, "A run's folder, id, beginning of an id, last, or a file made by isobit export")->type_name("RUN")->required();
  app.add_option("--runs", options->runs, "The archive: a folder of runs (default: $ISOBIT_RUNS, else runs)")->type_name("DIR");
  app.add_option("--into", options->into, "Unpack an exported file into this archive and keep it")->type_name("DIR");
  app.add_option("--data", options->data, "Folder of the data files, where they moved")->type_name("PATH");
  app.add_option("--from", options->from, "First step to compare (default: 1)")->type_name("STEP")->check(whole_number_from(1));
  app.add_option("--to", options->to, "Last step to compare (default: the run's last)")->type_name("STEP")->check(whole_number_from(1));
  app.add_flag("--json", options->json, "One JSON object on stdout: verdict, steps, weights, difference (docs/cli.md)");
  options->execution.declare(app);
  return [options] { return verify(*options); };
}

const CommandRegistration registration({.name = "verify",
                                        .summary = "Execute a recorded run again and compare everything",
                                        .example = "isobit verify last --threads 1 --isa reference\n  isobit verify last --from 100 --to 120 --json\n  isobit verify run.tar --data data",
                                        .rank = 20,
                                        .declare = declare});

}  // namespace
}  // namespace isobit::cli
