#include "proof/traced_run.h"

#include <fmt/format.h>

#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>

#include "archive/files.h"
#include "archive/named_run.h"
#include "archive/printable.h"
#include "archive/run_record.h"
#include "archive/user_error.h"
#include "process/stop_signal.h"
#include "process/terminal_line.h"
#include "proof/verify_script.h"
#include "trace/trace_environment.h"
#include "trace/trace_file.h"
#include "train/arithmetic.h"
#include "train/execution_options.h"
#include "train/experiment.h"
#include "train/tracing.h"

namespace isobit::proof {
namespace {

using archive::UserError;

trace::Window window_of(const std::string& text) {
  if (const auto window = trace::parse_window(text)) return *window;
  throw UserError("--steps " + text, "no window of steps", "use FIRST:COUNT, as in --steps 100:3");
}

// What the run asks for; its arithmetic is one that this program has.
train::Experiment experiment_of(const archive::RunRecord& record, const std::string& name) {
  train::Experiment experiment =
      train::recorded_experiment(record.experiment(), (record.folder() / "experiment.toml").string());
  const std::string here = train::contract_of(experiment.arithmetic);
  if (record.contract() == here) return experiment;
  throw UserError(
      name,
      fmt::format("was recorded under {}, this program computes by {}", archive::printable(record.contract()), here),
      experiment.arithmetic.is_stock() ? "trace it with the torch that computed it"
                                       : "trace it with the isobit that recorded it");
}

std::string size_text(std::uint64_t bytes) {
  return bytes < 10'000 ? fmt::format("{} bytes", bytes) : fmt::format("{:.1f} MB", static_cast<double>(bytes) / 1e6);
}

// On stderr: what will be executed, and after the first traced step what the whole will take.
class Progress {
 public:
  Progress(const TraceOptions& options, trace::Window window) : options_(options), window_(window) {}

  void begin(std::int64_t start) {
    if (options_.quiet) return;
    const std::int64_t before = window_.first - 1 - start;
    fmt::print(stderr, "isobit: tracing steps {}..{}; {} steps are executed before them, from {}\n", window_.first,
               window_.last(), before, start == 0 ? "the seed" : fmt::format("the checkpoint of step {}", start));
  }

  void step(const train::TracedStep& step) {
    if (options_.quiet) return;
    if (!step.traced) {
      untraced_ = step.seconds;
      if (process::rewrites_lines()) fmt::print(stderr, "\risobit: step {}\x1b[K", step.step);
      return;
    }
    if (step.step != window_.first) return;
    const auto count = static_cast<double>(window_.count);
    fmt::print(stderr, "{}isobit: step {}: {} operators, {}, {:.2f} s{}\n", process::rewrites_lines() ? "\r\x1b[K" : "",
               step.step, step.operators, size_text(step.bytes), step.seconds,
               untraced_ > 0 ? fmt::format(" ({:.1f} times an untraced one)", step.seconds / untraced_) : "");
    if (window_.count > 1) {
      fmt::print(stderr, "isobit: by this step, all {} take about {} and {:.1f} s\n", window_.count,
                 size_text(step.bytes * static_cast<std::uint64_t>(window_.count)), step.seconds * count);
    }
  }

