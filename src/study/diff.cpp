#include "study/diff.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "archive/log_lines.h"
#include "study/checkpoint_difference.h"
#include "study/input_differences.h"

namespace isobit::study {
namespace {

using archive::StepLine;

DiffSide side_of(const ComparedRun& run) { return {run.summary.id, run.summary.name, run.shown, run.summary.contract}; }

// Only where both took one: fingerprints may be taken more or less often.
bool both_differ(const std::string& a, const std::string& b) { return !a.empty() && !b.empty() && a != b; }

std::optional<FirstStep> different_step(const StepLine& a, const StepLine& b) {
  const auto at = [&](const char* field, const std::string& x, const std::string& y) {
    return FirstStep{a.step, a.epoch, field, x, y};
  };
  if (a.batch != b.batch) return at("batch", a.batch, b.batch);
  if (a.loss_bits != b.loss_bits) {
    return at("loss", fmt::format("{:08x}", a.loss_bits), fmt::format("{:08x}", b.loss_bits));
  }
  if (both_differ(a.gradients, b.gradients)) return at("gradients", a.gradients, b.gradients);
  if (both_differ(a.weights, b.weights)) return at("weights", a.weights, b.weights);
  if (both_differ(a.optimizer, b.optimizer)) return at("optimizer", a.optimizer, b.optimizer);
  return {};
}

void compare_steps(const ComparedRun& a, const ComparedRun& b, Diff& diff) {
  const std::size_t common = std::min(a.steps.size(), b.steps.size());
  for (std::size_t i = 0; i < common && !diff.first_step; ++i) {
    diff.first_step = different_step(a.steps[i], b.steps[i]);
    ++diff.compared.steps;
    if (!diff.first_step && !a.steps[i].weights.empty() && a.steps[i].weights == b.steps[i].weights) {
      diff.equal_weights_after = a.steps[i].step;
    }
  }
  if (diff.first_step || a.steps.size() == b.steps.size()) return;
  const bool more_in_a = a.steps.size() > b.steps.size();
  const ComparedRun& shorter = more_in_a ? b : a;
  if (!shorter.finished) return;  // more may follow
  const StepLine& next = (more_in_a ? a : b).steps[common];
  const std::string loss = fmt::format("{:08x}", next.loss_bits);
  diff.first_step = FirstStep{next.step, next.epoch, "loss", more_in_a ? loss : "", more_in_a ? "" : loss};
}

// What the gradients' fingerprints tell besides: whether they parted before the weights did.
void note_gradients(const ComparedRun& a, const ComparedRun& b, Diff& diff) {
  if (!diff.first_step) return;
  const std::size_t common = std::min(a.steps.size(), b.steps.size());
  const auto first = static_cast<std::size_t>(diff.first_step->step - 1);
  if (first >= common) return;
  const StepLine &x = a.steps[first], &y = b.steps[first];
  if (diff.first_step->field != "gradients") {
    const bool after = diff.first_step->field == "weights" || diff.first_step->field == "optimizer";
    if (!after || x.gradients.empty() || x.gradients != y.gradients) return;
    diff.notes.push_back(fmt::format(
        "the gradients of step {} are equal: look at the optimizer, and at tensors that have no gradient", x.step));
    return;
  }
  for (std::size_t i = first; i < common; ++i) {
    if (!both_differ(a.steps[i].weights, b.steps[i].weights)) continue;
    diff.notes.push_back(
        fmt::format("the gradients parted first: the first recorded weights that differ are those "
                    "after step {}",
                    a.steps[i].step));
    return;
  }
}

bool same_value(double a, double b) { return a == b || (std::isnan(a) && std::isnan(b)); }

// The first measurement that differs, in words.
std::optional<std::string> compare_metrics(const ComparedRun& a, const ComparedRun& b, Diff& diff) {
  std::map<std::pair<std::int64_t, std::string>, const archive::MetricsLine*> lines;
  for (const archive::MetricsLine& line : b.metrics) lines[{line.step, line.set}] = &line;
  std::optional<std::string> first;
  for (const archive::MetricsLine& line : a.metrics) {
    const auto found = lines.find({line.step, line.set});
    if (found == lines.end()) continue;  // evaluated at other steps, which is a setting
    const auto differs = [&](const std::string& name, const std::string& in_a, const std::string& in_b) {
      if (!first) first = fmt::format("{} {} after step {}: {} | {}", line.set, name, line.step, in_a, in_b);
    };
    const auto& others = found->second->values;
    for (const auto& [name, value] : line.values) {
      const auto other = others.find(name);
      ++diff.compared.metrics;
      if (other == others.end()) {
        differs(name, fmt::format("{}", value), "none");
      } else if (!same_value(value, other->second)) {
        differs(name, fmt::format("{}", value), fmt::format("{}", other->second));
      }
    }
    for (const auto& [name, value] : others) {
      if (line.values.find(name) == line.values.end()) differs(name, "none", fmt::format("{}", value));
    }
  }
  return first;
}

const archive::CheckpointEntry* kept(const ComparedRun& run, std::int64_t step) {
  const auto found = std::find_if(run.checkpoints.begin(), run.checkpoints.end(),
                                  [&](const archive::CheckpointEntry& entry) { return entry.step == step; });
  return found == run.checkpoints.end() ? nullptr : &*found;
}

// The first that differs, in words: by the tensor where both files are kept, else by the recorded digests.
std::optional<std::string> compare_checkpoints(const ComparedRun& a, const ComparedRun& b, Diff& diff) {
  std::optional<std::string> first;
  const auto differs = [&](std::int64_t step, const std::string& what) {
    if (!first) first = fmt::format("checkpoint of step {}: {}", step, what);
  };
  for (const auto& [step, sha256] : a.checkpoint_weights) {
    const auto found = b.checkpoint_weights.find(step);
    if (found == b.checkpoint_weights.end()) continue;
    const archive::CheckpointEntry *in_a = kept(a, step), *in_b = kept(b, step);
    const bool digests = !sha256.empty() && !found->second.empty();
    if (!digests && (in_a == nullptr || in_b == nullptr)) continue;
    ++diff.compared.checkpoints;
    if (in_a != nullptr && in_b != nullptr) {
      const std::string part = different_checkpoint(a.folder / in_a->file, b.folder / in_b->file);
      if (!part.empty()) differs(step, part);
    }
    if (digests && sha256 != found->second) {
      differs(step, fmt::format("weights of sha256 {} | {}", sha256.substr(0, 16), found->second.substr(0, 16)));
    }
  }
  return first;
}

std::optional<std::string> compare_ends(const ComparedRun& a, const ComparedRun& b) {
  if (!a.finished || !b.finished) return {};
  const auto &x = a.summary, &y = b.summary;
  if (!archive::same_values_of(x.weights, y.weights))
    return fmt::format("final weights: {} | {}", x.weights, y.weights);
  if (!x.weights_sha256.empty() && !y.weights_sha256.empty() && x.weights_sha256 != y.weights_sha256) {
    return fmt::format("SHA-256 of the final weights: {} | {}", x.weights_sha256, y.weights_sha256);
  }
  return {};
}

void note_unfinished(const ComparedRun& run, const char* side, Diff& diff) {
  if (run.finished) return;
  diff.notes.push_back(
      fmt::format("{} is not finished ({}): its {} recorded steps are compared, and nothing proves them", side,
                  archive::to_string(run.summary.state), run.steps.size()));
}

std::string list_of(const std::vector<std::int64_t>& steps) {
  return steps.size() == 1 ? fmt::format("step {}", steps.front())
                           : fmt::format("steps {}..{}", steps.front(), steps.back());
}

DiffSide side_of(const trace::Trace& trace) {
  return {trace.header.run, "", trace.path.string(), trace.header.arithmetic};
}

void note_repeat(const trace::Trace& trace, const char* side, Diff& diff) {
  for (const trace::StepEnd& end : trace.steps) {
    if (end.record != "differs") continue;
    diff.notes.push_back(fmt::format("{}: the repeat differs from the record of {} in step {} or before", side,
                                     trace.header.run, end.step));
    return;
  }
}

// Nothing parted before a node of backward got another tensor: neither a weight nor a gradient, which an operator
// before would have got or given. So an operator of the forward pass kept it, and did not return it.
bool kept_within(const TraceComparison& found) {
  return found.inputs && found.unknown == 0 && found.inputs->key.phase == trace::Phase::backward &&
         found.inputs->what.starts_with("input");
}
constexpr const char* kKeptWithin =
    "all operators before it gave equal outputs: an operator of this module's forward pass saved that tensor for its "
    "gradient and did not return it, so the first difference is within that operator";
constexpr const char* kFromOutside =
    ": what differs came in from outside (weights, batch, arguments), or before the traced steps";

}  // namespace

const char* to_string(Results results) {
  return results == Results::equal ? "equal" : results == Results::differ ? "differ" : "unknown";
}

Diff compare_runs(const ComparedRun& a, const ComparedRun& b) {
  Diff diff;
  diff.a = side_of(a);
  diff.b = side_of(b);
  diff.differences = input_differences(a, b);
  diff.code_diff = code_difference(a, b);
  note_unfinished(a, "a", diff);
  note_unfinished(b, "b", diff);
  compare_steps(a, b, diff);
  note_gradients(a, b, diff);
  const std::optional<std::string> others[] = {compare_metrics(a, b, diff), compare_checkpoints(a, b, diff),
                                               compare_ends(a, b)};
  bool differ = diff.first_step.has_value();
  for (const auto& other : others) {
    if (!other) continue;
    differ = true;
    diff.notes.push_back(*other);
  }
  if (differ) {
    diff.results = Results::differ;
  } else if (diff.compared.steps == 0) {
    diff.notes.emplace_back("the runs have no step in common");
  } else if (a.finished && b.finished) {
    diff.results = Results::equal;
  } else {
    diff.notes.push_back(fmt::format("the {} steps that both have are equal so far", diff.compared.steps));
  }
  return diff;
}

Diff compare_traces(const trace::Trace& a, const trace::Trace& b) {
  Diff diff;
  diff.a = side_of(a);
  diff.b = side_of(b);
  if (a.header.arithmetic != b.header.arithmetic) {
    diff.differences.push_back({"environment", "arithmetic", a.header.arithmetic, b.header.arithmetic, true});
  }
  for (auto& one : environment_differences(a.header.environment, b.header.environment)) diff.differences.push_back(one);
  note_repeat(a, "a", diff);
  note_repeat(b, "b", diff);
  const TraceComparison found = compare_operators(a, b);
  diff.compared.steps = found.steps;
  diff.compared.operators = found.operators;
  if (!found.steps_only_a.empty()) diff.notes.push_back(fmt::format("only a has {}", list_of(found.steps_only_a)));
  if (!found.steps_only_b.empty()) diff.notes.push_back(fmt::format("only b has {}", list_of(found.steps_only_b)));
  if (found.only_a) diff.notes.push_back(fmt::format("only a calls {}", to_string(*found.only_a)));
  if (found.only_b) diff.notes.push_back(fmt::format("only b calls {}", to_string(*found.only_b)));
  if (found.unknown > 0) {
    diff.notes.push_back(
        fmt::format("{} operators have tensors without a fingerprint and are never named", found.unknown));
  }
  if (!found.comparable()) {
    diff.notes.emplace_back("the traces have no step in common");
    return diff;
  }
  if (found.equal()) {
    diff.results = found.unknown > 0 ? Results::unknown : Results::equal;
    return diff;
  }
  diff.results = Results::differ;
  diff.first_operator = found.first;
  if (found.inputs) {
    diff.notes.push_back(fmt::format("{} of {} differs first", found.inputs->what, to_string(found.inputs->key)));
    if (kept_within(found)) diff.notes.emplace_back(kKeptWithin);
  }
  if (!found.first) {
    diff.not_looked_into = "the programs call different operators";
    if (found.inputs) {
      diff.not_looked_into = "every operator that got equal inputs gave equal outputs";
      if (!kept_within(found)) diff.not_looked_into += kFromOutside;
    }
  } else if (!found.first->values) {
    diff.notes.emplace_back(
        "the traces keep no values of that operator, so its distance in ULP is not known (--values)");
  }
  return diff;
}

}  // namespace isobit::study
