// What two runs were given: experiment, data, code, environment and hardware, key by key. Thread-safe.
#pragma once

#include <string>
#include <vector>

#include "study/diff.h"

namespace isobit::study {

// In the order experiment, data, code, environment, hardware.
[[nodiscard]] std::vector<InputDifferenceOfRuns> input_differences(const ComparedRun& a, const ComparedRun& b);
// Of two environment.json alone: parts "environment" and "hardware".
[[nodiscard]] std::vector<InputDifferenceOfRuns> environment_differences(const std::string& a, const std::string& b);
// Of recorded sources and patches, one file after the other; "" where they are equal.
[[nodiscard]] std::string code_difference(const ComparedRun& a, const ComparedRun& b);

}  // namespace isobit::study
