// What a page says, as one JSON object "isobit-report-1": the runs with their curves, and results of other commands.
//
// Curves are thinned so that a report of a thousand runs stays below 10 MB; each says how many points were recorded.
// Settings that all runs share stand once, and so does each environment. The same runs give the same object. Texts are
// printable (archive/printable.h). Thread-safe; no state.
#pragma once

#include <cstdint>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "report/inputs.h"
#include "report/run_entry.h"

namespace isobit::report {

// True classes of evaluated samples, by the digest that a line of predictions.jsonl names them with.
using TargetsByDigest = std::map<std::string, std::vector<std::int64_t>>;

struct ReportParts {
  std::string title;  // "" : made from what is reported
  std::vector<RunEntry> runs;
  std::optional<Study> study;
  std::optional<Json> diff, drift;
  std::optional<std::vector<std::int64_t>> targets;  // true classes, of the runs whose digest they have
  TargetsByDigest found_targets;                     // and those that were read from the runs' own data
};

// UserError where `targets` are given and no run was evaluated on them.
[[nodiscard]] Json document(const ReportParts& parts);

// How many points one curve may have where so many runs are shown.
[[nodiscard]] std::size_t points_per_curve(std::size_t runs);

// One run of the document: what `isobit watch` sends again when it has changed.
[[nodiscard]] Json run_json(const RunEntry& run, std::size_t points, const TargetsByDigest& targets);

}  // namespace isobit::report
