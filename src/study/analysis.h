// What a study's runs say together: spread, what explains it, which algorithm is better, and what is to be read with
// care (docs/formats/study.md, results.json).
//
// Runs that share what chance decides (seed, fold) are not independent: within such a unit values are averaged, and n
// counts units, not runs. Only finished runs with a finite value count; warnings say what is missing. No state;
// thread-safe.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "study/cells.h"
#include "study/sample_statistics.h"
#include "study/study_file.h"
#include "study/variance_components.h"

namespace isobit::study {

using FactorLevels = std::vector<std::pair<std::string, Level>>;

// Of one combination of the settings.
struct SummaryRow {
  FactorLevels factors;
  std::int64_t n = 0, runs = 0;  // units, and runs in them
  double mean = 0, sd = 0;       // sd is NaN of one unit
  Interval interval;
};

struct ComponentTable {
  FactorLevels within;  // the part of the study that it is of: one kind of arithmetic
  VarianceComponents components;
};

struct Comparison {
  Level a, b;
  std::int64_t n = 0, runs = 0;              // pairs (units), and runs in them
  double difference = 0, noise = 0;          // b minus a; sd of the pairs' differences
  Interval interval;                         // of the mean difference
  double p_permutation = 1, p_adjusted = 1;  // adjusted (Holm) is that of the test which decides
  bool exact = true;                         // all sign flips, not a sample of them
  double resolution = 1;                     // the smallest p_permutation that n pairs can give
  std::optional<double> p_mcnemar, p_corrected_t;
  std::optional<std::int64_t> runs_needed;  // still, of both algorithms together; 0: none; nothing: no number helps
  std::optional<double> detectable;         // the smallest difference that n pairs find
  std::string verdict;
};

struct Results {
  std::string unit;  // what n counts: "seed", "seed and fold", ...
  std::vector<SummaryRow> summary;
  std::vector<ComponentTable> components;
  std::vector<Comparison> comparisons;
  std::vector<std::string> findings;  // what changed nothing, and what did
  std::vector<std::string> warnings;
};

// Which samples a cell's run predicted right, and of which test set (the digest of its targets).
struct SampleHits {
  std::string samples;
  std::vector<bool> right;
};
using HitsOf = std::function<std::optional<SampleHits>(const Cell&)>;

[[nodiscard]] Results analyse(const Study& study, const std::vector<Cell>& cells, const HitsOf& hits = {});

}  // namespace isobit::study
