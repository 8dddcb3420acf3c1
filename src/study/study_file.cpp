#include "study/study_file.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <map>
#include <optional>
#include <set>

#include "archive/files.h"
#include "archive/run_state.h"
#include "archive/suggest.h"
#include "study/experiment_metrics.h"
#include "study/study_levels.h"
#include "study/toml_text.h"

namespace isobit::study {
namespace {

using archive::UserError;

constexpr const char* kMetric = "metric";
constexpr const char* kSeePage = "docs/formats/study.md lists the keys";

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
    read_algorithms();
    read_environments();
    read_folds();
    check_together();
    study_.places = std::move(places_);
    return std::move(study_);
  }

 private:
  inline static const std::set<std::string> kSections{"study",   "settings",     "algorithms",
                                                      "factors", "environments", "folds"};

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
    only(*s, {"name", "experiment", "script", "arguments", "metric", "design", "samples", "repeats", "compare",
              "better", "alpha", "power", "seed", "threads", "memory"});
    std::string experiment, script, design = "crossed", better, memory;
    std::int64_t seed = 0;
    take(*s, "name", study_.name, "a text");
    take(*s, "experiment", experiment, "a path");
    take(*s, "script", script, "a path");
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
    study_.script = !script.empty();
    expect(experiment.empty() != script.empty(), *s, "experiment",
           study_.script ? "is given beside script" : "is missing",
           "name the experiment's TOML file, from this file's folder, or script = \"train.py\"");
    study_.experiment = std::filesystem::path(origin_).parent_path() / (study_.script ? script : experiment);
    read_arguments(*s);
    const auto dot = study_.metric.find('.');
    expect(dot != std::string::npos && dot > 0 && dot + 1 < study_.metric.size(), *s, "metric", "is no metric of a run",
           "write SET.VALUE, for example \"test.accuracy\" or \"test.loss\"");
    places_[kMetric] = place_of(*s, "metric");
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

  void read_arguments(const toml::table& s) {
    const toml::node* node = s.get("arguments");
    if (node == nullptr) return;
    expect(study_.script, s, "arguments", "is for a script", "add script = \"train.py\", or use [settings]");
    const toml::array* list = node->as_array();
    expect(list != nullptr, s, "arguments", "is no list of words", "for example [\"--epochs\", \"3\"]");
    for (const toml::node& word : *list) {
      const auto text = word.value_exact<std::string>();
      expect(text && text->find('\0') == std::string::npos, s, "arguments", "is no list of words",
             "write each word as a text: [\"--epochs\", \"3\"]");
      study_.arguments.push_back(*text);
    }
  }

  // Of a script's study: interpreters with PyTorch and isobit, perhaps of other versions.
  void read_environments() {
    const toml::table* table = section("environments");
    if (table == nullptr) return;
    if (!study_.script)
      fail(origin_, "[environments] is for scripts: an experiment is run by one isobit",
           "name a script in [study], or another isobit with --program");
    StudyFactor factor{kEnvironment, {}};
    for (const auto& [key, node] : in_file_order(*table)) {
      const std::string name(key->str()), place = place_in(origin_, key->source());
      const auto python = node->value_exact<std::string>();
      if (!archive::is_run_name(name) || !python || python->empty() || (*python)[0] == '-')
        fail(place, fmt::format("'{}' is no environment", name), "write NAME = \"/path/to/python\"");
      factor.levels.push_back({name, toml_text(name), toml_text(name), {{"python", *python}}});
    }
    if (factor.levels.empty()) fail(origin_, "[environments] has none", "write NAME = \"/path/to/python\"");
    places_[kEnvironment] = origin_;
    study_.factors.push_back(std::move(factor));
  }

  void read_settings() {
    const toml::table* table = section("settings");
    if (table == nullptr) return;
    flatten(*table, "", [&](const std::string& key, const toml::node& node, const std::string& place) {
      if (is_option(key)) fail(place, fmt::format("'{}' is no key of an experiment", key), "make it a factor");
      study_.settings.emplace_back(key, level_of(node, place));
      places_[key] = places_[key + "=" + study_.settings.back().second.toml] = place;
    });
  }

  void read_factors() {
    const toml::table* table = section("factors");
    if (table == nullptr) return;
    flatten(*table, "", [&](const std::string& key, const toml::node& node, const std::string& place) {
      if (key == "torch")
        fail(place, "environments with other versions of PyTorch are for Python scripts",
             "name a script in [study], and the interpreters in [environments]");
      if (key == kEnvironment) fail(place, "environments have a section of their own", "write [environments]");
      if (study_.script && (key == "isa" || key == "device" || key == "workers"))
        fail(place, fmt::format("'{}' is an option of isobit run, which runs no script", key),
             "let the script take it as an argument of another name");
      if (key == kAlgorithm)
        fail(place, "algorithms have sections of their own", "write [algorithms.NAME] with their keys");
      StudyFactor factor{key, levels_of(node, key, place)};
      check_option(factor, place);
      study_.factors.push_back(std::move(factor));
      places_[key] = place;
    });
  }

