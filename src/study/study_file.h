// A study: which runs to make, and what to ask of them (docs/formats/study.md).
//
// read_study takes a TOML file and refuses what it does not know, with file, line, column and a remedy (UserError).
// Plain values; thread-safe.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace isobit::study {

// One value of a factor.
struct Level {
  std::string text;  // as people read it: sgd
  std::string toml;  // as --set takes it: "sgd"
  std::string json;  // as results say it: "sgd"
  // Of an algorithm (section [algorithms]): the keys that it sets, with their values as --set takes them.
  std::vector<std::pair<std::string, std::string>> settings = {};
  friend bool operator==(const Level&, const Level&) = default;
};

// What a factor is decides where its value goes and what its spread means.
enum class Role {
  setting,      // of the experiment: another level is another question
  chance,       // seeds and folds: levels stand for all that might have been drawn
  environment,  // threads, isa, device, capability, workers: how it was executed
};

// The factor whose levels are the sections [algorithms.NAME]: each sets several keys.
inline constexpr const char* kAlgorithm = "algorithm";
// The factor whose levels are [environments] of a script's study: Python interpreters. Level::settings has one,
// "python".
inline constexpr const char* kEnvironment = "environment";

struct StudyFactor {
  std::string key;
  std::vector<Level> levels;
  [[nodiscard]] Role role() const;
};

enum class Folds { none, k_fold, leave_one_group_out, repeated };

struct FoldSettings {
  Folds kind = Folds::none;
  std::int64_t folds = 0, repeats = 1;
  std::string rule = "random", group;
};

struct Study {
  std::string name, metric;
  std::filesystem::path experiment;  // where its file lies; of a script's study the script
  bool script = false;               // the runs are a Python program's (isobit.record)
  std::vector<std::string>
      arguments;             // of the script, in all runs; settings and factors come after them as --KEY VALUE
  bool sampled = false;      // else crossed
  std::int64_t samples = 0;  // of a sampled design
  std::int64_t repeats = 1;
  std::string compare;  // the factor whose levels are the algorithms; "": none
  bool higher_is_better = true;
  double alpha = 0.05, power = 0.8;  // of verdicts; intervals cover 1 - alpha
  std::uint64_t seed = 0;            // of sampling and resampling
  std::int64_t threads = 1;          // of each run, where they are no factor
  std::int64_t memory = 0;           // MiB of each run; 0: as much as the largest so far
  std::vector<StudyFactor> factors;
  std::vector<std::pair<std::string, Level>> settings;  // keys of the experiment that all runs have
  FoldSettings folds;
  // Of the experiment and [settings], as take_split found them: whether runs split their data, and what they keep
  // whole.
  bool splits = false;
  std::string split_group;
  // Where the file says it, "study.toml:9:1": a key, a setting as --set takes it (KEY=VALUE), "metric".
  std::map<std::string, std::string> places;

  // "test", "accuracy"
  [[nodiscard]] std::string metric_set() const;
  [[nodiscard]] std::string metric_value() const;
  [[nodiscard]] const StudyFactor* find(const std::string& key) const;
};

[[nodiscard]] Study read_study(const std::filesystem::path& file);
[[nodiscard]] Study parse_study(const std::string& text, const std::string& origin);

// Fills `splits` and `split_group`; `experiment` is the experiment file's text. What is no TOML says nothing.
void take_split(Study& study, const std::string& experiment);

// UserError where no run of the experiment measures `metric`. `experiment` as above; not for a script, whose metrics
// its records tell.
void check_metric(const Study& study, const std::string& experiment);

// The same study with every key: what parse_study reads again. `experiment` stands for its path.
[[nodiscard]] std::string to_toml(const Study& study, const std::string& experiment);

// Keys that are no keys of an experiment but options of isobit run or its environment.
[[nodiscard]] bool is_option(const std::string& key);

}  // namespace isobit::study
