#include "study/operator_difference.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>
#include <string_view>

#include "archive/printable.h"

namespace isobit::study {
namespace {

using trace::OperatorKey;
using trace::OperatorLine;
using trace::TensorTrace;
using trace::Trace;

std::set<std::int64_t> steps_of(const Trace& trace) {
  std::set<std::int64_t> steps;
  for (const trace::StepEnd& end : trace.steps) steps.insert(end.step);
  return steps;
}

std::vector<std::int64_t> without(const std::set<std::int64_t>& all, const std::set<std::int64_t>& others) {
  std::vector<std::int64_t> rest;
  std::set_difference(all.begin(), all.end(), others.begin(), others.end(), std::back_inserter(rest));
  return rest;
}

// What an operator does not read, or leaves as it was, says nothing.
bool matters(const TensorTrace& tensor) { return tensor.without != "overwritten" && tensor.without != "never written"; }

bool unknown(const std::vector<TensorTrace>& tensors) {
  return std::any_of(tensors.begin(), tensors.end(),
                     [](const TensorTrace& tensor) { return matters(tensor) && tensor.fingerprint.empty(); });
}

bool same(const TensorTrace& a, const TensorTrace& b) {
  return a.dtype == b.dtype && a.shape == b.shape && (!matters(a) || a.fingerprint == b.fingerprint);
}

// The index of the first that differs; a missing one does.
std::optional<std::size_t> different_tensor(const std::vector<TensorTrace>& a, const std::vector<TensorTrace>& b) {
  for (std::size_t i = 0; i < std::max(a.size(), b.size()); ++i) {
    if (i >= a.size() || i >= b.size() || !same(a[i], b[i])) return i;
  }
  return {};
}

std::optional<std::string> different_input(const OperatorLine& a, const OperatorLine& b) {
  if (a.arguments != b.arguments) {
    return fmt::format("the arguments ({} | {})", archive::printable(a.arguments), archive::printable(b.arguments));
  }
  if (const auto input = different_tensor(a.inputs, b.inputs)) return fmt::format("input {}", *input);
  return {};
}

OperatorDifference describe(const OperatorLine& a, std::size_t output) {
  OperatorDifference difference{a.key, output, "", {}, {}};
  if (output < a.outputs.size()) {
    difference.dtype = a.outputs[output].dtype;
    difference.shape = a.outputs[output].shape;
  }
  return difference;
}

// Of the operator as PyTorch's safetensors name its dtype; complex ones are kept as pairs.
std::optional<ValueDifference> compare_views(const archive::TensorView& a, const archive::TensorView& b) {
  if (a.dtype != b.dtype || a.data.size() != b.data.size()) return {};
  return compare_values(a.dtype, a.data, b.data);
}

}  // namespace

TraceComparison compare_operators(const Trace& a, const Trace& b) {
  TraceComparison result;
  const std::set<std::int64_t> in_a = steps_of(a), in_b = steps_of(b);
  result.steps_only_a = without(in_a, in_b);
  result.steps_only_b = without(in_b, in_a);
  result.steps = static_cast<std::int64_t>(in_a.size() - result.steps_only_a.size());
  std::map<OperatorKey, const OperatorLine*> lines;
  for (const OperatorLine& line : b.operators) lines[line.key] = &line;
  std::set<OperatorKey> seen;
  for (const OperatorLine& line : a.operators) {
    if (in_b.count(line.key.step) == 0) continue;
    const auto found = lines.find(line.key);
    if (found == lines.end()) {
      if (!result.only_a) result.only_a = line.key;
      continue;
    }
    seen.insert(line.key);
    const OperatorLine& other = *found->second;
    ++result.operators;
    const bool cannot_tell =
        unknown(line.inputs) || unknown(other.inputs) || unknown(line.outputs) || unknown(other.outputs);
    result.unknown += cannot_tell;
    const auto input = different_input(line, other);
    const auto output = different_tensor(line.outputs, other.outputs);
    result.differing += output.has_value();
    if (input && !result.inputs && !result.first) result.inputs = InputDifference{line.key, *input};
    if (output && !input && !cannot_tell && !result.first) result.first = describe(line, *output);
  }
  for (const OperatorLine& line : b.operators) {
    if (in_a.count(line.key.step) == 0 || seen.count(line.key) != 0) continue;
    result.only_b = line.key;
    break;
  }
  if (result.first && !a.values_sha256.empty() && !b.values_sha256.empty()) {
    result.first->values = compare_kept_values(a, b, result.first->key, result.first->output);
  }
  return result;
}

std::optional<ValueDifference> compare_kept_values(const Trace& a, const Trace& b, const OperatorKey& key,
                                                   std::size_t output) {
  const archive::Safetensors in_a = read_values(a), in_b = read_values(b);
  const std::string name = trace::values_name(key, output);
  const archive::TensorView *one = in_a.find(name), *other = in_b.find(name);
  if (one == nullptr || other == nullptr) return {};
  return compare_views(*one, *other);
}

}  // namespace isobit::study
