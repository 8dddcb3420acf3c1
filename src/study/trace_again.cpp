#include "study/trace_again.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <vector>

#include "archive/experiment_text.h"
#include "archive/files.h"
#include "archive/json_text.h"
#include "archive/printable.h"
#include "archive/run_export.h"
#include "archive/user_error.h"
#include "process/capability.h"
#include "process/child_process.h"
#include "study/operator_difference.h"
#include "trace/trace_file.h"

namespace isobit::study {
namespace {

namespace fs = std::filesystem;
using study::ComparedRun;
using study::Diff;

// A run cannot be executed again here, and why.
struct CannotTrace {
  std::string why;
};

// What a run says of itself before a child is started.
std::string why_not(const ComparedRun& run, const char* side) {
  if (!run.finished) return fmt::format("{} is not finished: only a finished record is executed again", side);
  return "";
}

// Threads and variables that a stock run was made with decide its bits; of isobit nothing does.
void as_recorded(const ComparedRun& run, process::ChildRequest& request) {
  if (!archive::is_stock(run.summary.contract)) return;
  request.environment = process::recorded_variables(run.environment);
  try {
    const auto environment = archive::parse_json(run.environment);
    if (environment.contains("run") && environment["run"].contains("threads")) {
      request.words.insert(request.words.end(), {"--threads", environment["run"]["threads"].get<std::string>()});
    }
  } catch (const std::exception&) {  // another spelling: it is executed as this machine does
  }
}

class Repetitions {
 public:
  Repetitions(const ComparedRun& a, const ComparedRun& b, const AgainOptions& options, Diff& diff)
      : a_(a), b_(b), options_(options), diff_(diff) {}

  // The shortest window before the step that shows an operator, or else from where both had equal weights.
  void search() {
    const std::int64_t last = diff_.first_step->step, earliest = std::min(diff_.equal_weights_after + 1, last);
    for (std::int64_t length = 2;; length *= 8) {
      const std::int64_t first = std::max(earliest, last - length + 1);
      const study::TraceComparison found = compare({first, last - first + 1}, "");
      diff_.compared.operators = found.operators;
      if (found.first) return take(*found.first);
      // Something in the window had other inputs from its beginning: it began before.
      if (first == earliest || !found.inputs) return explain(found, first);
    }
  }

 private:
  // `seen`: the step in which a repeat differs from the record is told once.
  fs::path trace(const ComparedRun& run, const char* side, trace::Window window, const std::string& values) {
    const fs::path file = work_.path() / fmt::format("{}-{}", side, files_++);
    process::ChildRequest request;
    request.words = {fs::read_symlink("/proc/self/exe").string(),
                     "trace",
                     run.folder.string(),
                     "--steps",
                     fmt::format("{}:{}", window.first, window.count),
                     "--out",
                     file.string(),
                     "--quiet",
                     "--json"};
    if (!values.empty()) request.words.insert(request.words.end(), {"--values", values});
    if (!options_.data.empty()) request.words.insert(request.words.end(), {"--data", options_.data});
    as_recorded(run, request);
    tell(fmt::format("executing {} again, steps {}..{}", side, window.first, window.last()));
    const process::ChildResult result = process::run_child(request);
    if (result.code != 0) throw CannotTrace{fmt::format("{}: {}", side, result.error_line())};
    note_repeat(result.output, side);
    return file;
  }

  void note_repeat(const std::string& output, const char* side) {
    try {
      const auto object = archive::parse_json(output);
      if (object.at("differs_at").is_null()) return;
      const std::string note = fmt::format("{}: the repeat differs from the record from step {} on", side,
                                           archive::integer<std::int64_t>(object.at("differs_at")));
      if (std::find(diff_.notes.begin(), diff_.notes.end(), note) == diff_.notes.end()) diff_.notes.push_back(note);
      repeats_ = false;
    } catch (const std::exception&) {  // what is compared is the trace
    }
  }

  study::TraceComparison compare(trace::Window window, const std::string& values) {
    const fs::path a = trace(a_, "a", window, values), b = trace(b_, "b", window, values);
    return study::compare_operators(trace::read_trace(a), trace::read_trace(b));
  }

  // A second time with the values of just that operator's outputs.
  void take(const study::OperatorDifference& found) {
    diff_.first_operator = found;
    const study::TraceComparison again = compare({found.key.step, 1}, to_string(found.key));
    if (again.first && again.first->key == found.key) {
      diff_.first_operator = again.first;
    } else {
      diff_.notes.emplace_back("a second repeat did not show the same operator: these runs do not repeat");
    }
    if (!repeats_) diff_.not_looked_into = "the operator is that of the repeats, which are not the recorded runs";
  }

  void explain(const study::TraceComparison& found, std::int64_t first) {
    if (found.inputs) {
      diff_.notes.push_back(fmt::format("{} of {} differs first", found.inputs->what, to_string(found.inputs->key)));
    }
    if (found.only_a) diff_.notes.push_back(fmt::format("only a calls {}", to_string(*found.only_a)));
    if (found.only_b) diff_.notes.push_back(fmt::format("only b calls {}", to_string(*found.only_b)));
    if (found.equal()) {
      diff_.not_looked_into = fmt::format(
          "executed again, both gave the same from step {} on: the records differ, the "
          "repeats do not",
          first);
    } else if (found.inputs) {
      diff_.not_looked_into =
          "every operator that got equal inputs gave equal outputs: what differs came in from outside "
          "(weights, batch, arguments)";
    } else {
      diff_.not_looked_into = "the runs call different operators";
    }
  }

  void tell(const std::string& text) const {
    if (!options_.quiet && ::isatty(STDERR_FILENO) != 0) fmt::print(stderr, "isobit: {}\n", text);
  }

  const ComparedRun &a_, &b_;
  const AgainOptions& options_;
  Diff& diff_;
  const archive::TemporaryFolder work_;
  int files_ = 0;
  bool repeats_ = true;  // both as their records say
};

}  // namespace

void find_operator(const ComparedRun& a, const ComparedRun& b, const AgainOptions& options, Diff& diff) {
  if (diff.results != study::Results::differ) return;
  if (!diff.first_step) {
    diff.not_looked_into = "no step differs: only what was measured or kept besides";
    return;
  }
  if (diff.first_step->field == "batch") {
    diff.not_looked_into = fmt::format(
        "the batch of step {} differs: what differs is the data, their order or a seed, "
        "and no operator before it",
        diff.first_step->step);
    return;
  }
  if (diff.first_step->a.empty() || diff.first_step->b.empty()) {
    diff.not_looked_into = "the steps that both have are equal; one run makes more";
    return;
  }
  for (const auto& [run, side] : {std::pair(&a, "a"), std::pair(&b, "b")}) {
    diff.not_looked_into = why_not(*run, side);
    if (!diff.not_looked_into.empty()) return;
  }
  try {
    Repetitions(a, b, options, diff).search();
  } catch (const CannotTrace& cannot) {
    diff.not_looked_into = cannot.why;
  } catch (const archive::UserError& error) {
    diff.not_looked_into = error.what();
  }
}

}  // namespace isobit::study
