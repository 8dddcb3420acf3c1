// isobit verify: executes a recorded run again and compares all that was recorded.
#include "cli/verify.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <sys/stat.h>
#include <unistd.h>

#include <chrono>
#include <memory>
#include <optional>
#include <utility>

#include "archive/printable.h"
#include "archive/run_export.h"
#include "archive/run_record.h"
#include "archive/runs.h"
#include "archive/user_error.h"
#include "cli/command.h"
#include "cli/named_run.h"
#include "cli/signature.h"
#include "cli/training_progress.h"
#include "cli/verdict_text.h"
#include "cli/verify_script.h"
#include "cli/verify_segments.h"
#include "kernels/threads.h"
#include "train/arithmetic.h"
#include "train/experiment.h"
#include "train/verification.h"

namespace isobit::cli {
namespace {

constexpr int kReports = 3;

void show(void* context, const train::StepReport& report, std::int64_t last) {
  auto& progress = *static_cast<std::unique_ptr<TrainingProgress>*>(context);
  if (!progress) progress = std::make_unique<TrainingProgress>(report.result.place.step - 1, last, 0);
  progress->step(report);
}

// To the process that called this one for a segment. A step's line is short enough to be written at once.
void report(void*, const train::StepReport& step, std::int64_t last) {
  static auto next = std::chrono::steady_clock::now();
  const auto now = std::chrono::steady_clock::now();
  if (now < next && step.result.place.step < last) return;
  next = now + std::chrono::milliseconds(200);
  struct stat status {};
  if (::fstat(kReports, &status) != 0 || !S_ISFIFO(status.st_mode)) return;  // called by hand
  const std::string line = fmt::format("step {}\n", step.result.place.step);
  [[maybe_unused]] const ssize_t ignored = ::write(kReports, line.data(), line.size());
}

// An exported file whose signature counts: the bytes that are signed are those that are unpacked, whoever writes the
// file meanwhile.
class SignedFile {
 public:
  explicit SignedFile(const VerifyOptions& options) {
    std::error_code error;
    if (!std::filesystem::is_regular_file(options.run, error)) {
      throw archive::UserError("--signers", "is only for exported files",
                               "name a file written by isobit export --sign");
    }
    copy_ = work_.path() / std::filesystem::path(options.run).filename();
    std::filesystem::copy_file(options.run, copy_, error);
    if (error) throw archive::UserError(options.run, "cannot be read: " + error.message(), "");
    signer_ = signer_of(options.run, copy_.string(), options.signers);
  }

  [[nodiscard]] std::string copy() const { return copy_.string(); }
  [[nodiscard]] const std::string& signer() const { return signer_; }

