#include "report/tables.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "archive/field_standing.h"
#include "archive/json_text.h"
#include "archive/log_lines.h"
#include "archive/printable.h"
#include "archive/run_state.h"
#include "archive/user_error.h"
#include "report/run_entry.h"
#include "report/settings.h"

namespace isobit::report {

Json number(double value) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value > 0 ? "inf" : "-inf";
  return value;
}

namespace {

Json text_or_null(const std::string& text) { return text.empty() ? Json(nullptr) : Json(text); }

// A table with these columns and no rows.
Json table_of(std::initializer_list<const char*> columns) {
  Json table = Json::object();
  for (const char* column : columns) table[column] = Json::array();
  return table;
}

void add_row(Json& table, std::initializer_list<Json> values) {
  auto value = values.begin();
  for (auto& [name, column] : table.items()) column.push_back(*value++);
}

template <class Line>
std::vector<Line> lines_of(const std::map<std::string, std::string>& texts, const char* log) {
  const auto at = texts.find(log);
  return at == texts.end() ? std::vector<Line>() : archive::parse_log<Line>(at->second, log);
}

Json data_table(const std::map<std::string, std::string>& texts) {
  Json table = table_of({"name", "size", "sha256"});
  const auto at = texts.find(archive::kDataFile);
  if (at == texts.end()) return table;
  const Json data = archive::parse_json(at->second);
  if (!data.is_object() || !data.contains("files") || !data["files"].is_array()) return table;
  for (const Json& file : data["files"]) {
    if (file.is_object()) {
      add_row(table, {file.value("name", Json(nullptr)), file.value("size", Json(nullptr)),
                      file.value("sha256", Json(nullptr))});
    }
  }
  return table;
}

}  // namespace

Json run_tables(const std::map<std::string, std::string>& texts) {
  Json tables = Json::object();
  Json& steps = tables["steps"] =
      table_of({"step", "epoch", "loss", "loss_bits", "batch", "weights", "optimizer", "gradients"});
  for (const auto& line : lines_of<archive::StepLine>(texts, archive::kStepsLog)) {
    add_row(steps, {line.step, line.epoch, number(decimal_loss(line.loss_bits)), hex_bits(line.loss_bits), line.batch,
                    text_or_null(line.weights), text_or_null(line.optimizer), text_or_null(line.gradients)});
  }
  Json& metrics = tables["metrics"] = table_of({"step", "epoch", "set", "name", "value"});
  for (const auto& line : lines_of<archive::MetricsLine>(texts, archive::kMetricsLog)) {
    for (const auto& [name, value] : line.values)
      add_row(metrics, {line.step, line.epoch, line.set, name, number(value)});
  }
  Json& timings = tables["timings"] = table_of({"step", "phase", "seconds", "samples"});
  for (const auto& line : lines_of<archive::TimingLine>(texts, archive::kTimingsLog))
    add_row(timings, {line.step, line.phase, number(line.seconds), line.samples});
  Json& checkpoints = tables["checkpoints"] = table_of({"step", "file", "size", "sha256", "weights_sha256"});
  for (const auto& line : lines_of<archive::CheckpointLine>(texts, archive::kCheckpointsLog)) {
    add_row(checkpoints, {line.entry.step, line.entry.file, line.entry.size, line.entry.sha256,
                          text_or_null(line.entry.weights_sha256)});
  }
  Json& evaluations = tables["evaluations"] = table_of({"step", "epoch", "tensors", "batches"});
  for (const auto& line : lines_of<archive::EvaluationLine>(texts, archive::kEvaluationsLog))
    add_row(evaluations, {line.step, line.epoch, line.tensors, line.batches});
  Json& outside = tables["outside"] = table_of({"after", "until", "place", "call"});
  for (const auto& line : lines_of<archive::OutsideLine>(texts, archive::kOutsideLog))
    add_row(outside, {line.after, line.until, line.place, line.call});
  Json& settings = tables["settings"] = table_of({"key", "value"});
  if (const auto at = texts.find(archive::kExperimentFile); at != texts.end()) {
    for (const auto& [key, value] : parse_settings(at->second)) add_row(settings, {key, value});
  }
  tables["data"] = data_table(texts);
  return tables;
}

Json claimed_columns(const std::map<std::string, std::string>& texts) {
  Json claimed = {"run"};
  for (const char* column : {"step", "phase", "seconds", "samples"})
    claimed.push_back(std::string("timings.") + column);
  for (const char* column : {"size", "sha256"})
    claimed.push_back(fmt::format("checkpoints.{} of files that were deleted", column));
  const auto experiment = texts.find(archive::kExperimentFile);
  if (experiment != texts.end()) {
    for (const std::string& key : archive::claimed_settings(experiment->second)) claimed.push_back("settings: " + key);
  }
  return claimed;
}

std::string csv_text(const Json& table) {
  const auto cell = [](const Json& value) {
    if (value.is_null()) return std::string();
    std::string plain = value.is_string() ? archive::printable(value.get<std::string>()) : value.dump();
    // Spreadsheets take such a text for a formula, and do what it says.
    if (value.is_string() && !plain.empty() && std::string_view("=+-@").find(plain[0]) != std::string_view::npos)
      plain.insert(0, "'");
    if (plain.find_first_of("\",\r\n") == std::string::npos) return plain;
    std::string quoted = "\"";
    for (const char c : plain) quoted += c == '"' ? std::string("\"\"") : std::string(1, c);
    return quoted + "\"";
  };
  std::string text;
  std::vector<const Json*> columns;
  for (const auto& [name, column] : table.items()) {
    text += (columns.empty() ? "" : ",") + cell(name);
    columns.push_back(&column);
  }
  text += "\r\n";
  for (std::size_t row = 0; !columns.empty() && row < columns[0]->size(); ++row) {
    for (std::size_t i = 0; i < columns.size(); ++i) text += (i == 0 ? "" : ",") + cell((*columns[i])[row]);
    text += "\r\n";
  }
  return text;
}

}  // namespace isobit::report
