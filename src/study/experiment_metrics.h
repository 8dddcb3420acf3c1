// What a run of an experiment measures, by data.target. A test (train/experiment_test.cpp) holds it against the tasks,
// which this room may not include.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace isobit::study {

inline constexpr const char* kMetricSets[] = {"train", "test"};

// Beside the loss.
[[nodiscard]] inline std::string score_of(std::string_view target) {
  return target == "value" ? "mean_absolute_error" : "accuracy";
}

// As a study names them: "test.accuracy".
[[nodiscard]] inline std::vector<std::string> metrics_of(const std::vector<std::string>& scores) {
  std::vector<std::string> metrics;
  for (const char* set : kMetricSets) {
    for (const std::string& score : scores) metrics.push_back(std::string(set) + "." + score);
    metrics.push_back(std::string(set) + ".loss");
  }
  return metrics;
}

}  // namespace isobit::study
