#include "report/inputs.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "archive/files.h"
#include "archive/json_text.h"
#include "archive/printable.h"
#include "archive/user_error.h"

namespace isobit::report {
namespace {

namespace fs = std::filesystem;
using archive::UserError;

enum class Kind { text, number, number_or_null, text_or_null, flag, list, list_or_null, object, object_or_null };

const char* describe(Kind kind) {
  switch (kind) {
    case Kind::text: return "a text";
    case Kind::number: return "a number";
    case Kind::number_or_null: return "a number or null";
    case Kind::text_or_null: return "a text or null";
    case Kind::flag: return "true or false";
    case Kind::list: return "a list";
    case Kind::list_or_null: return "a list or null";
    case Kind::object: return "an object";
    case Kind::object_or_null: return "an object or null";
  }
  return "";
}

// JSON has no NaN and no infinities: they are texts, as in a record.
bool is_number(const Json& value) { return value.is_number() || value == "nan" || value == "inf" || value == "-inf"; }

bool is_of(const Json& value, Kind kind) {
  switch (kind) {
    case Kind::text: return value.is_string();
    case Kind::number: return is_number(value);
    case Kind::number_or_null: return value.is_null() || is_number(value);
    case Kind::text_or_null: return value.is_null() || value.is_string();
    case Kind::flag: return value.is_boolean();
    case Kind::list: return value.is_array();
    case Kind::list_or_null: return value.is_null() || value.is_array();
    case Kind::object: return value.is_object();
    case Kind::object_or_null: return value.is_null() || value.is_object();
  }
  return false;
}

struct Field {
  const char* key;
  Kind kind;
  bool optional = false;
};

constexpr std::uint64_t kLargestInput = std::uint64_t{1} << 28;

// A file that is read, and where in it we are, for messages.
class Place {
 public:
  Place(fs::path file, std::string remedy) : file_(std::move(file)), remedy_(std::move(remedy)) {}

  [[noreturn]] void refuse(const std::string& where, const std::string& problem) const {
    throw UserError(file_.string() + (where.empty() ? "" : ": " + where), problem, remedy_);
  }

  // The known keys of an object, each of its kind.
  [[nodiscard]] Json fields(const Json& object, const std::string& where, const std::vector<Field>& known) const {
    if (!object.is_object()) refuse(where, "is no object");
    Json taken = Json::object();
    for (const Field& field : known) {
      const auto at = object.find(field.key);
      const std::string name = where.empty() ? field.key : where + "." + field.key;
      if (at == object.end()) {
        if (!field.optional) refuse(name, "is missing");
        taken[field.key] = nullptr;
      } else if (!is_of(*at, field.kind) && !(field.optional && at->is_null())) {
        refuse(name, fmt::format("is not {}", describe(field.kind)));
      } else {
        taken[field.key] = *at;
      }
    }
    return taken;
  }

  // A list of objects, each with these keys.
  [[nodiscard]] Json rows(const Json& list, const std::string& where, const std::vector<Field>& known) const {
    Json taken = Json::array();
    for (std::size_t i = 0; i < list.size(); ++i)
      taken.push_back(fields(list[i], fmt::format("{}[{}]", where, i), known));
    return taken;
  }

  [[nodiscard]] Json parse(const char* format) const { return parse(archive::read_file(file_, kLargestInput), format); }
  [[nodiscard]] Json parse(const std::string& text, const char* format) const {
    Json object;
    try {
      object = archive::parse_json(text);
    } catch (const std::exception& error) {
      refuse("", fmt::format("cannot be read as JSON: {}", error.what()));
    }
    if (!object.is_object() || !object.contains("format") || object["format"] != format)
      refuse("format", fmt::format("is not {}", format));
    return object;
  }

