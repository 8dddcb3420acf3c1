#include "study/unit_values.h"

#include <fmt/format.h>

namespace isobit::study {

std::string key_of(const Cell& cell, const std::vector<std::string>& keys) {
  std::string text;
  for (const std::string& key : keys) {
    const Level* level = cell.level(key);
    text += key == "repeat" ? std::to_string(cell.repeat)
            : key == "fold" ? std::to_string(cell.fold.value_or(0))
                            : (level == nullptr ? "" : level->toml);
    text += '\n';
  }
  return text;
}

std::string Units::text() const {
  std::string text;
  for (std::size_t i = 0; i < keys.size(); ++i) text += (i == 0 ? "" : i + 1 == keys.size() ? " and " : ", ") + keys[i];
  return text.empty() ? "run" : text;
}

Units units_of(const Study& study) {
  Units units;
  const std::vector<StudyFactor> factors = all_factors(study);
  const auto add = [&](Role role) {
    for (const StudyFactor& factor : factors) {
      if (factor.role() == role && factor.levels.size() > 1 && factor.key != study.compare)
        units.keys.push_back(factor.key);
    }
  };
  add(Role::chance);
  if (study.folds.kind != Folds::none) units.keys.emplace_back("fold");
  if (!units.keys.empty()) return units;
  if (study.repeats > 1) units.keys.emplace_back("repeat");
  if (!units.keys.empty()) return units;
  add(Role::environment);
  if (!units.keys.empty() || study.compare.empty()) return units;
  add(Role::setting);
  units.settings = !units.keys.empty();
  return units;
}

}  // namespace isobit::study
