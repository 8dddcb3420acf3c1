#include "study/input_differences.h"

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <sstream>
#include <utility>

#include "archive/json_text.h"
#include "archive/run_export.h"
#include "archive/sha256.h"
#include "study/text_diff.h"

namespace isobit::study {
namespace {

using Json = nlohmann::ordered_json;
using Keys = std::vector<std::pair<std::string, std::string>>;  // in the order in which they stand

std::string trimmed(std::string text) {
  const auto first = text.find_first_not_of(" \t\r");
  if (first == std::string::npos) return "";
  return text.substr(first, text.find_last_not_of(" \t\r") - first + 1);
}

// Of a resolved experiment, which has one key per line: "optimizer.lr" and its value as it is spelt.
Keys experiment_keys(const std::string& toml) {
  Keys keys;
  std::string section, line;
  for (std::istringstream lines(toml); std::getline(lines, line);) {
    line = trimmed(line);
    if (line.empty() || line.front() == '#') continue;
    const auto equals = line.find('=');
    if (line.front() == '[' && line.back() == ']') {
      section = trimmed(line.substr(1, line.size() - 2)) + ".";
    } else if (equals != std::string::npos) {
      keys.emplace_back(section + trimmed(line.substr(0, equals)), trimmed(line.substr(equals + 1)));
    } else {
      keys.emplace_back(section, line);
    }
  }
  return keys;
}

void flatten(const Json& value, const std::string& path, Keys& keys) {
  const auto below = [&](const std::string& name) { return path.empty() ? name : path + "." + name; };
  if (value.is_object()) {
    for (const auto& [name, part] : value.items()) flatten(part, below(name), keys);
  } else if (value.is_array() &&
             std::any_of(value.begin(), value.end(), [](const Json& e) { return e.is_structured(); })) {
    for (std::size_t i = 0; i < value.size(); ++i) {
      const Json& part = value[i];  // files by their names
      const bool named = part.is_object() && part.contains("name") && part["name"].is_string();
      flatten(part, below(named ? part["name"].get<std::string>() : std::to_string(i)), keys);
    }
  } else {
    keys.emplace_back(path, value.is_string() ? value.get<std::string>() : value.dump());
  }
}

Keys json_keys(const std::string& text) {
  Keys keys;
  try {
    flatten(archive::parse_json(text), "", keys);
  } catch (const std::exception&) {  // of an unfinished run: what it says is compared as it stands
    keys.emplace_back("", text);
  }
  return keys;
}

template <class Add>
void each_difference(const Keys& a, const Keys& b, const Add& add) {
  const std::map<std::string, std::string> in_a(a.begin(), a.end()), in_b(b.begin(), b.end());
  for (const auto& [key, value] : a) {
    const auto found = in_b.find(key);
    if (found == in_b.end() || found->second != value) add(key, value, found == in_b.end() ? "" : found->second);
  }
  for (const auto& [key, value] : b) {
    if (in_a.count(key) == 0) add(key, "", value);
  }
}

// Names, and how much is kept: no result depends on them. Code is compared as such.
bool may_change_results(const std::string& key) {
  constexpr const char* kWithout[] = {
      "name",           "checkpoint.",         "fingerprint.",  "data.path",
      "script.commit",  "script.dirty",        "script.patch_", "script.fingerprint_every",
      "evaluate.batch", "evaluate.predictions"};
  return std::none_of(std::begin(kWithout), std::end(kWithout), [&](const std::string& prefix) {
    return prefix.back() == '.' || prefix.back() == '_' ? key.starts_with(prefix) : key == prefix;
  });
}

std::string brief(const std::string& text) {
  return text.empty() ? "" : "sha256 " + archive::sha256(text).substr(0, 16);
}

}  // namespace

std::vector<InputDifferenceOfRuns> environment_differences(const std::string& a, const std::string& b) {
  std::vector<InputDifferenceOfRuns> environment, hardware;
  each_difference(json_keys(a), json_keys(b), [&](const std::string& key, const std::string& x, const std::string& y) {
    const bool is_hardware = key.starts_with("hardware.");
    (is_hardware ? hardware : environment).push_back({is_hardware ? "hardware" : "environment", key, x, y, false});
  });
  environment.insert(environment.end(), hardware.begin(), hardware.end());
  return environment;
}

std::vector<InputDifferenceOfRuns> input_differences(const ComparedRun& a, const ComparedRun& b) {
  std::vector<InputDifferenceOfRuns> all;
  each_difference(experiment_keys(a.experiment), experiment_keys(b.experiment),
                  [&](const std::string& key, const std::string& x, const std::string& y) {
                    all.push_back({"experiment", key, x, y, may_change_results(key)});
                  });
  each_difference(json_keys(a.data), json_keys(b.data),
                  [&](const std::string& key, const std::string& x, const std::string& y) {
                    all.push_back({"data", key, x, y, key != "note" && key != "decoder"});
                  });
  Keys code_a, code_b;
  for (const auto& [file, text] : a.sources) code_a.emplace_back(file, brief(text));
  for (const auto& [file, text] : b.sources) code_b.emplace_back(file, brief(text));
  if (!a.patch.empty()) code_a.emplace_back(archive::kPatchFile, brief(a.patch));
  if (!b.patch.empty()) code_b.emplace_back(archive::kPatchFile, brief(b.patch));
  each_difference(code_a, code_b, [&](const std::string& key, const std::string& x, const std::string& y) {
    all.push_back({"code", key, x, y, false});
  });
  if (a.summary.contract != b.summary.contract) {
    all.push_back({"environment", "arithmetic", a.summary.contract, b.summary.contract, true});
  }
  for (auto& difference : environment_differences(a.environment, b.environment)) all.push_back(std::move(difference));
  return all;
}

std::string code_difference(const ComparedRun& a, const ComparedRun& b) {
  std::map<std::string, std::pair<std::string, std::string>> files;
  for (const auto& [file, text] : a.sources) files[file].first = text;
  for (const auto& [file, text] : b.sources) files[file].second = text;
  std::string text;
  for (const auto& [file, both] : files) text += unified_diff(file, both.first, both.second);
  return text + unified_diff(archive::kPatchFile, a.patch, b.patch);
}

}  // namespace isobit::study
