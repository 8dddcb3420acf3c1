// isobit verify: executes a recorded run again and compares all that was recorded.
#include "proof/verify.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <sys/stat.h>
#include <unistd.h>

#include <chrono>
#include <memory>
#include <optional>
#include <utility>

#include "archive/error_message.h"
#include "archive/named_run.h"
#include "archive/printable.h"
#include "archive/run_export.h"
#include "archive/run_record.h"
#include "archive/runs.h"
#include "archive/user_error.h"
#include "kernels/threads.h"
#include "process/stop_signal.h"
#include "proof/judge_parts.h"
#include "proof/signature.h"
#include "proof/verdict_text.h"
#include "proof/verify_script.h"
#include "proof/verify_segments.h"
#include "train/arithmetic.h"
#include "train/experiment.h"
#include "train/training_progress.h"
#include "train/verification.h"

namespace isobit::proof {
namespace {

constexpr int kReports = 3;

void show(void* context, const train::StepReport& report, std::int64_t last) {
  auto& progress = *static_cast<std::unique_ptr<train::TrainingProgress>*>(context);
  if (!progress) progress = std::make_unique<train::TrainingProgress>(report.result.place.step - 1, last, 0);
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

// Fills `so_far` as it goes, so that an error leaves what was known. `record` is that of so_far.folder.
void execute_again(const archive::RunRecord& record, const VerifyOptions& options, Judgement& so_far) {
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

  const process::StopSignal stop;
  if (!options.segment.empty()) {
    so_far.verdict = train::verify(record, request, stop.flag(), report);
    return;
  }
  std::unique_ptr<train::TrainingProgress> progress;
  so_far.verdict = train::verify(record, request, stop.flag(), show, &progress);
}

// The same, with the record found and opened, and the parts of components judged.
void judge(const VerifyOptions& options, Judgement& so_far) {
  options.execution.apply();
  std::optional<SignedFile> is_signed;
  if (!options.signers.empty()) is_signed.emplace(options);
  const archive::NamedRun named(options.run, options.runs, options.into, is_signed ? is_signed->copy() : "");
  so_far.folder = named.name();
  if (is_signed) so_far.signer = is_signed->signer();
  const archive::RunRecord record = archive::RunRecord::open(named.folder());
  if (!options.segment.empty() && options.segment != record.seal())
    throw archive::UserError(so_far.folder, "was changed while it was verified", "verify it once nobody writes it");
  so_far.recorded_weights = record.weights();
  if (record.steps().empty()) {
    throw archive::UserError(so_far.folder, "has no step, so there is nothing to prove", "verify a run that trains");
  }
  expect_known_parts(record);
  execute_again(record, options, so_far);
  if (options.segment.empty() && so_far.verdict) judge_parts(record, *so_far.verdict);
}

}  // namespace

int verify(const VerifyOptions& options) {
  Judgement judgement;
  try {
    judge(options, judgement);
  } catch (const std::exception& error) {
    if (options.json) archive::print_json_line(verdict_json(judgement, archive::message_of(error)));
    throw;
  }
  // The files have the recorded digests; the name of their folder is then a word alone.
  if (!options.data.empty() && judgement.judged() && judgement.verdict)
    judgement.verdict->not_recomputed.emplace_back("data.path of the experiment (--data names the folder)");
  const std::string message = sentence(judgement);
  if (options.json) archive::print_json_line(verdict_json(judgement, message));
  if (!judgement.judged()) {
    fmt::print(stderr, "isobit: {}\n", message);
    return process::kInterruptedExit;
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

}  // namespace isobit::proof
