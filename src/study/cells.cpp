#include "study/cells.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <set>
#include <unordered_map>

#include "archive/files.h"
#include "archive/json_text.h"
#include "archive/sha256.h"
#include "study/random_stream.h"

namespace isobit::study {
namespace {

using archive::UserError;
using Json = nlohmann::ordered_json;
using Levels = std::vector<std::pair<std::string, Level>>;

constexpr const char* kFormat = "isobit-study-cells-1";

// An algorithm's value as a word: "\"adam\"" is adam.
std::string plain_text(const std::string& toml) {
  const auto value = Json::parse(toml, nullptr, false);
  return value.is_string() ? value.get<std::string>() : toml;
}

std::int64_t combinations(const std::vector<StudyFactor>& factors) {
  std::int64_t count = 1;
  for (const StudyFactor& factor : factors) {
    if (__builtin_mul_overflow(count, static_cast<std::int64_t>(factor.levels.size()), &count)) return INT64_MAX;
  }
  return count;
}

// Combination `number`, the last factor fastest.
Levels combination(const std::vector<StudyFactor>& factors, std::int64_t number) {
  Levels levels(factors.size());
  for (std::size_t f = factors.size(); f-- > 0;) {
    const auto count = static_cast<std::int64_t>(factors[f].levels.size());
    levels[f] = {factors[f].key, factors[f].levels[number % count]};
    number /= count;
  }
  return levels;
}

// The numbers that are drawn first: a larger sample holds a smaller one.
std::set<std::int64_t> draw(std::int64_t samples, std::int64_t count, std::uint64_t seed) {
  RandomStream random(seed, Purpose::sampled_cells);
  std::set<std::int64_t> drawn;
  while (static_cast<std::int64_t>(drawn.size()) < samples)
    drawn.insert(static_cast<std::int64_t>(random.below(static_cast<std::uint64_t>(count))));
  return drawn;
}

std::vector<Levels> crossed(const std::vector<StudyFactor>& factors) {
  std::vector<Levels> all;
  for (std::int64_t i = 0, count = combinations(factors); i < count; ++i) all.push_back(combination(factors, i));
  return all;
}

std::vector<Levels> sampled(const Study& study, const std::vector<StudyFactor>& factors) {
  std::vector<StudyFactor> others, compared;
  for (const StudyFactor& factor : factors) (factor.key == study.compare ? compared : others).push_back(factor);
  const std::int64_t count = combinations(others);
  if (study.samples > count)
    throw UserError(study.name, fmt::format("samples = {}, but there are {} combinations", study.samples, count),
                    "set design = \"crossed\", or fewer samples");
  std::vector<Levels> all;
  for (const std::int64_t number : draw(study.samples, count, study.seed)) {
    const Levels context = combination(others, number);
    for (std::int64_t c = 0, n = combinations(compared); c < n; ++c) {
      const Levels own = combination(compared, c);
      Levels levels;
      for (const StudyFactor& factor : factors) {  // in the study's order again
        const Levels& from = factor.key == study.compare ? own : context;
        levels.push_back(*std::find_if(from.begin(), from.end(), [&](const auto& l) { return l.first == factor.key; }));
      }
      all.push_back(std::move(levels));
    }
  }
  return all;
}

std::string key_of(const Study& study, const Cell& cell, const std::string& experiment) {
  std::vector<std::string> words = study.script ? std::vector<std::string>{} : overrides_of(study, cell);
  for (const auto& [key, level] : cell.factors) {
    if (!is_option(key)) continue;
    words.push_back("--" + key + " " + (key == kEnvironment ? level.settings[0].second : level.text));
  }
  std::sort(words.begin(), words.end());  // a study whose lines change places is the same
  std::string text = archive::sha256(experiment);
  if (study.script) {
    for (const std::string& word : arguments_of(study, cell)) text += "\n" + archive::sha256(word);
  }
  for (const std::string& word : words) text += "\n" + word;
  if (option_of(cell, "threads").empty()) text += fmt::format("\n--threads {}", study.threads);
  return archive::sha256(text + fmt::format("\nrepeat {}", cell.repeat)).substr(0, 16);
}

Json json_of(const Cell& cell) {
  Json factors = Json::object();
  for (const auto& [key, level] : cell.factors) factors[key] = Json::parse(level.json);
  Json object{{"index", cell.index},
              {"key", cell.key},
              {"factors", factors},
              {"repeat", cell.repeat},
              {"fold", nullptr},
              {"group", nullptr},
              {"state", to_string(cell.state)},
              {"run", cell.run},
              {"weights", cell.weights},
              {"value", nullptr},
              {"note", cell.note}};
  if (cell.fold) object["fold"] = *cell.fold;
  if (!cell.groups.empty()) object["group"] = cell.groups;
  if (cell.value) object["value"] = *cell.value;
  return object;
}

}  // namespace

const char* to_string(CellState state) {
  switch (state) {
    case CellState::waiting: return "waiting";
    case CellState::running: return "running";
    case CellState::finished: return "finished";
    case CellState::failed: return "failed";
  }
  return "";
}

const Level* Cell::level(const std::string& factor) const {
  for (const auto& [key, level] : factors) {
    if (key == factor) return &level;
  }
  return nullptr;
}

std::string Cell::text() const {
  std::string text;
  for (const auto& [key, level] : factors) text += fmt::format("{}{}={}", text.empty() ? "" : " ", key, level.text);
  if (fold) text += fmt::format("{}fold={}", text.empty() ? "" : " ", *fold);
  if (repeat > 1) text += fmt::format("{}repeat={}", text.empty() ? "" : " ", repeat);
  return text.empty() ? fmt::format("repeat={}", repeat) : text;
}

std::vector<StudyFactor> all_factors(const Study& study) {
  std::vector<StudyFactor> factors = study.factors;
  if (study.folds.kind != Folds::repeated) return factors;
  StudyFactor seed{"seed", {}};
  for (std::int64_t r = 1; r <= study.folds.repeats; ++r) {
    const std::string word = std::to_string(r);
    seed.levels.push_back({word, word, word});
  }
  factors.push_back(std::move(seed));
  return factors;
}

std::vector<Cell> make_cells(const Study& study, const std::string& experiment) {
  const std::vector<StudyFactor> factors = all_factors(study);
  const std::int64_t folds = study.folds.kind == Folds::none ? 1 : study.folds.folds;
  std::int64_t count = study.sampled ? study.samples : combinations(factors);
  for (const std::int64_t more : {folds, study.repeats}) {
    if (__builtin_mul_overflow(count, more, &count)) count = INT64_MAX;
  }
  if (count > kMostCells)
    throw UserError(study.name, fmt::format("has more than {} runs", kMostCells),
                    "use fewer levels, or design = \"sampled\" with samples = N");
  std::vector<Cell> cells;
  for (const Levels& levels : study.sampled ? sampled(study, factors) : crossed(factors)) {
    for (std::int64_t fold = 0; fold < folds; ++fold) {
      for (std::int64_t repeat = 1; repeat <= study.repeats; ++repeat) {
        Cell cell;
        cell.index = static_cast<std::int64_t>(cells.size());
        cell.factors = levels;
        cell.repeat = repeat;
        if (study.folds.kind != Folds::none) cell.fold = fold;
        cell.key = key_of(study, cell, experiment);
        cells.push_back(std::move(cell));
      }
    }
  }
  return cells;
}

std::vector<std::string> overrides_of(const Study& study, const Cell& cell) {
  std::vector<std::string> words;
  const auto add = [&](const std::string& key, const std::string& value) { words.push_back(key + "=" + value); };
  for (const auto& [key, level] : study.settings) add(key, level.toml);
  for (const auto& [key, level] : cell.factors) {
    for (const auto& [own, value] : level.settings) add(own, value);
    if (!is_option(key) && key != kAlgorithm) add(key, level.toml);
  }
  if (!cell.fold) return words;
  add("split.rule", "\"" + study.folds.rule + "\"");
  add("split.folds", std::to_string(study.folds.folds));
  add("split.fold", std::to_string(*cell.fold));
  if (!study.folds.group.empty()) add("split.group", Json(study.folds.group).dump());
  return words;
}

std::vector<std::string> arguments_of(const Study& study, const Cell& cell) {
  std::vector<std::string> words = study.arguments;
  const auto add = [&](const std::string& key, const std::string& text) {
    words.insert(words.end(), {"--" + key, text});
  };
  for (const auto& [key, level] : study.settings) add(key, level.text);
  for (const auto& [key, level] : cell.factors) {
    if (is_option(key)) continue;
    if (key != kAlgorithm) add(key, level.text);
    for (const auto& [own, value] : level.settings) add(own, plain_text(value));
  }
  return words;
}

std::string option_of(const Cell& cell, const std::string& option) {
  const Level* level = cell.level(option);
  return level == nullptr ? "" : level->text;
}

std::string once_name(const Study& study, const Cell& cell) { return study.name + "-" + cell.key; }

std::string format_cells(const Study& study, const std::vector<Cell>& cells) {
  // One cell per line: a list of thousands stays readable.
  std::string text = fmt::format("{{\"format\": \"{}\", \"name\": {}, \"metric\": {}, \"cells\": [", kFormat,
                                 Json(study.name).dump(), Json(study.metric).dump());
  for (const Cell& cell : cells)
    text += (cell.index == 0 ? "\n" : ",\n") + json_of(cell).dump(-1, ' ', true, Json::error_handler_t::replace);
  return text + "\n]}\n";
}

void take_states(std::vector<Cell>& cells, const std::filesystem::path& file) {
  const auto damaged = [&](const std::string& what) {
    throw UserError(file.string(), "is no list of a study's cells: " + what,
                    "delete it: the states are found again from the runs");
  };
  std::unordered_map<std::string, Cell*> by_key;
  for (Cell& cell : cells) by_key[cell.key] = &cell;
  const std::string text = archive::read_file(file, std::uint64_t{1} << 30);
  try {
    const nlohmann::json object = nlohmann::json::parse(text);  // with quick look-ups
    if (object.at("format") != kFormat) damaged(fmt::format("its format is not {}", kFormat));
    for (const nlohmann::json& entry : object.at("cells")) {
      const auto found = by_key.find(entry.at("key").get<std::string>());
      if (found == by_key.end()) continue;
      Cell& cell = *found->second;
      const std::string state = entry.at("state").get<std::string>();
      // What ran when the study was ended has to be looked at.
      cell.state = state == "finished" ? CellState::finished
                   : state == "failed" ? CellState::failed
                                       : CellState::waiting;
      cell.run = entry.at("run").get<std::string>();
      cell.weights = entry.at("weights").get<std::string>();
      cell.note = entry.at("note").get<std::string>();
      if (entry.at("group").is_array()) cell.groups = entry.at("group").get<std::vector<std::string>>();
      if (entry.at("value").is_number()) cell.value = entry.at("value").get<double>();
    }
  } catch (const nlohmann::json::exception& error) {
    damaged(error.what());
  }
}

}  // namespace isobit::study
