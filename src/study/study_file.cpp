#include "study/study_file.h"

#include <fmt/format.h>

#include <charconv>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>

#include "archive/files.h"
#include "archive/run_state.h"
#include "archive/suggest.h"
#include "study/toml_text.h"

namespace isobit::study {
namespace {

using archive::UserError;
using Json = nlohmann::ordered_json;

constexpr std::int64_t kMostLevels = 10'000;
constexpr const char* kSeePage = "docs/formats/study.md lists the keys";

// A string as TOML and JSON both spell it.
std::string quoted(const std::string& text) { return Json(text).dump(-1, ' ', true); }

std::string number_text(double value) {
  const std::string text = fmt::format("{}", value);
  return text.find_first_of(".en") == std::string::npos ? text + ".0" : text;  // a float stays one in TOML
}

Level level_of(const toml::node& node, const std::string& place) {
  if (const auto text = node.value_exact<std::string>()) return {*text, quoted(*text), quoted(*text)};
  if (const auto whole = node.value_exact<std::int64_t>()) {
    const std::string text = fmt::format("{}", *whole);
    return {text, text, text};
  }
  if (const auto number = node.value_exact<double>(); number && std::isfinite(*number)) {
    const std::string text = number_text(*number);
    return {fmt::format("{}", *number), text, text};
  }
  if (const auto truth = node.value_exact<bool>()) {
    const char* text = *truth ? "true" : "false";
    return {text, text, text};
  }
  if (const toml::array* list = node.as_array()) {
    Level level{"", "[", "["};
    for (const toml::node& element : *list) {
      if (element.is_array()) break;
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
  if (first > last || first < 0 || last >= first + kMostLevels)
    throw UserError(place, fmt::format("'{}' is no range of 1 to {} levels", text, kMostLevels),
                    "write FIRST..LAST, both 0 or more");
  std::vector<Level> levels;
  for (std::int64_t value = first; value <= last; ++value) {
    const std::string word = std::to_string(value);
    levels.push_back({word, word, word});
  }
  return levels;
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

class Reader {
 public:
  Reader(const std::string& text, std::string origin)
      : origin_(std::move(origin)), table_(parse_table(text, origin_)) {}

  Study read() {
    for (const auto& [key, node] : table_) {
      const std::string name(key.str());
      if (!node.is_table() || !kSections.contains(name))
        unknown(name, {kSections.begin(), kSections.end()}, key.source());
    }
    read_study();
    read_settings();
    read_factors();
    read_folds();
    check_together();
    return std::move(study_);
  }

 private:
  inline static const std::set<std::string> kSections{"study", "settings", "factors", "folds"};

  [[noreturn]] void fail(const std::string& place, const std::string& problem, const std::string& remedy) const {
    throw UserError(place, problem, remedy);
  }
  [[noreturn]] void unknown(const std::string& name, const std::vector<std::string>& known,
                            const toml::source_region& source) const {
    const std::string near = archive::nearest(name, known);
    fail(place_in(origin_, source), fmt::format("unknown key '{}'", name),
         near.empty() ? kSeePage : fmt::format("did you mean '{}'?", near));
  }
  void only(const toml::table& table, const std::vector<std::string>& known) const {
    for (const auto& [key, node] : table) {
      if (std::find(known.begin(), known.end(), key.str()) == known.end())
        unknown(std::string(key.str()), known, key.source());
    }
  }
  const toml::table* section(const char* name) const { return table_[name].as_table(); }

  template <class Value>
  void take(const toml::table& table, const char* key, Value& value, const char* what) const {
    const toml::node* node = table.get(key);
    if (node == nullptr) return;
    std::optional<Value> given;
    if constexpr (std::is_same_v<Value, double>) {
      if (node->is_number()) given = node->value<double>();
    } else {
      given = node->value_exact<Value>();
    }
    if (!given) fail(place_in(origin_, node->source()), fmt::format("'{}' must be {}", key, what), kSeePage);
    value = *given;
  }
  std::string place_of(const toml::table& table, const char* key) const {
    const toml::node* node = table.get(key);
    return node != nullptr ? place_in(origin_, node->source()) : origin_;
  }
  void expect(bool fine, const toml::table& table, const char* key, const std::string& problem,
              const std::string& remedy) const {
    if (!fine) fail(place_of(table, key), fmt::format("'{}' {}", key, problem), remedy);
  }

  void read_study() {
    const toml::table* s = section("study");
    if (s == nullptr) fail(origin_, "has no section [study]", "begin with [study], name, experiment and metric");
    only(*s, {"name", "experiment", "metric", "design", "samples", "repeats", "compare", "better", "alpha", "power",
              "seed", "threads", "memory"});
    std::string experiment, design = "crossed", better, memory;
    std::int64_t seed = 0;
    take(*s, "name", study_.name, "a text");
    take(*s, "experiment", experiment, "a path");
    take(*s, "metric", study_.metric, "a text");
    take(*s, "design", design, "\"crossed\" or \"sampled\"");
    take(*s, "samples", study_.samples, "a whole number");
    take(*s, "repeats", study_.repeats, "a whole number");
    take(*s, "compare", study_.compare, "a factor's name");
    take(*s, "better", better, "\"higher\" or \"lower\"");
    take(*s, "alpha", study_.alpha, "a number");
    take(*s, "power", study_.power, "a number");
    take(*s, "seed", seed, "a whole number");
    take(*s, "threads", study_.threads, "a whole number");
    take(*s, "memory", study_.memory, "a whole number of MiB");
    expect(archive::is_run_name(study_.name), *s, "name", "is no name for a study",
           "use 1 to 64 letters, digits, - _ and ., not beginning with a dot");
    expect(!experiment.empty(), *s, "experiment", "is missing",
           "name the experiment's TOML file, from this file's folder");
    study_.experiment = std::filesystem::path(origin_).parent_path() / experiment;
    const auto dot = study_.metric.find('.');
    expect(dot != std::string::npos && dot > 0 && dot + 1 < study_.metric.size(), *s, "metric", "is no metric of a run",
           "write SET.VALUE, for example \"test.accuracy\" or \"test.loss\"");
    study_.sampled = design == "sampled";
    expect(study_.sampled || design == "crossed", *s, "design", "is unknown", "use \"crossed\" or \"sampled\"");
    expect(study_.sampled == (study_.samples > 0) && study_.samples >= 0, *s, "samples",
           "goes with design = \"sampled\", and is 1 or more", "give both or neither");
    expect(study_.repeats >= 1 && study_.repeats <= kMostLevels, *s, "repeats", "is out of range", "use 1 to 10000");
    if (better.empty()) better = study_.metric_value().ends_with("loss") ? "lower" : "higher";
    study_.higher_is_better = better == "higher";
    expect(study_.higher_is_better || better == "lower", *s, "better", "is unknown", "use \"higher\" or \"lower\"");
    expect(study_.alpha > 0 && study_.alpha < 0.5, *s, "alpha", "is out of range",
           "use a number above 0 and below 0.5");
    expect(study_.power > 0.1 && study_.power < 1, *s, "power", "is out of range",
           "use a number above 0.1 and below 1");
    expect(seed >= 0, *s, "seed", "is below 0", "use 0 or more");
    expect(study_.threads >= 1 && study_.threads <= 1024, *s, "threads", "is out of range", "use 1 to 1024");
    expect(study_.memory >= 0, *s, "memory", "is below 0", "give MiB per run, or leave it out");
    study_.seed = static_cast<std::uint64_t>(seed);
  }

  void read_settings() {
    const toml::table* table = section("settings");
    if (table == nullptr) return;
    flatten(*table, "", [&](const std::string& key, const toml::node& node, const std::string& place) {
      if (is_option(key)) fail(place, fmt::format("'{}' is no key of an experiment", key), "make it a factor");
      study_.settings.emplace_back(key, level_of(node, place));
    });
  }

  void read_factors() {
    const toml::table* table = section("factors");
    if (table == nullptr) return;
    flatten(*table, "", [&](const std::string& key, const toml::node& node, const std::string& place) {
      if (key == "torch")
        fail(place,
             "environments with other versions of PyTorch are for Python scripts, which a study does not run yet",
             "run the script once in each environment, and compare the records: isobit diff, isobit drift");
      StudyFactor factor{key, levels_of(node, key, place)};
      check_option(factor, place);
      study_.factors.push_back(std::move(factor));
      places_[key] = place;
    });
  }

  // Calls `act` with every key that holds a value: a.b, whether it stands in a table or has dots.
  template <class Act>
  void flatten(const toml::table& table, const std::string& prefix, const Act& act) const {
    for (const auto& [key, node] : table) {
      const std::string name = prefix + std::string(key.str());
      if (const toml::table* inner = node.as_table()) {
        flatten(*inner, name + ".", act);
      } else {
        act(name, node, place_in(origin_, key.source()));
      }
    }
  }

  void read_folds() {
    const toml::table* table = section("folds");
    if (table == nullptr) return;
    only(*table, {"kind", "folds", "repeats", "rule", "group"});
    FoldSettings& folds = study_.folds;
    std::string kind = "k-fold";
    folds.folds = 5;
    take(*table, "kind", kind, "a text");
    take(*table, "folds", folds.folds, "a whole number");
    take(*table, "repeats", folds.repeats, "a whole number");
    take(*table, "rule", folds.rule, "a text");
    take(*table, "group", folds.group, "a text");
    folds.kind = kind == "k-fold"                ? Folds::k_fold
                 : kind == "leave-one-group-out" ? Folds::leave_one_group_out
                                                 : Folds::repeated;
    expect(folds.kind != Folds::repeated || kind == "repeated", *table, "kind", "is unknown",
           "use \"k-fold\", \"leave-one-group-out\" or \"repeated\"");
    expect(folds.folds >= 2 && folds.folds <= kMostLevels, *table, "folds", "is out of range", "use 2 to 10000");
    expect(folds.repeats >= 1 && folds.repeats <= 1000, *table, "repeats", "is out of range", "use 1 to 1000");
    expect((folds.kind == Folds::repeated) == (folds.repeats > 1), *table, "repeats",
           "goes with kind = \"repeated\", and is 2 or more there", "give both or neither");
    expect(folds.rule == "random" || folds.rule == "stratified" || folds.rule == "blocks", *table, "rule", "is unknown",
           "use \"random\", \"stratified\" or \"blocks\"");
    if (folds.kind == Folds::leave_one_group_out) {
      expect(!folds.group.empty(), *table, "group", "is missing", "name the array or column of the groups");
      expect(table->contains("folds"), *table, "folds", "is missing", "say how many groups the data has");
    }
    if (folds.kind == Folds::repeated && study_.find("seed") != nullptr)
      fail(places_.at("seed"), "repeated folds draw each repetition by a seed of its own",
           "remove the factor seed; seeds.init and seeds.order may stay");
  }

  void check_together() {
    if (study_.factors.empty() && study_.repeats == 1 && study_.folds.kind == Folds::none)
      fail(origin_, "is a study of one run", "add [factors], [folds] or repeats");
    for (const StudyFactor& factor : study_.factors) {
      if (study_.folds.kind != Folds::none && factor.key.starts_with("split."))
        fail(places_.at(factor.key), "[folds] already says how the data is split", "remove the factor or [folds]");
      for (const auto& [key, level] : study_.settings) {
        if (key == factor.key) fail(places_.at(key), fmt::format("'{}' is a factor and a setting", key), "remove one");
      }
    }
    if (study_.compare.empty()) return;
    const StudyFactor* compared = study_.find(study_.compare);
    const std::string place = place_of(*section("study"), "compare");
    if (compared == nullptr)
      fail(place, fmt::format("'{}' is no factor of the study", study_.compare), "list its levels in [factors]");
    if (compared->role() == Role::chance)
      fail(place, fmt::format("'{}' stands for chance: its levels are no algorithms", study_.compare),
           "compare a setting, for example \"optimizer.name\"");
    if (compared->levels.size() < 2)
      fail(place, fmt::format("'{}' has one level", study_.compare), "list at least two levels to compare");
    if (compared->levels.size() > 12)
      fail(place,
           fmt::format("'{}' has {} levels: too many to compare each with each", study_.compare,
                       compared->levels.size()),
           "list 12 at most");
  }

  std::string origin_;
  toml::table table_;
  Study study_;
  std::map<std::string, std::string> places_;
};

std::string key_of(const std::string& key) { return quoted(key); }

std::string list_of(const std::vector<Level>& levels) {
  std::string text = "[";
  for (const Level& level : levels) text += (text == "[" ? "" : ", ") + level.toml;
  return text + "]";
}

}  // namespace

bool is_option(const std::string& key) {
  return key == "threads" || key == "isa" || key == "device" || key == "capability" || key == "workers";
}

Role StudyFactor::role() const {
  if (key == "seed" || key.starts_with("seeds.") || key == "split.fold") return Role::chance;
  return is_option(key) ? Role::environment : Role::setting;
}

std::string Study::metric_set() const { return metric.substr(0, metric.find('.')); }
std::string Study::metric_value() const { return metric.substr(metric.find('.') + 1); }

const StudyFactor* Study::find(const std::string& key) const {
  for (const StudyFactor& factor : factors) {
    if (factor.key == key) return &factor;
  }
  return nullptr;
}

Study parse_study(const std::string& text, const std::string& origin) { return Reader(text, origin).read(); }

Study read_study(const std::filesystem::path& file) {
  return parse_study(archive::read_file(file, kLargestToml), file.string());
}

std::string to_toml(const Study& study, const std::string& experiment) {
  std::string text = "[study]\n";
  const auto line = [&](const char* key, const std::string& value) { text += fmt::format("{} = {}\n", key, value); };
  line("name", quoted(study.name));
  line("experiment", quoted(experiment));
  line("metric", quoted(study.metric));
  line("design", study.sampled ? "\"sampled\"" : "\"crossed\"");
  if (study.sampled) line("samples", std::to_string(study.samples));
  line("repeats", std::to_string(study.repeats));
  if (!study.compare.empty()) line("compare", quoted(study.compare));
  line("better", study.higher_is_better ? "\"higher\"" : "\"lower\"");
  line("alpha", number_text(study.alpha));
  line("power", number_text(study.power));
  line("seed", std::to_string(study.seed));
  line("threads", std::to_string(study.threads));
  line("memory", std::to_string(study.memory));
  if (!study.settings.empty()) text += "\n[settings]\n";
  for (const auto& [key, level] : study.settings) text += fmt::format("{} = {}\n", key_of(key), level.toml);
  if (!study.factors.empty()) text += "\n[factors]\n";
  for (const StudyFactor& factor : study.factors)
    text += fmt::format("{} = {}\n", key_of(factor.key), list_of(factor.levels));
  if (study.folds.kind == Folds::none) return text;
  text += "\n[folds]\n";
  line("kind", study.folds.kind == Folds::k_fold                ? "\"k-fold\""
               : study.folds.kind == Folds::leave_one_group_out ? "\"leave-one-group-out\""
                                                                : "\"repeated\"");
  line("folds", std::to_string(study.folds.folds));
  if (study.folds.kind == Folds::repeated) line("repeats", std::to_string(study.folds.repeats));
  line("rule", quoted(study.folds.rule));
  if (!study.folds.group.empty()) line("group", quoted(study.folds.group));
  return text;
}

}  // namespace isobit::study
