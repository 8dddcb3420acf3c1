// The lines of a record's logs: one JSON object each, in one spelling only (docs/formats/run.md).
//
// format_* gives the line with its newline. parse_* takes a line without it and accepts exactly what format_*
// writes: false for anything else, and for a line of more than kLongestLine bytes. Thread-safe; no state.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "archive/checkpoint.h"
#include "archive/record_types.h"
#include "archive/sha256.h"
#include "archive/user_error.h"

namespace isobit::archive {

inline constexpr const char* kStepsLog = "steps.jsonl";
inline constexpr const char* kMetricsLog = "metrics.jsonl";
inline constexpr const char* kEvaluationsLog = "evaluations.jsonl";  // of Python programs; earlier versions had none
inline constexpr const char* kOutsideLog = "outside.jsonl";          // of Python programs; version 0.1 had none
inline constexpr const char* kPredictionsLog = "predictions.jsonl";  // where evaluate.predictions asks for it
inline constexpr const char* kTimingsLog = "timings.jsonl";
inline constexpr const char* kCheckpointsLog = "checkpoints.jsonl";

inline constexpr std::size_t kLongestLine = std::size_t{16} << 20;
inline constexpr std::int64_t kMostPredictions = 1'000'000;  // of a line: what a reader of JSON takes

// A line of checkpoints.jsonl: the checkpoint, and the logs as they were when it was written.
struct CheckpointLine {
  CheckpointEntry entry;
  std::map<std::string, FileDigest> logs;
};

[[nodiscard]] std::string format_line(const StepLine& line);
[[nodiscard]] std::string format_line(const MetricsLine& line);
[[nodiscard]] std::string format_line(const EvaluationLine& line);
[[nodiscard]] std::string format_line(const PredictionsLine& line);
[[nodiscard]] std::string format_line(const OutsideLine& line);
[[nodiscard]] std::string format_line(const TimingLine& line);
[[nodiscard]] std::string format_line(const CheckpointLine& line);

[[nodiscard]] bool parse_line(std::string_view text, StepLine& line);
[[nodiscard]] bool parse_line(std::string_view text, MetricsLine& line);
[[nodiscard]] bool parse_line(std::string_view text, EvaluationLine& line);
[[nodiscard]] bool parse_line(std::string_view text, PredictionsLine& line);
[[nodiscard]] bool parse_line(std::string_view text, OutsideLine& line);
[[nodiscard]] bool parse_line(std::string_view text, TimingLine& line);
[[nodiscard]] bool parse_line(std::string_view text, CheckpointLine& line);

// All lines of a finished log. A line that does not parse, or a last one without newline: UserError with file
// and line.
template <class Line>
[[nodiscard]] std::vector<Line> parse_log(std::string_view content, const std::filesystem::path& path) {
  std::vector<Line> lines;
  while (!content.empty()) {
    const auto end = content.find('\n');
    Line line;
    if (end == std::string_view::npos || !parse_line(content.substr(0, end), line)) {
      throw UserError(path.string() + ":" + std::to_string(lines.size() + 1),
                      end == std::string_view::npos ? "the last line is cut off" : "the line is damaged",
                      "restore the run's folder from a copy");
    }
    lines.push_back(std::move(line));
    content.remove_prefix(end + 1);
  }
  return lines;
}

// The sound lines at the beginning of a log that may have been cut off by a kill or a power failure.
template <class Line>
[[nodiscard]] std::vector<Line> parse_unfinished_log(std::string_view content) {
  std::vector<Line> lines;
  for (auto end = content.find('\n'); end != std::string_view::npos; end = content.find('\n')) {
    Line line;
    if (!parse_line(content.substr(0, end), line)) break;
    lines.push_back(std::move(line));
    content.remove_prefix(end + 1);
  }
  return lines;
}

}  // namespace isobit::archive
