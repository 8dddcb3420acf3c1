#include "study/recorded_cell.h"

#include <fmt/format.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "archive/json_text.h"
#include "archive/record_file.h"
#include "archive/run_state.h"
#include "archive/sha256.h"
#include "study/experiment_defaults.h"
#include "study/toml_text.h"

namespace isobit::study {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

constexpr const char* kSources = "sources.json";
constexpr std::uint64_t kLargestSources = std::uint64_t{256} << 20;  // archive::largest_file

// One spelling of a value: 1 and 1.0 are the same number.
std::string spelling(const toml::node& node) {
  if (const auto text = node.value_exact<std::string>()) return Json(*text).dump();
  if (const auto truth = node.value_exact<bool>()) return *truth ? "true" : "false";
  if (const auto whole = node.value_exact<std::int64_t>()) return std::to_string(*whole);
  if (const auto number = node.value_exact<double>()) {
    const bool whole = std::abs(*number) < 0x1p53 && *number == std::floor(*number);
    return whole ? std::to_string(static_cast<std::int64_t>(*number)) : fmt::format("{}", *number);
  }
  std::string list = "[";
  if (const toml::array* array = node.as_array()) {
    for (const toml::node& element : *array) list += (list.size() == 1 ? "" : ", ") + spelling(element);
  }
  return list + "]";
}

void flatten(const toml::table& table, const std::string& prefix, std::map<std::string, std::string>& into) {
  for (const auto& [key, node] : table) {
    const std::string name = prefix + std::string(key.str());
    if (const toml::table* inner = node.as_table()) {
      flatten(*inner, name + ".", into);
    } else {
      into[name] = spelling(node);
    }
  }
}

// Python reads any line end as one.
std::string with_plain_line_ends(const std::string& text) {
  std::string plain;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '\r') {
      plain += text[i];
    } else if (i + 1 == text.size() || text[i + 1] != '\n') {
      plain += '\n';
    }
  }
  return plain;
}

// A word in which the recorder replaced something (python/isobit/_recording/_provenance.py).
bool is_altered(const std::string& word) {
  return word.starts_with("~") || word.find("~/") != std::string::npos || word.find("(left out)") != std::string::npos;
}

}  // namespace

RecordedCells::RecordedCells(const Study& study, const std::string& given) : study_(study), given_(given) {
  if (study.script) return;
  named_ = settings_in(given, study.experiment.string());
  unsaid_ = settings_in(std::string(kExperimentDefaults), "the defaults");
}

RecordedCells::Settings RecordedCells::settings_in(const std::string& toml, const std::string& origin) {
  Settings settings;
  flatten(parse_table(toml, origin), "", settings);
  return settings;
}

std::string RecordedCells::contradiction(const Cell& cell, const fs::path& run) {
  return study_.script ? of_script(cell, run) : of_experiment(cell, run);
}

std::string RecordedCells::of_experiment(const Cell& cell, const fs::path& run) {
  const fs::path file = run / archive::kExperimentFile;
  const Settings recorded = settings_in(archive::read_record_file(file), file.string());
  Settings wanted = named_;
  for (const std::string& override : overrides_of(study_, cell)) {
    for (const auto& [key, value] : settings_in(override, "the cell")) wanted[key] = value;
  }
  for (const auto& [key, value] : wanted) {
    const auto found = recorded.find(key);
    if (found == recorded.end()) {
      const auto unsaid = unsaid_.find(key);  // left out of the record, since it says nothing there
      if (unsaid != unsaid_.end() && unsaid->second == value) continue;
      return fmt::format("{} is missing in it, and {} here", key, value);
    }
    if (found->second != value) return fmt::format("{} is {} in it, {} here", key, found->second, value);
  }
  for (const auto& [key, value] : recorded) {
    // The digest of a network's file follows from the file.
    if (wanted.contains(key) || key == "model.sha256") continue;
    if (const auto other = other_than(key, value, run.filename().string()))
      return fmt::format("{} is {} in it, {} in {}, and no file names it", key, value, other->first, other->second);
  }
  return "";
}

std::optional<RecordedCells::Origin> RecordedCells::other_than(const std::string& key, const std::string& value,
                                                               const std::string& run) {
  const std::scoped_lock lock(mutex_);
  const Origin& first = defaults_.try_emplace(key, value, run).first->second;
  return first.first == value ? std::nullopt : std::optional(first);
}

std::string RecordedCells::of_script(const Cell& cell, const fs::path& run) {
  const fs::path file = run / archive::kExperimentFile;
  const toml::table table = parse_table(archive::read_record_file(file), file.string());
  const auto name = table["script"]["file"].value_or<std::string>("");
  std::map<std::string, std::string> imported;  // with digests of their texts
  try {
    const Json sources = archive::parse_json(archive::read_record_file(run / kSources, kLargestSources));
    const auto source = sources.at("files").find(name);
    if (source == sources.at("files").end() || source->get<std::string>() != with_plain_line_ends(given_))
      return fmt::format("{} in it is not the text of {} (name the script that makes the record in the study)",
                         name.empty() ? "the program" : name, study_.experiment.string());
    for (const auto& [path, text] : sources.at("files").items())
      imported[path] = archive::sha256(text.get<std::string>());
  } catch (const nlohmann::json::exception&) {
    return "it holds no program's sources";
  }
  std::vector<std::string> recorded;
  if (const toml::array* words = table["script"]["arguments"].as_array()) {
    for (const toml::node& word : *words) recorded.push_back(word.value_or<std::string>(""));
  }
  const std::vector<std::string> wanted = arguments_of(study_, cell);
  if (recorded.size() != wanted.size())
    return fmt::format("its program had {} arguments, here it has {}", recorded.size(), wanted.size());
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    if (recorded[i] != wanted[i] && !is_altered(recorded[i]))
      return fmt::format("argument {} of its program is {}, {} here", i + 1, recorded[i], wanted[i]);
  }
  // The study names the script alone: what is compared is not all that changes where an imported file does.
  for (const auto& [path, digest] : imported) {
    if (const auto other = other_than(path, digest, run.filename().string()))
      return fmt::format("{} has another text in it than in {}", path, other->second);
  }
  return "";
}

}  // namespace isobit::study