 private:
  const TraceOptions& options_;
  trace::Window window_;
  double untraced_ = 0;
};

// The result, whoever executed the steps.
void print_result(const TraceOptions& options, const std::string& run, trace::Window window, std::int64_t operators,
                  std::uint64_t bytes, std::int64_t start, std::optional<std::int64_t> differs_at,
                  const std::string& name) {
  const std::string differs = differs_at ? fmt::format("step {} is not as it was recorded", *differs_at) : "";
  if (options.json) {
    nlohmann::ordered_json object{
        {"file", options.out},    {"run", run},     {"first", window.first}, {"count", window.count},
        {"operators", operators}, {"bytes", bytes}, {"start", start},        {"differs_at", nullptr}};
    if (differs_at) object["differs_at"] = *differs_at;
    fmt::print("{}\n", object.dump(-1, ' ', true, nlohmann::ordered_json::error_handler_t::replace));
  } else {
    fmt::print("{}: {} operators of steps {}..{}, {}; the repeat {} the record\n", archive::printable(options.out),
               operators, window.first, window.last(), size_text(bytes),
               differs.empty() ? "agrees with" : "differs from");
  }
  if (!differs.empty()) fmt::print(stderr, "isobit: {}: {}\n", archive::printable(name), differs);
}

// What is executed in a sandbox is asked for this.
struct CodeRequest {
  VerifyOptions again;
  trace::TraceHeader asked;
};

CodeRequest code_request(const TraceOptions& options, trace::Window window) {
  CodeRequest request;
  request.again.run = options.run;
  request.again.runs = options.runs;
  request.again.data = options.data;
  request.again.repository = options.repository;
  request.again.trust = options.trust;
  request.again.read = options.read;
  request.again.limits = options.limits;
  request.again.execution = options.execution;
  request.asked.window = window;
  request.asked.samples = options.samples;
  request.asked.statistics = options.statistics;
  request.asked.values = options.values;
  return request;
}

void expect_steps(const TraceOptions& options, const archive::RunRecord& record, trace::Window window) {
  const auto steps = static_cast<std::int64_t>(record.steps().size());
  if (window.first < 1 || window.last() > steps) {
    throw UserError("--steps " + options.steps,
                    fmt::format("the run has {}", archive::plural(record.steps().size(), "step")),
                    steps == 0 ? "name a run that trains" : fmt::format("choose some of its steps 1..{}", steps));
  }
}

void expect_no_file(const TraceOptions& options) {
  if (archive::is_there(options.out))
    throw UserError(options.out, "is there already", "name another file, or remove it");
}

// What the sandbox left.
int print_made(const TraceOptions& options, const archive::RunRecord& record, const archive::NamedRun& named,
               trace::Window window, std::int64_t start, std::optional<std::int64_t> differs_at) {
  const trace::Trace trace = trace::read_trace(options.out);
  print_result(options, record.summary().id, window, static_cast<std::int64_t>(trace.operators.size()),
               std::filesystem::file_size(options.out), start, differs_at, named.name());
  return 0;
}

int interrupted() {
  fmt::print(stderr, "isobit: interrupted; no trace was written\n");
  return process::kInterruptedExit;
}

// A network in TorchScript is code that came with the record.
int run_network(const TraceOptions& options, const archive::RunRecord& record, const archive::NamedRun& named,
                trace::Window window) {
  if (!options.network.empty() || !options.repository.empty())
    throw UserError(named.name(), "is traced in a sandbox, with the network that it names",
                    "leave out --network and --repository, or --trust the network");
  expect_no_file(options);
  if (!options.quiet) fmt::print(stderr, "isobit: tracing the network in a sandbox without network connections\n");
  const auto [again, asked] = code_request(options, window);
  const TracedAgain traced = trace_network(record, again, named.name(), asked, options.out);
  if (traced.interrupted) return interrupted();
  return print_made(options, record, named, window, traced.start, traced.differs_at);
}

// A Python program is executed as isobit verify does it: as a whole, in a sandbox.
int run_script(const TraceOptions& options, const archive::RunRecord& record, const archive::NamedRun& named,
               trace::Window window) {
  if (!options.data.empty() || !options.network.empty())
    throw UserError(named.name(), "is a Python program's record, which finds its data itself",
                    "leave --data and --network out, and call isobit where the data lie, or with --repository");
  expect_no_file(options);
  const auto [again, asked] = code_request(options, window);
  const ScriptVerdict result = trace_script(record, again, named.name(), asked, options.out);
  if (result.verdict.interrupted) return interrupted();
  std::optional<std::int64_t> differs_at;
  if (result.verdict.difference) differs_at = result.verdict.difference->step;
  return print_made(options, record, named, window, 0, differs_at);
}

}  // namespace

int run_trace(const TraceOptions& options) {
  const trace::Window window = window_of(options.steps);
  options.execution.apply();
  const archive::NamedRun named(options.run, options.runs);
  const auto record = archive::RunRecord::open(named.folder());
  expect_steps(options, record, window);  // before anything is read or said of how they would be executed
  if (record.is_stock()) options.execution.repeat_stock(record.environment());
  if (record.is_script()) return run_script(options, record, named, window);
  const train::Experiment experiment = experiment_of(record, named.name());
  const bool code = !experiment.model.torchscript.empty();
  if (code && !options.trust) return run_network(options, record, named, window);
  if ((options.trust && !code) || !options.repository.empty() || !options.read.empty() || !options.limits.empty())
    throw UserError(named.name(), "is a record of isobit run, which runs without a sandbox",
                    "leave out --trust, --repository, --read and --limit");
  const train::ArithmeticScope arithmetic(experiment);

  trace::TraceHeader header = trace::header_of_this_process();
  header.run = record.summary().id;
  header.window = window;
  header.samples = options.samples;
  header.statistics = options.statistics;
  header.values = options.values;
  trace::TraceWriter writer(options.out, header);
  Progress progress(options, window);
  const auto* checkpoint = train::checkpoint_before(record, window.first);
  progress.begin(checkpoint == nullptr ? 0 : checkpoint->step);
  const process::StopSignal stop;
  const train::TraceOutcome outcome =
      train::trace_steps(record, {window, options.data, options.network, options.execution.execution()}, writer,
                         stop.flag(), [&](const train::TracedStep& step) { progress.step(step); });
  if (outcome.interrupted) return interrupted();
  writer.finish();
  print_result(options, header.run, window, writer.operators(), writer.bytes(), outcome.start, outcome.differs_at,
               named.name());
  return 0;
}

}  // namespace isobit::proof
