#include "study/analysis.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <set>

#include "archive/record_types.h"
#include "study/comparison.h"
#include "study/unit_values.h"

namespace isobit::study {
namespace {

using Cells = std::vector<const Cell*>;

std::vector<std::string> keys_of(const std::vector<StudyFactor>& factors, Role role) {
  std::vector<std::string> keys;
  for (const StudyFactor& factor : factors) {
    if (factor.role() == role) keys.push_back(factor.key);
  }
  return keys;
}

FactorLevels levels_in(const Cell& cell, const std::vector<std::string>& keys) {
  FactorLevels levels;
  for (const std::string& key : keys) levels.emplace_back(key, *cell.level(key));
  return levels;
}

// In the order in which the cells come.
std::vector<Cells> group(const Cells& cells, const std::vector<std::string>& keys) {
  std::vector<Cells> groups;
  std::map<std::string, std::size_t> place;
  for (const Cell* cell : cells) {
    const auto [found, added] = place.emplace(key_of(*cell, keys), groups.size());
    if (added) groups.emplace_back();
    groups[found->second].push_back(cell);
  }
  return groups;
}

double mean_of(const Cells& cells) {
  std::vector<double> values;
  for (const Cell* cell : cells) values.push_back(*cell->value);
  return mean(values);
}

std::vector<SummaryRow> summarise(const Study& study, const Cells& cells, const Units& units) {
  const auto settings = keys_of(all_factors(study), Role::setting);
  std::vector<SummaryRow> rows;
  for (const Cells& members : group(cells, settings)) {
    SummaryRow row;
    row.factors = levels_in(*members[0], settings);
    std::vector<double> values;
    for (const Cells& unit : group(members, units.settings ? std::vector<std::string>{} : units.keys))
      values.push_back(mean_of(unit));
    row.n = static_cast<std::int64_t>(values.size());
    row.runs = static_cast<std::int64_t>(members.size());
    row.mean = mean(values);
    row.sd = standard_deviation(values);
    row.interval = bootstrap_interval(values, 1 - study.alpha, study.seed);
    rows.push_back(std::move(row));
  }
  return rows;
}

Factor factor_of(const std::string& name, const Cells& cells) {
  Factor factor{name, {}};
  std::map<std::string, int> numbers;
  for (const Cell* cell : cells)
    factor.levels.push_back(numbers.emplace(key_of(*cell, {name}), static_cast<int>(numbers.size())).first->second);
  return factor;
}

VarianceComponents explain(const Study& study, const Cells& cells, const std::string& without) {
  std::vector<Factor> factors;
  int seed = -1;
  for (const StudyFactor& factor : all_factors(study)) {
    if (factor.key == without || factor.levels.size() < 2) continue;
    if (factor.key == "seed") seed = static_cast<int>(factors.size());
    factors.push_back(factor_of(factor.key, cells));
  }
  if (study.folds.kind != Folds::none) {
    factors.push_back(factor_of("fold", cells));
    factors.back().within = seed;  // each seed cuts folds of its own
  }
  std::vector<double> values;
  for (const Cell* cell : cells) values.push_back(*cell->value);
  return variance_components(values, factors, 1 - study.alpha, study.seed);
}

// "threads: changed nothing: ...", of runs that differ in this alone.
std::optional<std::string> finding(const Study& study, const Cells& cells, const std::string& key,
                                   const std::string& where) {
  std::vector<std::string> others;
  for (const std::string& other : {std::string("repeat"), std::string("fold")}) {
    if (other != key) others.push_back(other);
  }
  for (const StudyFactor& factor : all_factors(study)) {
    if (factor.key != key) others.push_back(factor.key);
  }
  std::int64_t groups = 0, moved = 0, weights = 0;
  double largest = 0;
  for (const Cells& members : group(cells, others)) {
    if (members.size() < 2) continue;
    ++groups;
    double low = *members[0]->value, high = low;
    bool same = true;
    for (const Cell* cell : members) {
      low = std::min(low, *cell->value);
      high = std::max(high, *cell->value);
      same = same && archive::same_values_of(cell->weights, members[0]->weights);
    }
    if (!same) ++weights;
    if (high != low) ++moved;
    largest = std::max(largest, high - low);
  }
  if (groups == 0) return std::nullopt;
  const std::string what = key == "repeat" ? "repeats" : key;
  if (weights == 0 && moved == 0)
    return fmt::format("{}{}: nothing moves: runs that differ in nothing else have the same weights ({} of {} groups)",
                       what, where, groups, groups);
  return fmt::format(
      "{}{}: weights differ in {} of {} groups of runs that differ in nothing else; {} in {}, by {:.3g} "
      "at most",
      what, where, weights, groups, study.metric, moved, largest);
}

void find_movers(const Study& study, const Cells& cells, const std::string& where, Results& results) {
  for (const StudyFactor& factor : all_factors(study)) {
    if (factor.role() != Role::environment || factor.levels.size() < 2) continue;
    if (auto text = finding(study, cells, factor.key, where)) results.findings.push_back(std::move(*text));
  }
  if (study.repeats < 2) return;
  if (auto text = finding(study, cells, "repeat", where)) results.findings.push_back(std::move(*text));
}

void warn_of_cells(const Study& study, const std::vector<Cell>& cells, std::vector<std::string>& warnings) {
  std::int64_t failed = 0, waiting = 0, no_value = 0;
  std::string why;
  for (const Cell& cell : cells) {
    if (cell.state == CellState::failed) ++failed;
    if (cell.state == CellState::waiting || cell.state == CellState::running) ++waiting;
    if (cell.state == CellState::finished && !cell.value) ++no_value;
    if (why.empty() && (cell.state == CellState::failed || (cell.state == CellState::finished && !cell.value)))
      why = fmt::format("{}: {}", cell.text(), cell.note);
  }
  if (failed > 0)
    warnings.push_back(fmt::format("{} of {} runs failed and are left out ({})", failed, cells.size(), why));
  if (no_value > 0)
    warnings.push_back(fmt::format("{} of {} runs have no finite {}, and are left out ({})", no_value, cells.size(),
                                   study.metric, why));
  if (waiting > 0) warnings.push_back(fmt::format("{} of {} runs are still to be made", waiting, cells.size()));
}

void warn_of_design(const Study& study, const Results& results, std::vector<std::string>& warnings) {
  for (const StudyFactor& factor : study.factors) {
    if (factor.levels.size() == 1)
      warnings.push_back(fmt::format("{} has one level: what it explains cannot be told", factor.key));
  }
  std::int64_t least = std::numeric_limits<std::int64_t>::max(), most = 0;
  for (const SummaryRow& row : results.summary) {
    least = std::min(least, row.n);
    most = std::max(most, row.n);
  }
  if (results.summary.empty()) return;
  if (most == 1) {
    warnings.emplace_back(
        "each setting has one value: its spread is unknown, and no difference can be called real; "
        "add a factor seed = \"1..10\", or repeats");
  } else if (least < 10) {
    warnings.push_back(fmt::format("n is {} for some settings: below 10, bootstrap intervals are too short", least));
  }
  if (least != most) warnings.push_back(fmt::format("settings have unequal numbers of values, {} to {}", least, most));
}

void warn_of_folds(const Study& study, const Results& results, std::vector<std::string>& warnings) {
  if (study.folds.kind == Folds::none) return;
  if (!study.compare.empty())
    warnings.emplace_back(
        "training parts of folds overlap: p of sign flips is too small; the corrected t test decides");
  if (results.summary.size() > 2)
    warnings.push_back(
        fmt::format("the same folds judge {} settings: the best of them looks better than it is; judge it "
                    "on data that chose nothing",
                    results.summary.size()));
}

// Samples of one subject in both parts make results too good.
void warn_of_leaks(const Study& study, const std::vector<Cell>& cells, std::vector<std::string>& warnings) {
  const bool folds = study.folds.kind != Folds::none;
  if ((folds || study.splits) && study.split_group.empty() && study.folds.group.empty())
    warnings.push_back(
        fmt::format("{} has no group: if several samples are of one subject, they are in training and test part alike, "
                    "and results are too good",
                    folds ? "[folds]" : "the experiment's [split]"));
  if (study.folds.kind != Folds::leave_one_group_out) return;
  std::set<std::string> groups;
  const Cell* several = nullptr;
  for (const Cell& cell : cells) {
    groups.insert(cell.groups.begin(), cell.groups.end());
    if (cell.groups.size() > 1 && several == nullptr) several = &cell;
  }
  if (several != nullptr)
    warnings.push_back(fmt::format("fold {} leaves {} groups out, not one: the folds hold {} groups, so set folds = {}",
                                   *several->fold, several->groups.size(), groups.size(), groups.size()));
}

}  // namespace

Results analyse(const Study& study, const std::vector<Cell>& cells, const HitsOf& hits) {
  Results results;
  Cells counting;
  for (const Cell& cell : cells) {
    if (counts(cell)) counting.push_back(&cell);
  }
  const Units units = units_of(study);
  results.unit = units.text();
  warn_of_cells(study, cells, results.warnings);
  if (counting.empty()) return results;
  results.summary = summarise(study, counting, units);

  // Stock and isobit have nothing in common but the question: each is explained on its own.
  const std::string kind = "arithmetic.kind";
  const StudyFactor* arithmetic = study.find(kind);
  const bool parts = arithmetic != nullptr && arithmetic->levels.size() > 1;
  for (const Cells& part : group(counting, parts ? std::vector<std::string>{kind} : std::vector<std::string>{})) {
    ComponentTable table;
    if (parts) table.within = levels_in(*part[0], {kind});
    const std::string where = parts ? fmt::format(" ({})", part[0]->level(kind)->text) : "";
    find_movers(study, part, where, results);
    if (part.size() >= 3 && part.size() <= 20'000) {
      table.components = explain(study, part, parts ? kind : "");
      for (const std::string& note : table.components.notes) results.warnings.push_back("shares" + where + ": " + note);
      results.components.push_back(std::move(table));
    }
  }
  if (!study.compare.empty()) results.comparisons = compare_levels(study, cells, hits, results.warnings);
  warn_of_design(study, results, results.warnings);
  warn_of_folds(study, results, results.warnings);
  warn_of_leaks(study, cells, results.warnings);
  return results;
}

}  // namespace isobit::study
