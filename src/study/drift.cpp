#include "study/drift.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <map>
#include <set>

#include "archive/files.h"
#include "archive/user_error.h"
#include "study/predictions.h"
#include "study/tensor_distances.h"

namespace isobit::study {
namespace {

using archive::RunRecord;
using archive::TensorView;
using archive::UserError;

constexpr std::string_view kWeights = "weights.";
constexpr std::string_view kSafetensors = ".safetensors";

// "weights.block1.conv.weight": "block1.conv"
std::string layer_of(std::string_view tensor) {
  tensor.remove_prefix(kWeights.size());
  return std::string(tensor.substr(0, tensor.rfind('.') == std::string_view::npos ? tensor.size() : tensor.rfind('.')));
}

std::map<std::int64_t, const archive::CheckpointEntry*> kept(const RunRecord& run) {
  std::map<std::int64_t, const archive::CheckpointEntry*> entries;
  for (const archive::CheckpointEntry& entry : run.checkpoints()) {
    if (entry.file.ends_with(kSafetensors)) entries[entry.step] = &entry;
  }
  return entries;
}

std::vector<std::int64_t> common_steps(const std::vector<RunRecord>& runs) {
  std::vector<std::int64_t> steps;
  for (const auto& [step, entry] : kept(runs[0])) {
    if (std::all_of(runs.begin(), runs.end(), [&](const RunRecord& r) { return kept(r).contains(step); }))
      steps.push_back(step);
  }
  return steps;
}

void compare_checkpoints(Drift& drift, const std::vector<RunRecord>& runs, std::int64_t step) {
  const archive::Checkpoint reference = runs[0].checkpoint(*kept(runs[0]).at(step));
  for (std::size_t r = 1; r < runs.size(); ++r) {
    const archive::Checkpoint other = runs[r].checkpoint(*kept(runs[r]).at(step));
    std::vector<std::string> order;
    std::map<std::string, Distances> layers;
    std::size_t compared = 0;
    for (const TensorView& tensor : reference.contents().tensors()) {
      if (!tensor.name.starts_with(kWeights)) continue;
      const TensorView* same = other.contents().find(tensor.name);
      if (same == nullptr || same->dtype != tensor.dtype || same->shape != tensor.shape)
        throw UserError(runs[r].folder().string(),
                        fmt::format("has no tensor {} of the reference's shape: the networks differ",
                                    tensor.name.substr(kWeights.size())),
                        "compare runs of the same network");
      const auto [found, added] = layers.try_emplace(layer_of(tensor.name));
      if (added) order.push_back(found->first);
      found->second.add(tensor, *same);
      ++compared;
    }
    const auto weights = std::count_if(other.contents().tensors().begin(), other.contents().tensors().end(),
                                       [](const TensorView& t) { return t.name.starts_with(kWeights); });
    if (static_cast<std::size_t>(weights) != compared)
      throw UserError(runs[r].folder().string(), "has weights that the reference lacks: the networks differ",
                      "compare runs of the same network");
    if (drift.layers.empty()) drift.layers = order;
    for (const std::string& layer : order) {
      Distances& d = layers.at(layer);
      drift.cells.push_back({r, step, layer, d.max_ulp(), d.median_ulp(), d.relative_norm(), d.flipped_share()});
    }
  }
}

std::optional<bool> same_values(const std::string& a, const std::string& b) {
  if (a.empty() || b.empty()) return {};
  return a == b;
}

// Of the test set's measurements by step: how many of 1 were right.
std::map<std::int64_t, double> accuracies(const RunRecord& run) {
  std::map<std::int64_t, double> values;
  for (const archive::MetricsLine& line : run.metrics()) {
    const auto found = line.values.find("accuracy");
    if (line.set == "test" && found != line.values.end()) values[line.step] = found->second;
  }
  return values;
}

std::map<std::int64_t, PredictionLine> predictions(const RunRecord& run) {
  std::map<std::int64_t, PredictionLine> lines;
  for (PredictionLine& line : read_predictions(run.folder())) {
    if (line.set == "test") lines[line.step] = std::move(line);
  }
  return lines;
}

void compare_steps(Drift& drift, const std::vector<RunRecord>& runs) {
  const auto& reference = runs[0].steps();
  const auto reference_predictions = predictions(runs[0]);
  for (std::size_t r = 0; r < runs.size(); ++r) {
    const auto accuracy = accuracies(runs[r]);
    const auto predicted = predictions(runs[r]);
    const auto& steps = runs[r].steps();
    for (std::size_t i = 0; i < std::min(steps.size(), reference.size()); ++i) {
      DriftStep line;
      line.run = r;
      line.step = steps[i].step;
      line.loss = std::bit_cast<float>(steps[i].loss_bits);
      line.same_loss = steps[i].loss_bits == reference[i].loss_bits;
      line.loss_difference = line.same_loss ? 0 : line.loss - std::bit_cast<float>(reference[i].loss_bits);
      line.same_gradients = same_values(steps[i].gradients, reference[i].gradients);
      line.same_weights = same_values(steps[i].weights, reference[i].weights);
      if (const auto found = accuracy.find(line.step); found != accuracy.end()) line.accuracy = found->second;
      const auto own = predicted.find(line.step);
      const auto theirs = reference_predictions.find(line.step);
      if (own != predicted.end() && theirs != reference_predictions.end())
        line.churn = churn(theirs->second, own->second);
      drift.per_step.push_back(line);
    }
  }
}

void note_what_is_missing(Drift& drift, const std::vector<RunRecord>& runs) {
  const auto programs = std::count_if(runs.begin(), runs.end(), [](const RunRecord& r) { return r.is_script(); });
  if (programs > 0)
    drift.notes.push_back(
        fmt::format("{} of the runs are Python programs', whose checkpoints are PyTorch's own files: that weights "
                    "are equal is told by their fingerprints, and not how far they are apart",
                    programs));
  if (drift.steps.empty() && programs == 0)
    drift.notes.emplace_back("no step has a checkpoint in all runs: no weights could be compared");
  if (programs == 0 && drift.steps.size() < 10)
    drift.notes.emplace_back(
        "checkpoints that all runs keep are compared; for more of them run with --set "
        "checkpoint.keep=0 (all stay) and --set checkpoint.every=N");
  std::set<std::size_t> lengths;
  for (const RunRecord& run : runs) lengths.insert(run.steps().size());
  if (lengths.size() > 1)
    drift.notes.push_back(
        fmt::format("the runs have {} steps: those that all have are compared", fmt::join(lengths, ", ")));
  if (std::none_of(drift.per_step.begin(), drift.per_step.end(),
                   [](const DriftStep& s) { return s.churn.has_value(); })) {
    std::vector<std::string> ways;
    if (programs < std::ssize(runs)) ways.emplace_back("run with --set evaluate.predictions=true");
    if (programs > 0) ways.emplace_back("let the program record with predictions=True, and call run.predictions");
    drift.notes.push_back(fmt::format("churn needs predictions of the same samples: {}", fmt::join(ways, "; ")));
  }
}

}  // namespace

Drift measure_drift(const std::vector<RunRecord>& runs) {
  Drift drift;
  drift.steps = common_steps(runs);
  for (const std::int64_t step : drift.steps) compare_checkpoints(drift, runs, step);
  compare_steps(drift, runs);
  note_what_is_missing(drift, runs);
  if (drift.cells.empty() && drift.per_step.empty())
    throw UserError(runs[0].folder().string(), "has no step and no checkpoint to compare", "name runs that trained");
  return drift;
}

}  // namespace isobit::study
