#include "study/results_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "archive/printable.h"

namespace isobit::study {
namespace {

using Json = nlohmann::ordered_json;
using Table = std::vector<std::vector<std::string>>;

Json number(double value) { return std::isfinite(value) ? Json(value) : Json(nullptr); }
template <class Value>
Json maybe(const std::optional<Value>& value) {
  return value ? Json(*value) : Json(nullptr);
}

Json json_of(const FactorLevels& levels) {
  Json object = Json::object();
  for (const auto& [key, level] : levels) object[key] = Json::parse(level.json);
  return object;
}

Json json_of(const ComponentTable& table) {
  Json list = Json::array();
  for (const Component& c : table.components.components) {
    list.push_back({{"factor", c.factor},
                    {"variance", number(c.variance)},
                    {"share", number(c.share)},
                    {"low", number(c.share_interval.low)},
                    {"high", number(c.share_interval.high)},
                    {"estimate", number(c.estimate)},
                    {"variance_low", number(c.variance_interval.low)},
                    {"variance_high", number(c.variance_interval.high)},
                    {"levels", c.levels},
                    {"within", json_of(table.within)},
                    {"balanced", table.components.balanced}});
  }
  return list;
}

Json json_of(const Study& study, const Comparison& c) {
  return {{"factor", study.compare},
          {"a", Json::parse(c.a.json)},
          {"b", Json::parse(c.b.json)},
          {"n", c.n},
          {"runs", c.runs},
          {"difference", number(c.difference)},
          {"low", number(c.interval.low)},
          {"high", number(c.interval.high)},
          {"noise", number(c.noise)},
          {"p_permutation", number(c.p_permutation)},
          {"p_exact", c.exact},
          {"p_resolution", c.resolution},
          {"p_mcnemar", maybe(c.p_mcnemar)},
          {"p_corrected_t", maybe(c.p_corrected_t)},
          {"p_adjusted", number(c.p_adjusted)},
          {"runs_needed", maybe(c.runs_needed)},
          {"detectable", maybe(c.detectable)},
          {"verdict", c.verdict}};
}

// Columns as wide as their widest text, numbers to the right.
std::string aligned(const Table& table, std::size_t left) {
  std::vector<std::size_t> widths;
  for (const auto& row : table) {
    widths.resize(std::max(widths.size(), row.size()));
    for (std::size_t i = 0; i < row.size(); ++i) {
      const auto continuation = std::count_if(row[i].begin(), row[i].end(), [](char c) { return (c & 0xc0) == 0x80; });
      widths[i] = std::max(widths[i], row[i].size() - static_cast<std::size_t>(continuation));
    }
  }
  std::string text;
  for (const auto& row : table) {
    std::string line;
    for (std::size_t i = 0; i < row.size(); ++i) {
      line += i == 0 ? "  " : "   ";
      line += i < left ? fmt::format("{:<{}}", row[i], widths[i]) : fmt::format("{:>{}}", row[i], widths[i]);
    }
    text += line.substr(0, line.find_last_not_of(' ') + 1) + "\n";
  }
  return text;
}

std::string figure(double value) { return std::isfinite(value) ? fmt::format("{:.6g}", value) : "-"; }
std::string p_value(double p) { return p < 0.0001 ? "<0.0001" : fmt::format("{:.4f}", p); }
std::string percent(double share) { return fmt::format("{:.1f} %", 100 * share); }

std::string summary_text(const Study& study, const Results& results) {
  Table table;
  table.emplace_back();
  for (const auto& [key, level] : results.summary[0].factors) table[0].push_back(key);
  if (table[0].empty()) table[0].emplace_back("all runs");
  const std::size_t left = table[0].size();
  const std::string cover = fmt::format("{:g} %", 100 * (1 - study.alpha));
  for (const std::string& head :
       {std::string("n"), std::string("mean"), std::string("sd"), cover + " from", std::string("to")})
    table[0].push_back(head);
  for (const SummaryRow& row : results.summary) {
    std::vector<std::string> line;
    for (const auto& [key, level] : row.factors) line.push_back(archive::printable(level.text));
    if (line.empty()) line.emplace_back("");
    for (const std::string& cell :
         {std::to_string(row.n), figure(row.mean), figure(row.sd), figure(row.interval.low), figure(row.interval.high)})
      line.push_back(cell);
    table.push_back(std::move(line));
  }
  return aligned(table, left);
}

std::string components_text(const Results& results) {
  std::string text;
  for (const ComponentTable& part : results.components) {
    if (part.components.components.empty()) continue;
    std::string head = "\nWhat explains the spread";
    for (const auto& [key, level] : part.within) head += fmt::format(" ({} = {})", key, level.text);
    Table table{{"factor", "levels", "share", "from", "to"}};
    for (const Component& c : part.components.components)
      table.push_back({c.factor, std::to_string(c.levels), percent(c.share), percent(c.share_interval.low),
                       percent(c.share_interval.high)});
    text += head + "\n" + aligned(table, 1);
  }
  return text;
}

std::string comparisons_text(const Study& study, const Results& results) {
  if (results.comparisons.empty()) return "";
  std::string text = fmt::format("\n{} compared, in pairs that share {} (difference: second minus first)\n",
                                 study.compare, results.unit);
  Table table{{"first", "second", "pairs", "difference", "from", "to", "noise", "p signs"}};
  const bool folds = results.comparisons[0].p_corrected_t.has_value();
  const bool samples = std::any_of(results.comparisons.begin(), results.comparisons.end(),
                                   [](const Comparison& c) { return c.p_mcnemar.has_value(); });
  if (folds) table[0].emplace_back("p corrected t");
  if (samples) table[0].emplace_back("p McNemar");
  for (const Comparison& c : results.comparisons) {
    table.push_back({c.a.text, c.b.text, std::to_string(c.n), figure(c.difference), figure(c.interval.low),
                     figure(c.interval.high), figure(c.noise), p_value(c.p_permutation)});
    if (folds) table.back().push_back(c.p_corrected_t ? p_value(*c.p_corrected_t) : "-");
    if (samples) table.back().push_back(c.p_mcnemar ? p_value(*c.p_mcnemar) : "-");
  }
  text += aligned(table, 2);
  for (const Comparison& c : results.comparisons) {
    text += fmt::format("  {} and {}: {}\n", c.a.text, c.b.text, c.verdict);
    if (c.detectable && *c.detectable > 0)
      text += fmt::format("    {} pairs find a difference of {} or more in {:.0f} % of cases\n", c.n,
                          figure(*c.detectable), 100 * study.power);
  }
  return text;
}

}  // namespace

std::string results_json(const Study& study, const Results& results) {
  Json object{{"format", "isobit-study-1"},   {"name", study.name},          {"metric", study.metric},
              {"unit", results.unit},         {"alpha", study.alpha},        {"power", study.power},
              {"summary", Json::array()},     {"components", Json::array()}, {"comparisons", Json::array()},
              {"findings", results.findings}, {"warnings", results.warnings}};
  for (const SummaryRow& row : results.summary) {
    object["summary"].push_back({{"factors", json_of(row.factors)},
                                 {"n", row.n},
                                 {"runs", row.runs},
                                 {"mean", number(row.mean)},
                                 {"sd", number(row.sd)},
                                 {"low", number(row.interval.low)},
                                 {"high", number(row.interval.high)}});
  }
  for (const ComponentTable& table : results.components) {
    for (Json& entry : json_of(table)) object["components"].push_back(std::move(entry));
  }
  for (const Comparison& c : results.comparisons) object["comparisons"].push_back(json_of(study, c));
  return object.dump(2, ' ', true, Json::error_handler_t::replace) + "\n";
}

std::string results_text(const Study& study, const Results& results) {
  std::string text = fmt::format("{}: {} (n counts each {} once)\n", study.name, study.metric, results.unit);
  if (!results.summary.empty()) text += summary_text(study, results);
  text += components_text(results);
  text += comparisons_text(study, results);
  if (!results.findings.empty()) text += "\n";
  for (const std::string& finding : results.findings) text += finding + "\n";
  if (!results.warnings.empty()) text += "\n";
  for (const std::string& warning : results.warnings) text += "note: " + warning + "\n";
  return archive::printable_lines(text);
}

}  // namespace isobit::study
