// Whether a baseline that was made anew came out the same, and if not: what moved, by how much, and since when.
//
// isobit: final weights, every loss, batch and metric must be equal to the bit. Stock: where bits differ, each metric
// must lie within the interval in which one more run like the recorded ones lies with 99 % (mean and standard deviation
// of the recorded runs, Student's t); with one recorded run nobody can tell. No state; thread-safe.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "archive/run_record.h"
#include "study/baselines.h"

namespace isobit::study {

struct MetricMove {
  std::string name;  // "test.accuracy"
  double recorded = 0, now = 0;
  std::optional<double> low, high;  // of the recorded spread; nothing for isobit, or of one run
};

struct Change {
  std::string key, before, now;
};

struct Calibration {
  Verdict verdict = Verdict::unknown;
  std::string note;                   // in words: what moved, or why nobody can tell
  std::optional<std::int64_t> step;   // the first whose loss, batch or weights differ
  std::vector<MetricMove> metrics;    // final values
  std::vector<Change> changes;        // of the environment, since the baseline was recorded
  std::string last_unchanged;         // when it last came out the same; "": never, or not recorded
  std::vector<Change> changes_since;  // and what of the environment changed since then
};

// Precondition: at least one recorded run.
[[nodiscard]] Calibration judge(const std::vector<archive::RunRecord>& recorded, const archive::RunRecord& now,
                                const std::vector<CalibrationLine>& history);

[[nodiscard]] bool is_stock(const std::string& contract);
// "test.accuracy": the last value of each, finite ones.
[[nodiscard]] std::map<std::string, double> final_metrics(const archive::RunRecord& run);

}  // namespace isobit::study
