#include "study/bisect.h"

#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "archive/named_run.h"
#include "archive/printable.h"
#include "archive/user_error.h"
#include "study/diff.h"
#include "study/diff_text.h"
#include "trace/trace_file.h"

namespace isobit::study {
namespace {

using Json = nlohmann::ordered_json;
using study::Results;

// What to trace next on both machines.
struct Next {
  trace::Window window;
  std::string values;  // key of an operator, or ""
  std::vector<std::string> commands;
};

struct Outcome {
  study::Diff diff;
  std::optional<Next> next;
  std::string why_no_next;
};

// By the program for a record of isobit run, else within the script.
std::string command_for(const study::DiffSide& side, bool script, const trace::Window& window,
                        const std::string& values, const char* letter) {
  if (script || side.id.empty()) {
    return fmt::format("with isobit.trace(\"{}.trace\", steps=({}, {}){}):", letter, window.first, window.count,
                       values.empty() ? "" : fmt::format(", values=\"{}\"", values));
  }
  return fmt::format("isobit trace {} --steps {}:{} --out {}.trace{}", side.id, window.first, window.count, letter,
                     values.empty() ? "" : fmt::format(" --values '{}'", values));
}

Next next_of(const study::Diff& diff, bool script_a, bool script_b, trace::Window window, const std::string& values) {
  return {window,
          values,
          {command_for(diff.a, script_a, window, values, "a"), command_for(diff.b, script_b, window, values, "b")}};
}

// Around the first step that differs, from where both had equal weights: 16 steps at most, so that a trace stays small.
trace::Window window_before(std::int64_t step, std::int64_t equal_after) {
  constexpr std::int64_t kMost = 16;
  const std::int64_t first = std::max(std::min(equal_after + 1, step), step - kMost + 1);
  return {first, step - first + 1};
}

Outcome of_runs(const BisectOptions& options) {
  const archive::NamedRun named_a(options.a, options.runs), named_b(options.b, options.runs);
  const study::ComparedRun a = study::read_run(named_a.folder(), named_a.name());
  const study::ComparedRun b = study::read_run(named_b.folder(), named_b.name());
  Outcome outcome{study::compare_runs(a, b), {}, ""};
  const auto& step = outcome.diff.first_step;
  if (!step) {
    outcome.why_no_next = "no step differs";
  } else if (step->field == "batch") {
    outcome.why_no_next = "the batch differs: look at the data, their order and the seeds first";
  } else {
    outcome.next = next_of(outcome.diff, a.is_script, b.is_script,
                           window_before(step->step, outcome.diff.equal_weights_after), "");
  }
  return outcome;
}

Outcome of_traces(const BisectOptions& options) {
  const trace::Trace a = trace::read_trace(options.a), b = trace::read_trace(options.b);
  Outcome outcome{study::compare_traces(a, b), {}, ""};
  const study::Diff& diff = outcome.diff;
  const trace::Window &window_a = a.header.window, &window_b = b.header.window;
  const auto next = [&](trace::Window window, const std::string& values) {
    return next_of(diff, a.header.run.empty(), b.header.run.empty(), window, values);
  };
  if (diff.compared.steps == 0) {
    const std::int64_t first = std::max(window_a.first, window_b.first);
    outcome.next = next({first, std::min(window_a.count, window_b.count)}, "");
  } else if (diff.first_operator && !diff.first_operator->values) {
    outcome.next = next({diff.first_operator->key.step, 1}, to_string(diff.first_operator->key));
  } else if (!diff.first_operator && diff.results == Results::differ) {
    const std::int64_t first = std::max(window_a.first, window_b.first);
    if (first > 1) {
      outcome.next = next(window_before(first - 1, 0), "");
    } else {
      outcome.why_no_next =
          "the traces begin with step 1: what differs was there before it (initial weights, data, arguments)";
    }
  }
  return outcome;
}

Outcome outcome_of(const BisectOptions& options) {
  const bool trace_a = trace::looks_like_trace(options.a), trace_b = trace::looks_like_trace(options.b);
  if (trace_a && trace_b) return of_traces(options);
  if (!trace_a && !trace_b) return of_runs(options);
  throw archive::UserError(trace_a ? options.b : options.a, "is no trace, the other one is",
                           "give two traces, or two runs");
}

std::string json_of(const Outcome& outcome) {
  Json object = Json::parse(to_json(outcome.diff));
  object["format"] = "isobit-bisect-1";
  object["next"] = nullptr;
  if (outcome.next) {
    object["next"] = {{"first", outcome.next->window.first},
                      {"count", outcome.next->window.count},
                      {"values", outcome.next->values},
                      {"a", outcome.next->commands[0]},
                      {"b", outcome.next->commands[1]}};
  }
  return object.dump(-1, ' ', true, Json::error_handler_t::replace);
}

void print_text(const Outcome& outcome) {
  fmt::print("{}", diff_text(outcome.diff, false));
  if (outcome.next) {
    fmt::print("next     where a was made:  {}\n", archive::printable(outcome.next->commands[0]));
    fmt::print("         where b was made:  {}\n", archive::printable(outcome.next->commands[1]));
    fmt::print("         here, with both:   isobit bisect a.trace b.trace\n");
  } else if (!outcome.why_no_next.empty()) {
    fmt::print("next     {}\n", outcome.why_no_next);
  }
}

}  // namespace

int run_bisect(const BisectOptions& options) {
  const Outcome outcome = outcome_of(options);
  if (options.json) {
    fmt::print("{}\n", json_of(outcome));
  } else {
    print_text(outcome);
  }
  const Results results = outcome.diff.results;
  return results == Results::equal ? 0 : results == Results::differ ? 1 : 2;
}

}  // namespace isobit::study
