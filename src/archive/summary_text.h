// Run summaries as commands print them: JSON objects and short texts. No state; thread-safe.
#pragma once

#include <fmt/format.h>

#include <cmath>
#include <nlohmann/json.hpp>
#include <string>

#include "archive/experiment_text.h"
#include "archive/printable.h"
#include "archive/record_types.h"

namespace isobit::archive {

using Json = nlohmann::ordered_json;

// With every character beyond ASCII escaped: it may come from a file that somebody else wrote.
inline void print_json_line(const Json& object) {
  fmt::print("{}\n", object.dump(2, ' ', true, Json::error_handler_t::replace));
}

// JSON has no infinities and no NaN: these are texts, as in the record.
[[nodiscard]] inline Json number_json(double value) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value > 0 ? "inf" : "-inf";
  return value;
}

// {"train": {"step", "epoch", "loss", "accuracy", ...}, "test": {...}}: the last of each set.
[[nodiscard]] inline Json metrics_json(const std::vector<archive::MetricsLine>& metrics) {
  Json sets = Json::object();
  for (const archive::MetricsLine& line : metrics) {
    Json& set = sets[line.set] = {{"step", line.step}, {"epoch", line.epoch}};
    for (const auto& [name, value] : line.values) set[name] = number_json(value);
  }
  return sets;
}

// `weights` is null where the run has none yet. `claimed` names the keys that isobit verify cannot recompute
// (docs/formats/run.md).
[[nodiscard]] inline Json summary_json(const archive::RunSummary& summary) {
  Json object{{"id", summary.id},
              {"name", summary.name},
              {"state", archive::to_string(summary.state)},
              {"steps", summary.steps},
              {"weights", summary.weights.empty() ? Json(nullptr) : Json(summary.weights)},
              {"weights_sha256", summary.weights_sha256.empty() ? Json(nullptr) : Json(summary.weights_sha256)},
              {"metrics", metrics_json(summary.metrics)},
              {"contract", summary.contract},
              {"arithmetic", archive::is_stock(summary.contract) ? "stock" : "isobit"},
              {"created", summary.created},
              {"claimed", {"id", "created"}}};
  if (!summary.note.empty()) object["note"] = summary.note;
  return object;
}

// "accuracy 0.8312  loss 0.4711"
[[nodiscard]] inline std::string metrics_text(const archive::MetricsLine& line) {
  std::string text;
  for (const auto& [name, value] : line.values)
    text += fmt::format("{}{} {:.4f}", text.empty() ? "" : "  ", archive::printable(name), value);
  return text;
}

}  // namespace isobit::archive
