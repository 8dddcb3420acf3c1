// The cells of a study: one run each, and how far it is (docs/formats/study.md, cells.json).
//
// A crossed design has all combinations of the factors' levels; a sampled one some of them, drawn by Philox without
// repetition, and each with every level of the factor that is compared. Each is done for every fold and repeat. A
// cell's key follows from what its run is: a study that grows keeps the runs that it has. Errors are UserError.
// Thread-safe.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "study/study_file.h"

namespace isobit::study {

inline constexpr std::int64_t kMostCells = 100'000;

enum class CellState { waiting, running, finished, failed };
[[nodiscard]] const char* to_string(CellState state);

struct Cell {
  std::int64_t index = 0;
  std::vector<std::pair<std::string, Level>> factors;  // in the study's order
  std::int64_t repeat = 1;
  std::optional<std::int64_t> fold;  // from 0
  std::vector<std::string> groups;   // that a finished run's test part holds (split.group)
  std::string key;                   // 16 hex digits
  CellState state = CellState::waiting;
  std::string run, weights;     // the record's id and its final weights; "" before
  std::optional<double> value;  // of the metric; a finished run may have none (NaN)
  std::string note;             // why there is no value

  [[nodiscard]] const Level* level(const std::string& factor) const;
  // "optimizer.name=adam seed=3 fold=0"
  [[nodiscard]] std::string text() const;
};

// The factors with those that [folds] adds: repeated folds are a factor "seed", 1 to the number of repetitions.
[[nodiscard]] std::vector<StudyFactor> all_factors(const Study& study);

// `experiment`: the experiment file's text, a part of every key.
[[nodiscard]] std::vector<Cell> make_cells(const Study& study, const std::string& experiment);

// "optimizer.name=\"adam\"", ...: what isobit run is to override.
[[nodiscard]] std::vector<std::string> overrides_of(const Study& study, const Cell& cell);
// "--lr", "0.1", ...: what a script's run gets: the study's arguments, then its settings and the cell's levels.
[[nodiscard]] std::vector<std::string> arguments_of(const Study& study, const Cell& cell);
// The level of an option of isobit run; "" where it is no factor.
[[nodiscard]] std::string option_of(const Cell& cell, const std::string& option);
// What the run is called (isobit run --once).
[[nodiscard]] std::string once_name(const Study& study, const Cell& cell);

[[nodiscard]] std::string format_cells(const Study& study, const std::vector<Cell>& cells);
// States, runs and values by key, as an earlier call wrote them, of the cells that are in both.
void take_states(std::vector<Cell>& cells, const std::filesystem::path& file);

}  // namespace isobit::study
