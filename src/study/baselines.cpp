#include "study/baselines.h"

#include <fmt/format.h>

#include <cmath>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>

#include "archive/files.h"
#include "archive/json_text.h"
#include "archive/log_lines.h"
#include "archive/run_state.h"
#include "study/toml_text.h"

namespace isobit::study {
namespace {

using archive::UserError;
using Json = nlohmann::ordered_json;

constexpr Verdict kVerdicts[] = {Verdict::unchanged, Verdict::within, Verdict::moved, Verdict::unknown};

Json json_of(const CalibrationLine& line) {
  return {{"time", line.time},
          {"baseline", line.baseline},
          {"run", line.run},
          {"verdict", to_string(line.verdict)},
          {"weights", line.weights},
          {"metrics", line.metrics},
          {"environment", line.environment},
          {"note", line.note}};
}

CalibrationLine line_of(const Json& object) {
  CalibrationLine line;
  line.time = object.at("time").get<std::string>();
  line.baseline = object.at("baseline").get<std::string>();
  line.run = object.at("run").get<std::string>();
  for (const Verdict verdict : kVerdicts) {
    if (object.at("verdict") == to_string(verdict)) line.verdict = verdict;
  }
  line.weights = object.at("weights").get<std::string>();
  line.metrics = object.at("metrics").get<std::map<std::string, double>>();
  line.environment = object.at("environment").get<Environment>();
  line.note = object.at("note").get<std::string>();
  return line;
}

void flatten(const Json& object, const std::string& prefix, Environment& environment) {
  for (const auto& [key, value] : object.items()) {
    if (value.is_object()) {
      flatten(value, prefix + key + ".", environment);
    } else {
      environment[prefix + key] = value.is_string() ? value.get<std::string>() : value.dump();
    }
  }
}

}  // namespace

const char* to_string(Verdict verdict) {
  switch (verdict) {
    case Verdict::unchanged: return "unchanged";
    case Verdict::within: return "within spread";
    case Verdict::moved: return "moved";
    case Verdict::unknown: return "unknown";
  }
  return "";
}

std::vector<Baseline> read_baselines(const std::filesystem::path& runs) {
  std::vector<Baseline> baselines;
  const auto file = runs / kBaselinesFile;
  if (!archive::is_there(file)) return baselines;
  const std::string origin = file.string();
  const toml::table table = parse_table(archive::read_file(file, kLargestToml), origin);
  for (const auto& [key, node] : table) {
    const std::string place = place_in(origin, key.source());
    const auto refuse = [&](const std::string& problem) {
      throw UserError(place, problem, "write [NAME] with runs = [\"ID\"], or use isobit calibrate --add RUN --as NAME");
    };
    Baseline baseline{std::string(key.str()), {}, ""};
    if (!archive::is_run_name(baseline.name) || !node.is_table())
      refuse(fmt::format("'{}' is no baseline", baseline.name));
    for (const auto& [word, value] : *node.as_table()) {
      if (word.str() == "added" && value.is_string()) {
        baseline.added = *value.value<std::string>();
      } else if (word.str() == "runs" && value.is_array()) {
        for (const toml::node& id : *value.as_array()) {
          const std::string text = id.value_or(std::string());
          if (!archive::is_run_name(text.substr(0, 64)) || text.size() > 128 || text.find('/') != std::string::npos)
            refuse(fmt::format("the baseline '{}' names a run that cannot be", baseline.name));
          baseline.runs.push_back(text);
        }
      } else {
        refuse(fmt::format("the baseline '{}' has an unknown key '{}'", baseline.name, std::string(word.str())));
      }
    }
    if (baseline.runs.empty()) refuse(fmt::format("the baseline '{}' names no run", baseline.name));
    baselines.push_back(std::move(baseline));
  }
  return baselines;
}

void write_baselines(const std::filesystem::path& runs, const std::vector<Baseline>& baselines) {
  std::string text = "# Baselines of this archive: isobit calibrate makes them anew (docs/formats/study.md).\n";
  for (const Baseline& baseline : baselines) {
    text += fmt::format("\n[{}]\nruns = {}\nadded = {}\n", Json(baseline.name).dump(), Json(baseline.runs).dump(),
                        Json(baseline.added).dump());
  }
  archive::write_file(runs / kBaselinesFile, text);
}

Environment environment_of(const std::string& json) {
  Environment environment;
  try {
    flatten(archive::parse_json(json), "", environment);
  } catch (const std::exception&) {  // of an earlier version, or not isobit's: nothing is known
    return {};
  }
  environment.erase("format");
  environment.erase("hardware.memory");
  return environment;
}

std::string format_line(const CalibrationLine& line) {
  return json_of(line).dump(-1, ' ', true, Json::error_handler_t::replace) + "\n";
}

bool parse_line(std::string_view text, CalibrationLine& line) {
  if (text.size() > archive::kLongestLine) return false;
  try {
    line = line_of(archive::parse_json(text));
  } catch (const std::exception&) {
    return false;
  }
  return format_line(line) == std::string(text) + "\n";
}

std::vector<CalibrationLine> read_history(const std::filesystem::path& runs, const std::string& baseline) {
  std::vector<CalibrationLine> lines;
  const auto file = runs / kCalibrationsLog;
  if (!archive::is_there(file)) return lines;
  const std::string content = archive::read_file(file);
  std::string_view rest = content;
  for (std::size_t number = 1; rest.find('\n') != std::string_view::npos; ++number) {
    const std::string_view text = rest.substr(0, rest.find('\n'));
    CalibrationLine line;
    if (!parse_line(text, line))
      throw UserError(fmt::format("{}:{}", file.string(), number), "the line is damaged",
                      "remove the line; the history is then without it");
    if (line.baseline == baseline) lines.push_back(std::move(line));
    rest.remove_prefix(text.size() + 1);
  }
  return lines;
}

void append_history(const std::filesystem::path& runs, const CalibrationLine& line) {
  const auto path = runs / kCalibrationsLog;
  // What a kill left of a line would spoil the next one.
  const std::string before = archive::is_there(path) ? archive::read_file(path) : "";
  const auto whole = before.rfind('\n') == std::string::npos ? 0 : before.rfind('\n') + 1;
  if (whole != before.size()) archive::write_file(path, before.substr(0, whole));
  archive::AppendFile file(path);
  file.append(format_line(line));
  file.sync();
}

}  // namespace isobit::study
