#include "report/study_check.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <optional>
#include <set>
#include <string_view>
#include <unordered_map>
#include <utility>

#include "archive/printable.h"
#include "archive/user_error.h"

namespace isobit::report {
namespace {

// The last value of "test.accuracy".
std::optional<double> value_of(const RunEntry& run, const std::string& metric) {
  const auto dot = metric.find('.');
  if (dot == std::string::npos) return std::nullopt;
  std::optional<double> last;
  for (const archive::MetricsLine& line : run.metrics) {
    if (line.set != metric.substr(0, dot)) continue;
    if (const auto found = line.values.find(metric.substr(dot + 1)); found != line.values.end()) last = found->second;
  }
  return last;
}

// A factor that is a key of the experiment, as its record has it; nothing for options of the program.
std::optional<Json> setting_of(const RunEntry& run, const std::string& key) {
  for (const auto& [name, text] : run.settings) {
    if (name != key) continue;
    Json value = Json::parse(text, nullptr, /*allow_exceptions=*/false);
    if (!value.is_discarded()) return value;
  }
  return std::nullopt;
}

// A factor of a study of a script is an argument of it: "--lr 0.1". Nothing where its record does not say (secrets are
// left out of it, and a home is ~), and for options of the execution, which no argument has (study/study_file.h), and
// algorithms, which are several.
std::optional<Json> argument_of(const RunEntry& run, const std::string& key, const Json& level) {
  constexpr std::string_view kElsewhere[] = {"threads", "isa",         "device",   "capability",
                                             "workers", "environment", "algorithm"};
  if (std::find(std::begin(kElsewhere), std::end(kElsewhere), key) != std::end(kElsewhere)) return std::nullopt;
  const auto words = setting_of(run, "script.arguments");
  if (!words || !words->is_array()) return std::nullopt;
  std::optional<std::string> found;  // the last one counts
  for (std::size_t i = 0; i + 1 < words->size(); ++i) {
    if ((*words)[i] == "--" + key && (*words)[i + 1].is_string()) found = (*words)[i + 1].get<std::string>();
  }
  if (!found) return Json("no argument");
  if (found->starts_with('~') || found->find("~/") != std::string::npos ||
      found->find("(left out)") != std::string::npos)
    return std::nullopt;
  if (level.is_string()) return Json(*found);
  Json value = Json::parse(*found, nullptr, /*allow_exceptions=*/false);
  return value.is_discarded() ? std::nullopt : std::optional(std::move(value));  // a number as only TOML spells it
}

bool same(const Json& a, const Json& b) {
  if (a.is_number() && b.is_number()) return a.get<double>() == b.get<double>();
  return a == b;
}

}  // namespace

void check_study(Study& study, const std::vector<RunEntry>& runs, const std::filesystem::path& folder) {
  std::unordered_map<std::string, const RunEntry*> by_id;
  for (const RunEntry& run : runs) by_id[run.summary.id] = &run;
  const auto metric = study.cells["metric"].get<std::string>();
  std::set<std::string> counted;
  for (Json& cell : study.cells["cells"]) {
    cell["standing"] = "claimed";
    const auto found = by_id.find(cell["run"].get<std::string>());
    if (found == by_id.end() || found->second->summary.state != archive::RunState::finished) continue;
    const RunEntry& run = *found->second;
    const auto refuse = [&](const std::string& what) {
      throw archive::UserError((folder / "cells.json").string(),
                               fmt::format("cell {} is not what its record {} says: {}", cell["index"].dump(),
                                           run.summary.id, archive::printable(what)),
                               "isobit study FILE --gather writes the list anew from the records");
    };
    const std::optional<double> recorded = value_of(run, metric);
    if (!cell["value"].is_null() && (!recorded || *recorded != cell["value"].get<double>()))
      refuse(fmt::format("{} is {} in it, {} here", metric, recorded ? Json(*recorded).dump() : "missing",
                         cell["value"].dump()));
    for (const auto& [key, level] : cell["factors"].items()) {
      const auto setting = run.script ? argument_of(run, key, level) : setting_of(run, key);
      if (setting && !same(*setting, level))
        refuse(fmt::format("{} is {} in it, {} here", key, setting->dump(), level.dump()));
    }
    if (cell["value"].is_null()) continue;
    // Repeats and options of the execution stand in no record: one run would count as many.
    if (!counted.insert(run.summary.id).second) refuse("it is another cell's run, too");
    cell["standing"] = "record";
  }
}

}  // namespace isobit::report
