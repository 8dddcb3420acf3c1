// The cells of a study as numbers: grouped by settings, and within a group by the unit that counts once. No state;
// thread-safe.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "study/cells.h"
#include "study/study_file.h"

namespace isobit::study {

// The levels of some factors, as a key.
[[nodiscard]] std::string key_of(const Cell& cell, const std::vector<std::string>& keys);

// Which factors make a unit: what chance decides (seeds, folds) where the study varies it; else repeats; else how runs
// were executed; else the settings beside the compared one. "repeat" and "fold" stand for these.
struct Units {
  std::vector<std::string> keys;
  bool settings = false;  // the last resort: settings stand for chance
  [[nodiscard]] std::string text() const;
};
[[nodiscard]] Units units_of(const Study& study);

[[nodiscard]] inline bool counts(const Cell& cell) {
  return cell.state == CellState::finished && cell.value.has_value();
}

}  // namespace isobit::study