 private:
  fs::path file_;
  std::string remedy_;
};

// At most `most` of the values, evenly, the first and the last among them.
Json evenly(const Json& list, std::size_t most) {
  if (list.size() <= most) return list;
  Json taken = Json::array();
  for (std::size_t i = 0; i < most; ++i) taken.push_back(list[i * (list.size() - 1) / (most - 1)]);
  return taken;
}

template <class Key>
std::set<Key> set_of(const Json& list) {
  std::set<Key> values;
  for (const Json& value : list) values.insert(value.get<Key>());
  return values;
}

void require_kind(const Place& place, const Json& list, const std::string& where, Kind kind) {
  for (std::size_t i = 0; i < list.size(); ++i) {
    const bool good = kind == Kind::number ? list[i].is_number_integer() : is_of(list[i], kind);
    if (!good) {
      place.refuse(fmt::format("{}[{}]", where, i),
                   fmt::format("is not {}", kind == Kind::number ? "a whole number" : describe(kind)));
    }
  }
}

}  // namespace

Json printable_json(const Json& value) {
  if (value.is_string()) return archive::printable_lines(value.get_ref<const std::string&>());
  if (value.is_array()) {
    Json list = Json::array();
    for (const Json& item : value) list.push_back(printable_json(item));
    return list;
  }
  if (value.is_object()) {
    Json object = Json::object();
    for (const auto& [key, item] : value.items()) object[archive::printable(key)] = printable_json(item);
    return object;
  }
  return value;
}

Json read_diff(const fs::path& file) { return parse_diff(archive::read_file(file, kLargestInput), file); }
Json read_drift(const fs::path& file) { return parse_drift(archive::read_file(file, kLargestInput), file); }

Json parse_diff(const std::string& text, const fs::path& origin) {
  const Place place(origin, "write it with isobit diff A B --json");
  const Json given = place.parse(text, "isobit-diff-1");
  Json diff = place.fields(given, "",
                           {{"results", Kind::text},
                            {"a", Kind::object},
                            {"b", Kind::object},
                            {"differences", Kind::list},
                            {"code_diff", Kind::text, true},
                            {"compared", Kind::object, true},
                            {"first_step", Kind::object_or_null},
                            {"operator", Kind::object_or_null},
                            {"not_looked_into", Kind::text, true}});
  if (diff["results"] != "equal" && diff["results"] != "differ" && diff["results"] != "unknown")
    place.refuse("results", "is not equal, differ or unknown");
  for (const char* side : {"a", "b"}) {
    diff[side] = place.fields(
        diff[side], side,
        {{"id", Kind::text}, {"name", Kind::text, true}, {"path", Kind::text, true}, {"contract", Kind::text, true}});
  }
  for (std::size_t i = 0; i < diff["differences"].size(); ++i) {
    const Json& row = diff["differences"][i];
    const std::string where = fmt::format("differences[{}]", i);
    Json taken = place.fields(row, where, {{"part", Kind::text}, {"key", Kind::text}, {"counts", Kind::flag, true}});
    for (const char* side : {"a", "b"}) {
      const Json value = row.contains(side) ? row[side] : Json(nullptr);
      taken[side] = value.is_string() || value.is_null() ? value : Json(value.dump());
    }
    diff["differences"][i] = taken;
  }
  if (!diff["first_step"].is_null()) {
    Json& step = diff["first_step"];
    const Json a = step.value("a", Json(nullptr)), b = step.value("b", Json(nullptr));
    step = place.fields(step, "first_step",
                        {{"step", Kind::number}, {"epoch", Kind::number, true}, {"field", Kind::text}});
    step["a"] = a.is_null() || a.is_string() ? a : Json(a.dump());
    step["b"] = b.is_null() || b.is_string() ? b : Json(b.dump());
  }
  if (!diff["operator"].is_null()) {
    diff["operator"] = place.fields(diff["operator"], "operator",
                                    {{"step", Kind::number},
                                     {"phase", Kind::text, true},
                                     {"module", Kind::text, true},
                                     {"name", Kind::text},
                                     {"occurrence", Kind::number, true},
                                     {"output", Kind::number, true},
                                     {"shape", Kind::list, true},
                                     {"dtype", Kind::text, true},
                                     {"max_ulp", Kind::number, true},
                                     {"at", Kind::list, true},
                                     {"differing", Kind::number, true},
                                     {"elements", Kind::number, true}});
  }
  return printable_json(diff);
}

Json parse_drift(const std::string& text, const fs::path& origin) {
  const Place place(origin, "write it with isobit drift RUN RUN --json");
  const Json given = place.parse(text, "isobit-drift-1");
  Json drift = place.fields(given, "",
                            {{"reference", Kind::text},
                             {"runs", Kind::list},
                             {"steps", Kind::list},
                             {"layers", Kind::list},
                             {"cells", Kind::list},
                             {"per_step", Kind::list, true}});
  require_kind(place, drift["runs"], "runs", Kind::text);
  require_kind(place, drift["layers"], "layers", Kind::text);
  require_kind(place, drift["steps"], "steps", Kind::number);
  drift["cells"] = place.rows(drift["cells"], "cells",
                              {{"run", Kind::text},
                               {"step", Kind::number},
                               {"layer", Kind::text},
                               {"max_ulp", Kind::number},
                               {"median_ulp", Kind::number, true},
                               {"relative_norm", Kind::number, true},
                               {"flipped_signs", Kind::number, true}});
  if (drift["per_step"].is_null()) drift["per_step"] = Json::array();
  drift["per_step"] = place.rows(drift["per_step"], "per_step",
                                 {{"run", Kind::text},
                                  {"step", Kind::number},
                                  {"loss", Kind::number, true},
                                  {"loss_difference", Kind::number, true},
                                  {"accuracy", Kind::number_or_null, true},
                                  {"churn", Kind::number_or_null, true}});
  drift["all_steps"] = drift["steps"].size();
  drift["all_layers"] = drift["layers"].size();
  drift["steps"] = evenly(drift["steps"], kMostDriftSteps);
  drift["layers"] = evenly(drift["layers"], kMostDriftLayers);
  const auto steps = set_of<std::int64_t>(drift["steps"]);
  const auto layers = set_of<std::string>(drift["layers"]);
  Json cells = Json::array();
  for (const Json& cell : drift["cells"]) {
    if (!cell["step"].is_number_integer()) place.refuse("cells", "has a step that is no whole number");
    if (steps.contains(cell["step"].get<std::int64_t>()) && layers.contains(cell["layer"].get<std::string>()))
      cells.push_back(cell);
  }
  drift["cells"] = cells;
  return printable_json(drift);
}

bool is_study(const fs::path& folder) {
  return archive::is_there(folder / "cells.json") || archive::is_there(folder / "results.json");
}

namespace {

Json read_cells(const fs::path& file) {
  const Place place(file, "run isobit study again: it writes this file");
  Json cells = place.fields(place.parse("isobit-study-cells-1"), "",
                            {{"name", Kind::text}, {"metric", Kind::text}, {"cells", Kind::list}});
  cells["cells"] = place.rows(cells["cells"], "cells",
                              {{"index", Kind::number},
                               {"factors", Kind::object},
                               {"repeat", Kind::number, true},
                               {"fold", Kind::number_or_null, true},
                               {"group", Kind::list_or_null, true},
                               {"state", Kind::text},
                               {"run", Kind::text},
                               {"value", Kind::number_or_null},
                               {"note", Kind::text, true}});
  return cells;
}

Json read_results(const fs::path& file) {
  const Place place(file, "run isobit study again: it writes this file");
  Json results = place.fields(place.parse("isobit-study-1"), "",
                              {{"name", Kind::text},
                               {"metric", Kind::text},
                               {"summary", Kind::list},
                               {"components", Kind::list, true},
                               {"comparisons", Kind::list, true},
                               {"warnings", Kind::list, true}});
  for (const char* list : {"components", "comparisons", "warnings"}) {
    if (results[list].is_null()) results[list] = Json::array();
  }
  results["summary"] = place.rows(results["summary"], "summary",
                                  {{"factors", Kind::object},
                                   {"n", Kind::number},
                                   {"mean", Kind::number_or_null},
                                   {"sd", Kind::number_or_null, true},
                                   {"low", Kind::number_or_null, true},
                                   {"high", Kind::number_or_null, true}});
  results["components"] = place.rows(results["components"], "components",
                                     {{"factor", Kind::text},
                                      {"variance", Kind::number_or_null},
                                      {"share", Kind::number_or_null},
                                      {"low", Kind::number_or_null, true},
                                      {"high", Kind::number_or_null, true}});
  // A level may be a number or a text: both are shown as they stand.
  Json comparisons = results["comparisons"];
  for (Json& row : comparisons) {
    if (!row.is_object()) place.refuse("comparisons", "holds what is no object");
    for (const char* side : {"a", "b"}) {
      if (row.contains(side) && !row[side].is_string()) row[side] = row[side].dump();
    }
  }
  results["comparisons"] = place.rows(comparisons, "comparisons",
                                      {{"factor", Kind::text},
                                       {"a", Kind::text},
                                       {"b", Kind::text},
                                       {"n", Kind::number},
                                       {"difference", Kind::number_or_null},
                                       {"low", Kind::number_or_null, true},
                                       {"high", Kind::number_or_null, true},
                                       {"noise", Kind::number_or_null, true},
                                       {"p_permutation", Kind::number_or_null, true},
                                       {"p_mcnemar", Kind::number_or_null, true},
                                       {"p_corrected_t", Kind::number_or_null, true},
                                       {"runs_needed", Kind::number_or_null, true},
                                       {"verdict", Kind::text}});
  require_kind(place, results["warnings"], "warnings", Kind::text);
  return results;
}

}  // namespace

Study read_study(const fs::path& folder) {
  const fs::path cells = folder / "cells.json", results = folder / "results.json";
  if (!archive::is_there(cells)) {
    throw UserError(cells.string(), "is missing: this is no study's folder", "name the folder that isobit study wrote");
  }
  Study study;
  study.cells = read_cells(cells);
  study.results = archive::is_there(results) ? read_results(results) : Json(nullptr);
  std::set<std::string> seen;
  for (Json& cell : study.cells["cells"]) {
    const std::string run = cell["run"].get<std::string>();
    if (run.empty()) continue;
    if (run.find('/') != std::string::npos || run.starts_with('.')) {
      throw UserError(cells.string(), fmt::format("'{}' is no run's id", archive::printable(run)),
                      "run isobit study again");
    }
    if (seen.insert(run).second && archive::is_there(folder / "runs" / run))
      study.runs.push_back(folder / "runs" / run);
  }
  study.cells = printable_json(study.cells);
  study.results = printable_json(study.results);
  return study;
}

}  // namespace isobit::report
