// predictions.jsonl: what a network said about each evaluated sample, and the confusion matrix that follows from it.
//
// A line: {"step":n,"epoch":n,"set":"test","predictions":[class, ...],"targets":"<sha256>"}, where the digest is of the
// true classes as little-endian int64. The classes themselves are in no record: whoever has them gives them as a file,
// and they count only where their digest is the recorded one. Errors are UserError with file and line. Thread-safe; no
// state.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "archive/log_lines.h"

namespace isobit::report {

using archive::kPredictionsLog;
inline constexpr std::int64_t kMostClasses = 200;  // a larger matrix cannot be read on a page

using archive::PredictionsLine;

// The last line of each set, in the order of the sets' names. An unfinished log may end in the middle of a line.
[[nodiscard]] std::vector<PredictionsLine> last_predictions(std::string_view log, const std::filesystem::path& path,
                                                            bool unfinished);

// True classes: a whole number per line, in the order of the evaluated samples.
[[nodiscard]] std::vector<std::int64_t> read_targets(const std::filesystem::path& file);
[[nodiscard]] std::string digest_of_targets(const std::vector<std::int64_t>& targets);

// counts[true class][predicted class]; as many classes as occur. Empty where there are more than kMostClasses, where a
// class is negative, or where the lists do not have the same length.
[[nodiscard]] std::vector<std::vector<std::int64_t>> confusion(const std::vector<std::int64_t>& targets,
                                                               const std::vector<std::int64_t>& predictions);

}  // namespace isobit::report