  void read_algorithms() {
    const toml::table* table = section("algorithms");
    if (table == nullptr) return;
    StudyFactor factor{kAlgorithm, {}};
    for (const auto& [key, node] : in_file_order(*table)) {
      const std::string name(key->str()), place = place_in(origin_, key->source());
      if (!archive::is_run_name(name) || !node->is_table())
        fail(place, fmt::format("'{}' is no algorithm", name),
             "write [algorithms.NAME], and the keys that it sets below");
      Level level{name, toml_text(name), toml_text(name), {}};
      flatten(*node->as_table(), "", [&](const std::string& set, const toml::node& value, const std::string& at) {
        if (is_option(set)) fail(at, fmt::format("'{}' is no key of an experiment", set), "make it a factor");
        level.settings.emplace_back(set, level_of(value, at).toml);
        places_[set] = places_[set + "=" + level.settings.back().second] = at;
      });
      factor.levels.push_back(std::move(level));
    }
    if (factor.levels.empty()) fail(origin_, "[algorithms] has none", "write [algorithms.NAME]");
    places_[kAlgorithm] = origin_;
    study_.factors.insert(study_.factors.begin(), std::move(factor));
    if (study_.compare.empty() && study_.factors[0].levels.size() > 1) study_.compare = kAlgorithm;
  }

  // A key that two parts of the file set would have the value of one of them.
  void expect_set_once() {
    std::set<std::string> keys;
    for (const auto& [key, level] : study_.settings) keys.insert(key);
    for (const StudyFactor& factor : study_.factors) {
      if (!keys.insert(factor.key).second)
        fail(places_.at(factor.key), fmt::format("'{}' is a factor and a setting", factor.key), "remove one");
    }
    for (const StudyFactor& factor : study_.factors) {
      if (factor.key == kEnvironment) continue;
      for (const Level& level : factor.levels) {
        for (const auto& [key, value] : level.settings) {
          if (keys.contains(key))
            fail(places_.at(key), fmt::format("'{}' is set by an algorithm and elsewhere", key), "remove one");
        }
      }
    }
  }

  // toml++ sorts by name; people read a file from its top.
  static std::vector<std::pair<const toml::key*, const toml::node*>> in_file_order(const toml::table& table) {
    std::vector<std::pair<const toml::key*, const toml::node*>> entries;
    for (const auto& [key, node] : table) entries.emplace_back(&key, &node);
    std::stable_sort(entries.begin(), entries.end(), [](const auto& a, const auto& b) {
      const auto &x = a.first->source().begin, &y = b.first->source().begin;
      return std::pair(x.line, x.column) < std::pair(y.line, y.column);
    });
    return entries;
  }

  // Calls `act` with every key that holds a value: a.b, whether it stands in a table or has dots.
  template <class Act>
  void flatten(const toml::table& table, const std::string& prefix, const Act& act) const {
    for (const auto& [key, node] : in_file_order(table)) {
      const std::string name = prefix + std::string(key->str());
      if (const toml::table* inner = node->as_table()) {
        flatten(*inner, name + ".", act);
      } else {
        act(name, *node, place_in(origin_, key->source()));
      }
    }
  }

  void read_folds() {
    const toml::table* table = section("folds");
    if (table == nullptr) return;
    if (study_.script)
      fail(origin_, "[folds] is for experiments, whose data isobit splits",
           "let the script take the fold as an argument, and make it a factor");
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
    }
    expect_set_once();
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

std::string list_of(const std::vector<Level>& levels) {
  std::string text = "[";
  for (const Level& level : levels) text += (text == "[" ? "" : ", ") + level.toml;
  return text + "]";
}

}  // namespace