 private:
  archive::TemporaryFolder work_;
  std::filesystem::path copy_;
  std::string signer_;
};

// Of a record that holds code, executed in a child process.
void take(ScriptVerdict judged, Judgement& so_far) {
  so_far.verdict = std::move(judged.verdict);
  if (!judged.settings.empty()) so_far.settings = std::move(judged.settings);
  so_far.hint = std::move(judged.hint);
}

// A record of isobit run whose network is a file of code. Of another contract's, which is refused, nothing is read.
bool has_code(const archive::RunRecord& record) {
  const train::ArithmeticSettings arithmetic = train::arithmetic_of(record.contract());
  if (record.contract() != train::contract_of(arithmetic)) return false;
  const std::string place = (record.folder() / "experiment.toml").string();
  return !train::recorded_experiment(record.experiment(), place).model.torchscript.empty();
}

// What code has beside its weights no checkpoint need hold, so it is executed from the seed to the end.
void tell_one_process(const VerifyOptions& options, const std::string& folder) {
  if (options.workers <= 1) return;
  fmt::print(
      stderr,
      "isobit: {}: its network is code, whose state need not all be in its checkpoints: one process verifies it\n",
      archive::printable(folder));
}

// A stock run is repeated as it was recorded, where nothing else is asked for: a difference then says something of the
// machine. Its checkpoints prove nothing to the segment that starts from one.
void prepare_stock(const archive::RunRecord& record, const VerifyOptions& options, Judgement& so_far) {
  options.execution.expect_stock();
  options.execution.repeat_stock(record.environment());
  if (options.workers > 1) {
    throw archive::UserError("--workers", "a run of stock PyTorch is repeated by one process", "leave --workers out");
  }
  const int threads = kernels::thread_count();
  so_far.settings =
      fmt::format("{} thread{}, {}", threads, threads == 1 ? "" : "s", train::stock_environment().at("cpu_capability"));
}

// Fills `so_far` as it goes, so that an error leaves what was known.
void judge(const VerifyOptions& options, Judgement& so_far) {
  options.execution.apply();
  std::optional<SignedFile> is_signed;
  if (!options.signers.empty()) is_signed.emplace(options);
  const NamedRun named(options.run, options.runs, options.into, is_signed ? is_signed->copy() : "");
  const std::filesystem::path& folder = named.folder();
  so_far.folder = named.name();
  if (is_signed) so_far.signer = is_signed->signer();
  const archive::RunRecord record = archive::RunRecord::open(folder);
  if (!options.segment.empty() && options.segment != record.seal())
    throw archive::UserError(so_far.folder, "was changed while it was verified", "verify it once nobody writes it");
  so_far.recorded_weights = record.weights();
  if (record.steps().empty()) {
    throw archive::UserError(so_far.folder, "has no step, so there is nothing to prove", "verify a run that trains");
  }
  if (record.is_stock()) prepare_stock(record, options, so_far);
  if (record.is_script()) {
    return take(verify_script(record, options, so_far.folder, so_far.script_output), so_far);
  }
  if (!options.arguments.empty() || !options.repository.empty()) {
    throw archive::UserError(so_far.folder, "is a record of isobit run and has no script",
                             "leave out --repository and everything after --");
  }
  const bool code = (!options.trust || options.workers > 1) && has_code(record);
  if (code) tell_one_process(options, so_far.folder);
  if (code && !options.trust) return take(verify_network(record, options, so_far.folder, so_far.script_output), so_far);
  if (!options.read.empty() || !options.limits.empty()) {
    throw archive::UserError(so_far.folder, "runs without a sandbox", "leave out --read and --limit");
  }
  if (!code) so_far.verdict = verify_segments(record, options);
  if (so_far.verdict) {
    so_far.settings = fmt::format("{} segments side by side", so_far.verdict->segments);
    return;
  }
  train::VerifyRequest request;
  if (options.from != 0) request.from = options.from;
  if (options.to != 0) request.to = options.to;
  request.data_path = options.data;
  request.execution = options.execution.execution();

  const StopSignal stop;
  if (!options.segment.empty()) {
    so_far.verdict = train::verify(record, request, stop.flag(), report);
    return;
  }
  std::unique_ptr<TrainingProgress> progress;
  so_far.verdict = train::verify(record, request, stop.flag(), show, &progress);
}

}  // namespace

int verify(const VerifyOptions& options) {
  Judgement judgement;
  try {
    judge(options, judgement);
  } catch (const std::exception& error) {
    if (options.json) print_json_line(verdict_json(judgement, message_of(error)));
    throw;
  }
  // The files have the recorded digests; the name of their folder is then a word alone.
  if (!options.data.empty() && judgement.judged() && judgement.verdict)
    judgement.verdict->not_recomputed.emplace_back("data.path of the experiment (--data names the folder)");
  const std::string message = sentence(judgement);
  if (options.json) print_json_line(verdict_json(judgement, message));
  if (!judgement.judged()) {
    fmt::print(stderr, "isobit: {}\n", message);
    return kInterruptedExit;
  }
  if (!options.json) {
    fmt::print("{}\n", message);
    if (!judgement.verdict->difference)
      fmt::print("{}: {}\n", judgement.verdict->stock ? "not compared" : "not recomputed",
                 archive::printable(fmt::format("{}", fmt::join(not_recomputed(*judgement.verdict), ", "))));
  }
  if (judgement.verdict->difference) return kDifferentExit;
  return judgement.verdict->stock ? kStockEqualExit : 0;
}

namespace {

Action declare_verify(OptionSet& app) {
  auto options = std::make_shared<VerifyOptions>();
  app.add("run", options->run, "A run's folder, id, beginning of an id, last, or a file written by isobit export")
      .type("RUN")
      .required();
  app.add("--runs", options->runs, "The archive: a folder of runs (default: $ISOBIT_RUNS, else runs)").type("DIR");
  app.add("--into", options->into, "Unpack an exported file into this archive and keep it").type("DIR");
  app.add("--data", options->data, "Folder of the data files, if they moved").type("PATH");
  app.add("--from", options->from, "First step to compare (default: 1)").type("STEP").at_least(1);
  app.add("--to", options->to, "Last step to compare (default: the run's last)").type("STEP").at_least(1);
  app.add("--workers", options->workers,
          "Processes side by side, each from a recorded checkpoint to the next; --threads is of each (default: 1)")
      .type("N")
      .at_least(1);
  app.add("--segment", options->segment, "What --workers calls: one segment of the record with this seal").group("");
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

const CommandRegistration verify_command(
    {.name = "verify",
     .summary = "Execute a recorded run again and compare everything",
     .example = "isobit verify last --threads 1 --isa reference\n  isobit verify last --from 100 --to 120 --json\n  "
                "isobit verify last --workers 4\n  isobit verify run.tar --data data\n  isobit verify last "
                "--repository ~/project -- --epochs 2",
     .rank = 20,
     .declare = declare_verify});

}  // namespace
}  // namespace isobit::cli
