// What isobit diff and isobit bisect print for a person. Texts from records are escaped. Thread-safe.
#pragma once

#include <string>

#include "study/diff.h"

namespace isobit::study {

// "LeNet5.fc1 aten::linear (step 3, forward, occurrence 1)"
[[nodiscard]] std::string operator_text(const trace::OperatorKey& key);
// With what is known of its values: "output 0, float32 [64, 10]: 12 of 640 elements differ, at most 3 ULP at [5, 2]"
[[nodiscard]] std::string values_text(const study::OperatorDifference& found);
// All lines; `all`: every difference of environment and hardware, else their number.
[[nodiscard]] std::string diff_text(const study::Diff& diff, bool all);

}  // namespace isobit::study
