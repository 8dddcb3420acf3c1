// How runs of one experiment part: per layer at the steps whose checkpoints all of them keep, and per step by loss,
// accuracy and predictions, each run against the first (the reference).
//
// Records are opened with all their digests checked. UserError where a record cannot be read, networks differ, or
// nothing can be compared. No state; thread-safe.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "archive/run_record.h"

namespace isobit::study {

struct DriftCell {
  std::size_t run = 0;  // of the runs given, from 1: the reference is 0
  std::int64_t step = 0;
  std::string layer;
  std::uint64_t max_ulp = 0, median_ulp = 0;
  double relative_norm = 0, flipped_signs = 0;
};

struct DriftStep {
  std::size_t run = 0;  // the reference has lines, too
  std::int64_t step = 0;
  double loss = 0, loss_difference = 0;              // as recorded, and less the reference's; NaN where either is
  bool same_loss = true;                             // to the bit
  std::optional<bool> same_gradients, same_weights;  // as the reference's fingerprints; none where one of them has none
  std::optional<double> accuracy, churn;
};

struct Drift {
  std::vector<std::int64_t> steps;  // whose weights were compared, ascending
  std::vector<std::string> layers;  // in the model's order
  std::vector<DriftCell> cells;
  std::vector<DriftStep> per_step;
  std::vector<std::string> notes;  // what could not be compared, and how to keep more
};

[[nodiscard]] Drift measure_drift(const std::vector<archive::RunRecord>& runs);

[[nodiscard]] std::string drift_json(const Drift& drift, const std::vector<archive::RunRecord>& runs);
[[nodiscard]] std::string drift_text(const Drift& drift, const std::vector<archive::RunRecord>& runs);

}  // namespace isobit::study
