#include "report/settings.h"

#include <set>

namespace isobit::report {
namespace {

std::string_view trimmed(std::string_view text) {
  while (!text.empty() && (text.front() == ' ' || text.front() == '\t')) text.remove_prefix(1);
  while (!text.empty() && (text.back() == ' ' || text.back() == '\t' || text.back() == '\r')) text.remove_suffix(1);
  return text;
}

}  // namespace

Settings parse_settings(std::string_view experiment) {
  Settings settings;
  std::string table;
  while (!experiment.empty()) {
    const auto end = experiment.find('\n');
    const std::string_view line = trimmed(experiment.substr(0, end));
    experiment.remove_prefix(end == std::string_view::npos ? experiment.size() : end + 1);
    if (line.empty() || line.front() == '#') continue;
    if (line.front() == '[') {
      const auto close = line.find(']');
      table = close == std::string_view::npos ? "" : std::string(line.substr(1, close - 1)) + ".";
      continue;
    }
    const auto equals = line.find('=');
    if (equals == std::string_view::npos) continue;
    settings.emplace_back(table + std::string(trimmed(line.substr(0, equals))), trimmed(line.substr(equals + 1)));
  }
  return settings;
}

SharedSettings compare_settings(const std::vector<const Settings*>& all) {
  SharedSettings result;
  if (all.empty()) return result;
  struct Seen {
    std::size_t runs = 0;
    std::string value;
    bool same = true;
  };
  std::map<std::string, Seen, std::less<>> seen;
  std::vector<std::string> order;
  for (const Settings* settings : all) {
    std::set<std::string_view> here;
    for (const auto& [key, value] : *settings) {
      if (!here.insert(key).second) continue;
      const auto [at, fresh] = seen.try_emplace(key);
      if (fresh) order.push_back(key), at->second.value = value;
      at->second.runs += 1;
      at->second.same = at->second.same && at->second.value == value;
    }
  }
  for (const std::string& key : order) {
    const Seen& value = seen.at(key);
    if (value.same && value.runs == all.size()) {
      result.common.emplace_back(key, value.value);
    } else {
      result.differing.push_back(key);
    }
  }
  return result;
}

std::string setting(const Settings& settings, std::string_view key) {
  for (const auto& [name, value] : settings) {
    if (name == key) return value;
  }
  return "";
}

}  // namespace isobit::report
