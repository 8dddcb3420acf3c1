#include "study/study_levels.h"

#include <charconv>
#include <cmath>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>

namespace isobit::study {
namespace {

using archive::UserError;
using Json = nlohmann::ordered_json;

// "1..10"
std::optional<std::vector<Level>> range_of(const std::string& text, const std::string& place) {
  const auto dots = text.find("..");
  std::int64_t first = 0, last = 0;
  const auto whole = [](std::string_view word, std::int64_t& value) {
    const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), value);
    return error == std::errc() && end == word.data() + word.size();
  };
  if (dots == std::string::npos || !whole(std::string_view(text).substr(0, dots), first) ||
      !whole(std::string_view(text).substr(dots + 2), last))
    return std::nullopt;
  if (first > last || first < 0 || last - first >= kMostLevels)
    throw UserError(place, fmt::format("'{}' is no range of 1 to {} levels", text, kMostLevels),
                    "write FIRST..LAST, both 0 or more");
  std::vector<Level> levels;
  for (std::int64_t value = first; value <= last; ++value) {
    const std::string word = std::to_string(value);
    levels.push_back({word, word, word});
  }
  return levels;
}

}  // namespace

// JSON's escapes are TOML's, but for characters above U+FFFF, which stay as they are.
std::string toml_text(const std::string& text) { return Json(text).dump(); }

std::string toml_number(double value) {
  const std::string text = fmt::format("{}", value);
  return text.find_first_of(".en") == std::string::npos ? text + ".0" : text;  // a float stays one in TOML
}

Level level_of(const toml::node& node, const std::string& place) {
  if (const auto text = node.value_exact<std::string>()) {
    if (text->find('\x7f') != std::string::npos) throw UserError(place, "has a control character", "remove it");
    return {*text, toml_text(*text), toml_text(*text)};
  }
  if (const auto whole = node.value_exact<std::int64_t>()) {
    const std::string text = fmt::format("{}", *whole);
    return {text, text, text};
  }
  if (const auto number = node.value_exact<double>(); number && std::isfinite(*number)) {
    const std::string text = toml_number(*number);
    return {fmt::format("{}", *number), text, text};
  }
  if (const auto truth = node.value_exact<bool>()) {
    const char* text = *truth ? "true" : "false";
    return {text, text, text};
  }
  if (const toml::array* list = node.as_array()) {
    Level level{"", "[", "["};
    for (const toml::node& element : *list) {
      if (element.is_array()) throw UserError(place, "has a list in a list", "use one list per level");
      const Level part = level_of(element, place);
      const bool first = level.toml == "[";
      level.text += (first ? "" : " ") + part.text;
      level.toml += (first ? "" : ", ") + part.toml;
      level.json += (first ? "" : ", ") + part.json;
    }
    level.toml += "]", level.json += "]";
    return level;
  }
  throw UserError(place, "is no value of an experiment's key", "use a text, a finite number, true, false or a list");
}

std::vector<Level> levels_of(const toml::node& node, const std::string& key, const std::string& place) {
  if (const auto text = node.value_exact<std::string>()) {
    if (auto range = range_of(*text, place)) return *range;
  }
  const toml::array* list = node.as_array();
  if (list == nullptr || list->empty())
    throw UserError(place, fmt::format("the factor '{}' has no list of levels", key),
                    fmt::format("for example {} = [1, 2], or \"1..10\"", key));
  if (list->size() > static_cast<std::size_t>(kMostLevels))
    throw UserError(place, fmt::format("the factor '{}' has more than {} levels", key, kMostLevels), "list fewer");
  std::vector<Level> levels;
  std::set<std::string> seen;
  for (const toml::node& element : *list) {
    levels.push_back(level_of(element, place));
    if (!seen.insert(levels.back().toml).second)
      throw UserError(place, fmt::format("the factor '{}' has the level {} twice", key, levels.back().text),
                      "list each level once; repeats = N makes a run several times");
  }
  return levels;
}

// The options of isobit run among the factors: their levels, checked before anything starts.
void check_option(const StudyFactor& factor, const std::string& place) {
  const auto expect = [&](bool fine, const std::string& remedy) {
    if (!fine) throw UserError(place, fmt::format("'{}' has a level that cannot be", factor.key), remedy);
  };
  for (const Level& level : factor.levels) {
    const bool text = level.toml.starts_with('"');
    std::int64_t whole = 0;
    std::from_chars(level.text.data(), level.text.data() + level.text.size(), whole);
    if (factor.key == "threads" || factor.key == "workers")
      expect(!text && whole >= 1 && whole <= 1024 && level.text == std::to_string(whole),
             "use whole numbers, 1 to 1024");
    if (factor.key == "capability")
      expect(level.text == "default" || level.text == "avx2" || level.text == "avx512",
             "use \"default\", \"avx2\" or \"avx512\"");
    if (factor.key == "isa" || factor.key == "device")
      expect(text && !level.text.empty() && level.text[0] != '-', "use texts, as isobit run takes them");
  }
}

}  // namespace isobit::study
