// Baselines of an archive: finished runs under names, that isobit calibrate makes anew after an upgrade; and the
// history of what came out (docs/formats/study.md, "Baselines").
//
//   RUNS/baselines.toml      [name] with runs = [ids] and added = "time"; of stock arithmetic several runs, whose
//   spread is
//                            what a new one is judged by
//   RUNS/calibrations.jsonl  a line per baseline and calibration, in one spelling
//
// Files appear whole; errors are UserError naming file and line. No state; thread-safe.
#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace isobit::study {

inline constexpr const char* kBaselinesFile = "baselines.toml";
inline constexpr const char* kCalibrationsLog = "calibrations.jsonl";

struct Baseline {
  std::string name;
  std::vector<std::string> runs;  // ids; the first is the baseline
  std::string added;              // UTC
};

// By name; none where the file is missing.
[[nodiscard]] std::vector<Baseline> read_baselines(const std::filesystem::path& runs);
void write_baselines(const std::filesystem::path& runs, const std::vector<Baseline>& baselines);

enum class Verdict {
  unchanged,  // the same bits
  within,     // stock: other bits, within the recorded spread
  moved,
  unknown,  // nobody can tell: no run came about, or no spread is recorded
};
[[nodiscard]] const char* to_string(Verdict verdict);

// "program.version": "0.2.0", ...: what of an environment may move a result.
using Environment = std::map<std::string, std::string>;
// Of a record's environment.json; empty where the text is no such object.
[[nodiscard]] Environment environment_of(const std::string& json);

struct CalibrationLine {
  std::string time, baseline, run;  // run: the baseline's id
  Verdict verdict = Verdict::unknown;
  std::string weights;                    // of the new run; "" where there was none
  std::map<std::string, double> metrics;  // "test.accuracy", finite ones
  Environment environment;
  std::string note;
  friend bool operator==(const CalibrationLine&, const CalibrationLine&) = default;
};
[[nodiscard]] std::string format_line(const CalibrationLine& line);  // with its newline
// Takes exactly what format_line writes, without the newline; false for anything else.
[[nodiscard]] bool parse_line(std::string_view text, CalibrationLine& line);

// Of one baseline, oldest first. A last line that a kill cut off is not there.
[[nodiscard]] std::vector<CalibrationLine> read_history(const std::filesystem::path& runs, const std::string& baseline);
void append_history(const std::filesystem::path& runs, const CalibrationLine& line);

}  // namespace isobit::study
