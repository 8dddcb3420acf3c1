// What runs predicted for each sample of their evaluations (predictions.jsonl), and which predictions were right.
//
// Read after the record was opened (run_record.h), which proves that the file is the sealed one. Errors are UserError
// naming file and line. No state; thread-safe.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "archive/log_lines.h"

namespace isobit::study {

inline constexpr const char* kPredictionsFile = archive::kPredictionsLog;
using PredictionLine = archive::PredictionsLine;

// In the file's order; none where the run kept none.
[[nodiscard]] std::vector<PredictionLine> read_predictions(const std::filesystem::path& run);

// The share of samples for which two lines predict differently; nothing where they are not of the same samples.
[[nodiscard]] std::optional<double> churn(const PredictionLine& a, const PredictionLine& b);

}  // namespace isobit::study