bool is_option(const std::string& key) {
  return key == "threads" || key == "isa" || key == "device" || key == "capability" || key == "workers" ||
         key == kEnvironment;
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

void take_split(Study& study, const std::string& experiment) {
  std::string rule = "files", group;
  try {
    const toml::table table = parse_table(experiment, study.experiment.string());
    rule = table.at_path("split.rule").value_or(rule);
    group = table.at_path("split.group").value_or(group);
  } catch (const UserError&) {  // isobit run says what is wrong with it
  }
  for (const auto& [key, level] : study.settings) {
    if (key == "split.rule") rule = level.text;
    if (key == "split.group") group = level.text;
  }
  study.splits = rule != "files" || study.folds.kind != Folds::none || study.find("split.rule") != nullptr;
  study.split_group = study.folds.group.empty() ? group : study.folds.group;
  if (study.find("split.group") != nullptr) study.split_group = "split.group";
}

void check_metric(const Study& study, const std::string& experiment) {
  constexpr const char* kTarget = "data.target";
  std::set<std::string> targets;
  const auto take = [&](const std::string& toml) {
    targets.insert(toml.size() > 1 && toml[0] == '"' ? toml.substr(1, toml.size() - 2) : toml);
  };
  try {
    const toml::table table = parse_table(experiment, study.experiment.string());
    targets.insert(table.at_path(kTarget).value_or(std::string()));
  } catch (const UserError&) {  // isobit run says what is wrong with it
  }
  for (const auto& [key, level] : study.settings) {
    if (key == kTarget) targets = {level.text};
  }
  for (const StudyFactor& factor : study.factors) {
    for (const Level& level : factor.levels) {
      if (factor.key == kTarget) take(level.toml);
      for (const auto& [key, value] : level.settings) {
        if (key == kTarget) take(value);
      }
    }
  }
  std::set<std::string> scores;
  for (const std::string& target : targets) scores.insert(score_of(target));
  const std::vector<std::string> known = metrics_of({scores.begin(), scores.end()});
  if (std::find(known.begin(), known.end(), study.metric) != known.end()) return;
  const std::string near = archive::nearest(study.metric, known);
  const auto place = study.places.find(kMetric);
  throw UserError(place != study.places.end() ? place->second : study.experiment.string(),
                  fmt::format("'metric' is \"{}\", which no run of {} measures", study.metric,
                              study.experiment.filename().string()),
                  fmt::format("{}measured: {}", near.empty() ? "" : fmt::format("did you mean \"{}\"? ", near),
                              fmt::join(known, ", ")));
}

std::string to_toml(const Study& study, const std::string& experiment) {
  std::string text = "[study]\n";
  const auto line = [&](const char* key, const std::string& value) { text += fmt::format("{} = {}\n", key, value); };
  line("name", toml_text(study.name));
  line(study.script ? "script" : "experiment", toml_text(experiment));
  if (!study.arguments.empty()) {
    std::string words;
    for (const std::string& word : study.arguments) words += (words.empty() ? "" : ", ") + toml_text(word);
    line("arguments", "[" + words + "]");
  }
  line("metric", toml_text(study.metric));
  line("design", study.sampled ? "\"sampled\"" : "\"crossed\"");
  if (study.sampled) line("samples", std::to_string(study.samples));
  line("repeats", std::to_string(study.repeats));
  if (!study.compare.empty()) line("compare", toml_text(study.compare));
  line("better", study.higher_is_better ? "\"higher\"" : "\"lower\"");
  line("alpha", toml_number(study.alpha));
  line("power", toml_number(study.power));
  line("seed", std::to_string(study.seed));
  line("threads", std::to_string(study.threads));
  line("memory", std::to_string(study.memory));
  if (!study.settings.empty()) text += "\n[settings]\n";
  for (const auto& [key, level] : study.settings) text += fmt::format("{} = {}\n", toml_text(key), level.toml);
  text += "\n[factors]\n";
  for (const StudyFactor& factor : study.factors) {
    if (factor.key != kAlgorithm && factor.key != kEnvironment)
      text += fmt::format("{} = {}\n", toml_text(factor.key), list_of(factor.levels));
  }
  if (const StudyFactor* algorithms = study.find(kAlgorithm)) {
    for (const Level& level : algorithms->levels) {
      text += fmt::format("\n[algorithms.{}]\n", toml_text(level.text));
      for (const auto& [key, value] : level.settings) text += fmt::format("{} = {}\n", toml_text(key), value);
    }
  }
  if (const StudyFactor* environments = study.find(kEnvironment)) {
    text += "\n[environments]\n";
    for (const Level& level : environments->levels)
      text += fmt::format("{} = {}\n", toml_text(level.text), toml_text(level.settings[0].second));
  }
  if (study.folds.kind == Folds::none) return text;
  text += "\n[folds]\n";
  line("kind", study.folds.kind == Folds::k_fold                ? "\"k-fold\""
               : study.folds.kind == Folds::leave_one_group_out ? "\"leave-one-group-out\""
                                                                : "\"repeated\"");
  line("folds", std::to_string(study.folds.folds));
  if (study.folds.kind == Folds::repeated) line("repeats", std::to_string(study.folds.repeats));
  line("rule", toml_text(study.folds.rule));
  if (!study.folds.group.empty()) line("group", toml_text(study.folds.group));
  return text;
}

}  // namespace isobit::study
