#include <fmt/format.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "archive/printable.h"
#include "study/drift.h"
#include "study/tensor_distances.h"

namespace isobit::study {
namespace {

using archive::RunRecord;
using Json = nlohmann::ordered_json;

// JSON has no infinities and no NaN.
Json number(double value) { return std::isfinite(value) ? Json(value) : Json(nullptr); }
Json maybe(const std::optional<double>& value) { return value ? number(*value) : Json(nullptr); }
Json known(const std::optional<bool>& value) { return value ? Json(*value) : Json(nullptr); }

std::string ulp_text(std::uint64_t ulp) { return ulp >= kNotComparable ? "NaN" : fmt::format("{}", ulp); }

std::string weights_text(const Drift& drift, std::size_t run) {
  std::size_t width = 5;
  for (const std::string& layer : drift.layers) width = std::max(width, archive::printable(layer).size());
  std::string text = fmt::format("  {:>8}  {:<{}}  {:>12}  {:>12}  {:>10}  {:>8}\n", "step", "layer", width, "max ULP",
                                 "median ULP", "norm", "signs");
  bool any = false;
  for (const DriftCell& cell : drift.cells) {
    if (cell.run != run) continue;
    any = true;
    text += fmt::format("  {:>8}  {:<{}}  {:>12}  {:>12}  {:>10.3g}  {:>6.2f} %\n", cell.step,
                        archive::printable(cell.layer), width, ulp_text(cell.max_ulp), ulp_text(cell.median_ulp),
                        cell.relative_norm, 100 * cell.flipped_signs);
  }
  return any ? text : "";
}

// "gradients: equal at all 10 fingerprints", or where they part; nothing where none were taken of both.
std::string fingerprints_text(const Drift& drift, std::size_t run, const char* what,
                              std::optional<bool> DriftStep::*same) {
  std::size_t compared = 0;
  std::int64_t last_equal = 0;
  for (const DriftStep& line : drift.per_step) {
    if (line.run != run || !(line.*same)) continue;
    ++compared;
    if (!*(line.*same))
      return last_equal == 0 ? fmt::format("  {}: part at step {}, the first fingerprint\n", what, line.step)
                             : fmt::format("  {}: part at step {}, equal at step {}\n", what, line.step, last_equal);
    last_equal = line.step;
  }
  return compared == 0 ? "" : fmt::format("  {}: equal at all {}\n", what, archive::plural(compared, "fingerprint"));
}

// "loss: equal in all 938 steps", or where it parts; accuracy and churn at the last evaluation.
std::string steps_text(const Drift& drift, std::size_t run) {
  std::int64_t steps = 0, first = 0, largest_step = 0;
  double largest = 0;
  std::optional<double> accuracy, reference, churn;
  for (const DriftStep& line : drift.per_step) {
    if (line.run == 0 && line.accuracy) reference = line.accuracy;
    if (line.run != run) continue;
    ++steps;
    if (!line.same_loss && first == 0) first = line.step;
    if (std::abs(line.loss_difference) > largest) largest = std::abs(line.loss_difference), largest_step = line.step;
    if (line.accuracy) accuracy = line.accuracy;
    if (line.churn) churn = line.churn;
  }
  std::string text = first == 0 ? fmt::format("  loss: equal in all {} steps\n", steps)
                                : fmt::format("  loss: parts at step {} of {}; largest difference {:.3g} at step {}\n",
                                              first, steps, largest, largest_step);
  if (accuracy && reference)
    text += fmt::format("  accuracy: {:.4f} against {:.4f} ({:+.4f})\n", *accuracy, *reference, *accuracy - *reference);
  if (churn) text += fmt::format("  churn: {:.2f} % of the last predictions differ\n", 100 * *churn);
  return text;
}

}  // namespace

std::string drift_json(const Drift& drift, const std::vector<RunRecord>& runs) {
  const auto id = [&](std::size_t run) { return runs[run].summary().id; };
  Json object{{"format", "isobit-drift-1"},
              {"reference", id(0)},
              {"runs", Json::array()},
              {"steps", drift.steps},
              {"layers", drift.layers},
              {"cells", Json::array()},
              {"per_step", Json::array()},
              {"notes", drift.notes},
              {"claimed", {"reference", "runs", "cells.run", "per_step.run"}}};
  for (std::size_t r = 0; r < runs.size(); ++r) object["runs"].push_back(id(r));
  for (const DriftCell& cell : drift.cells) {
    object["cells"].push_back({{"run", id(cell.run)},
                               {"step", cell.step},
                               {"layer", cell.layer},
                               {"max_ulp", cell.max_ulp},
                               {"median_ulp", cell.median_ulp},
                               {"relative_norm", number(cell.relative_norm)},
                               {"flipped_signs", number(cell.flipped_signs)}});
  }
  for (const DriftStep& line : drift.per_step) {
    object["per_step"].push_back({{"run", id(line.run)},
                                  {"step", line.step},
                                  {"loss", number(line.loss)},
                                  {"loss_difference", number(line.loss_difference)},
                                  {"same_gradients", known(line.same_gradients)},
                                  {"same_weights", known(line.same_weights)},
                                  {"accuracy", maybe(line.accuracy)},
                                  {"churn", maybe(line.churn)}});
  }
  return object.dump(2, ' ', true, Json::error_handler_t::replace) + "\n";
}

std::string drift_text(const Drift& drift, const std::vector<RunRecord>& runs) {
  const auto describe = [&](std::size_t run) {
    return fmt::format("{} ({})", archive::printable(runs[run].summary().id), archive::printable(runs[run].contract()));
  };
  std::string text = "reference " + describe(0) + "\n";
  for (std::size_t r = 1; r < runs.size(); ++r) {
    const bool same = runs[r].weights() == runs[0].weights() && !runs[r].weights().empty();
    text += fmt::format("\n{}{}\n", describe(r), same ? ": the same final weights" : "");
    const std::string layers = weights_text(drift, r);
    text += layers + steps_text(drift, r);
    text += fingerprints_text(drift, r, "gradients", &DriftStep::same_gradients);
    if (layers.empty()) text += fingerprints_text(drift, r, "weights", &DriftStep::same_weights);
  }
  if (!drift.notes.empty()) text += "\n";
  for (const std::string& note : drift.notes) text += "note: " + note + "\n";
  return text;
}

}  // namespace isobit::study
