#include "study/diff_text.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <iterator>
#include <string_view>
#include <vector>

#include "archive/printable.h"

namespace isobit::study {
namespace {

using archive::printable;
using study::Diff;

constexpr std::size_t kLongestValue = 60;

std::string shortened(const std::string& text) {
  if (text.empty()) return "(none)";
  return printable(text.size() <= kLongestValue ? text : text.substr(0, kLongestValue) + "...");
}

std::string side_text(const char* letter, const study::DiffSide& side) {
  return fmt::format("{}        {}  ({})\n", letter, printable(side.id.empty() ? side.path : side.id),
                     printable(side.contract));
}

// How a run was executed: what its user chose, and for stock PyTorch the reason more often than not.
bool is_choice(const study::InputDifferenceOfRuns& one) {
  constexpr std::string_view choices[] = {"run.threads", "run.isa", "run.device", "run.cpu_capability"};
  return one.part == "environment" && std::find(std::begin(choices), std::end(choices), one.key) != std::end(choices);
}

// Experiment, data, code and choices of execution line by line; environment and hardware are long and seldom the
// reason.
std::string differences_text(const Diff& diff, bool all) {
  std::string text;
  std::size_t left_out = 0;
  for (const study::InputDifferenceOfRuns& one : diff.differences) {
    if (!all && !one.counts && !is_choice(one) && (one.part == "environment" || one.part == "hardware")) {
      ++left_out;
      continue;
    }
    text += fmt::format("  {:<11} {}: {} | {}{}\n", one.part, printable(one.key), shortened(one.a), shortened(one.b),
                        one.counts ? "" : "  (does not count)");
  }
  if (left_out > 0) {
    text += fmt::format("  {} more of environment and hardware, which {} not count (--all lists {})\n", left_out,
                        left_out == 1 ? "does" : "do", left_out == 1 ? "it" : "them");
  }
  return text.empty() ? "given    the same\n" : "given    differs\n" + text;
}

std::string compared_text(const study::Compared& compared) {
  std::vector<std::string> parts;
  const auto add = [&](std::int64_t count, const char* what) {
    if (count > 0) parts.push_back(fmt::format("{} {}", count, what));
  };
  add(compared.steps, "steps");
  add(compared.metrics, "measurements");
  add(compared.checkpoints, "checkpoints");
  add(compared.operators, "operators");
  return fmt::format("compared {}\n", parts.empty() ? "nothing" : fmt::format("{}", fmt::join(parts, ", ")));
}

std::vector<std::int64_t> index_of(std::int64_t index, const std::vector<std::int64_t>& shape) {
  std::vector<std::int64_t> at(shape.size());
  for (std::size_t d = shape.size(); d-- > 0 && shape[d] > 0;) {
    at[d] = index % shape[d];
    index /= shape[d];
  }
  return at;
}

}  // namespace

std::string operator_text(const trace::OperatorKey& key) {
  return fmt::format("{}{}{} (step {}, {}, occurrence {})", printable(key.module), key.module.empty() ? "" : " ",
                     printable(key.name), key.step, to_string(key.phase), key.occurrence);
}

std::string values_text(const study::OperatorDifference& found) {
  std::string text =
      fmt::format("output {}, {} [{}]", found.output, printable(found.dtype), fmt::join(found.shape, ", "));
  if (!found.values) return text;
  const study::ValueDifference& values = *found.values;
  std::vector<std::int64_t> shape = found.shape;
  if (found.dtype.starts_with("complex")) shape.push_back(2);
  const std::string distance =
      values.max_ulp == study::kUnordered ? "a number against NaN" : fmt::format("at most {} ULP", values.max_ulp);
  return text + fmt::format(": {} of {} elements differ, {} at [{}]", values.differing, values.elements, distance,
                            fmt::join(index_of(values.at, shape), ", "));
}

std::string diff_text(const Diff& diff, bool all) {
  std::string text = side_text("a", diff.a) + side_text("b", diff.b) + differences_text(diff, all);
  if (!diff.code_diff.empty()) text += archive::printable_lines(diff.code_diff);
  text += compared_text(diff.compared);
  if (const auto& step = diff.first_step) {
    text += fmt::format("step     {} (epoch {}) is the first that differs: {} {} | {}\n", step->step, step->epoch,
                        step->field, shortened(step->a), shortened(step->b));
  }
  if (const auto& found = diff.first_operator) {
    text += fmt::format("operator {} is the first that gave other outputs for the same inputs\n",
                        operator_text(found->key));
    text += fmt::format("         {}\n", values_text(*found));
  }
  if (!diff.not_looked_into.empty()) text += fmt::format("operator not named: {}\n", printable(diff.not_looked_into));
  for (const std::string& note : diff.notes) text += fmt::format("note     {}\n", printable(note));
  const char* verdict = diff.results == study::Results::equal    ? "equal"
                        : diff.results == study::Results::differ ? "differ"
                                                                 : "cannot be told";
  return text + fmt::format("results  {}\n", verdict);
}

}  // namespace isobit::study
