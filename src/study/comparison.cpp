#include "study/comparison.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "study/paired_tests.h"
#include "study/unit_values.h"

namespace isobit::study {
namespace {

// Runs of two algorithms that agree in all else.
struct Pair {
  const Cell* a = nullptr;
  const Cell* b = nullptr;
};

struct Pairs {
  std::map<std::string, std::vector<Pair>> units;
  std::int64_t unmatched = 0;
};

// Everything but the compared factor.
std::vector<std::string> context_keys(const Study& study) {
  std::vector<std::string> keys{"repeat", "fold"};
  for (const StudyFactor& factor : all_factors(study)) {
    if (factor.key != study.compare) keys.push_back(factor.key);
  }
  return keys;
}

Pairs match(const Study& study, const std::vector<Cell>& cells, const Level& a, const Level& b) {
  const std::vector<std::string> keys = context_keys(study);
  const Units units = units_of(study);
  std::map<std::string, Pair> contexts;
  for (const Cell& cell : cells) {
    const Level& level = *cell.level(study.compare);
    if (!counts(cell) || (level != a && level != b)) continue;
    Pair& pair = contexts[key_of(cell, keys)];
    (level == a ? pair.a : pair.b) = &cell;
  }
  Pairs pairs;
  for (const auto& [key, pair] : contexts) {
    if (pair.a == nullptr || pair.b == nullptr) {
      ++pairs.unmatched;
    } else {
      pairs.units[key_of(*pair.a, units.keys)].push_back(pair);
    }
  }
  return pairs;
}

// For each test sample, under which algorithm more runs get it right.
std::optional<double> samples_test(const Pairs& pairs, const HitsOf& hits) {
  if (!hits) return std::nullopt;
  std::map<std::string, std::vector<int>> ahead;  // by test set: runs of b less runs of a that are right
  for (const auto& [unit, members] : pairs.units) {
    for (const Pair& pair : members) {
      const auto a = hits(*pair.a), b = hits(*pair.b);
      if (!a || !b || a->samples != b->samples || a->right.size() != b->right.size()) return std::nullopt;
      std::vector<int>& set = ahead[a->samples];
      set.resize(a->right.size());
      for (std::size_t i = 0; i < set.size(); ++i) set[i] += int{b->right[i]} - int{a->right[i]};
    }
  }
  std::int64_t first = 0, second = 0;
  for (const auto& [samples, set] : ahead) {
    for (const int count : set) (count < 0 ? first : second) += count != 0 ? 1 : 0;
  }
  return mcnemar(first, second);
}

double overlap_of(const Study& study) {
  return study.folds.kind == Folds::none ? 0 : 1 / static_cast<double>(study.folds.folds - 1);
}

Comparison compare_pair(const Study& study, const Pairs& pairs, const Level& a, const Level& b, const HitsOf& hits) {
  Comparison c;
  c.a = a, c.b = b;
  std::vector<double> differences;
  for (const auto& [unit, members] : pairs.units) {
    double sum = 0;
    for (const Pair& pair : members) sum += *pair.b->value - *pair.a->value;
    differences.push_back(sum / static_cast<double>(members.size()));
    c.runs += 2 * static_cast<std::int64_t>(members.size());
  }
  c.n = static_cast<std::int64_t>(differences.size());
  c.difference = mean(differences);
  c.noise = standard_deviation(differences);
  c.interval = bootstrap_interval(differences, 1 - study.alpha, study.seed);
  const Permutation flips = sign_flips(differences, study.seed);
  c.p_permutation = flips.p, c.exact = flips.exact, c.resolution = flips.resolution;
  if (study.folds.kind != Folds::none) c.p_corrected_t = corrected_t(differences, overlap_of(study));
  c.p_mcnemar = samples_test(pairs, hits);
  const PowerQuestion question{c.difference, c.noise, overlap_of(study), study.alpha, study.power};
  if (c.n >= 2) {
    c.detectable = detectable(c.n, question);
    if (const auto enough = pairs_for(question))
      c.runs_needed = std::max<std::int64_t>(0, *enough - c.n) * (c.runs / c.n);
  }
  return c;
}

double deciding(const Comparison& c) { return c.p_corrected_t.value_or(c.p_permutation); }

// Holm (1979): the i-th smallest of m p-values times m - i + 1, never below the one before.
void adjust(std::vector<Comparison>& comparisons) {
  std::vector<Comparison*> order;
  for (Comparison& c : comparisons) order.push_back(&c);
  std::stable_sort(order.begin(), order.end(),
                   [](const Comparison* x, const Comparison* y) { return deciding(*x) < deciding(*y); });
  double largest = 0;
  for (std::size_t i = 0; i < order.size(); ++i) {
    largest = std::max(largest, std::min(1.0, deciding(*order[i]) * static_cast<double>(order.size() - i)));
    order[i]->p_adjusted = largest;
  }
}

std::string verdict(const Study& study, const Comparison& c) {
  if (c.n < 2) return "no verdict: there are fewer than two pairs";
  if (c.difference == 0 && c.noise == 0) return "equal: every pair has the same value";
  if (c.p_adjusted <= study.alpha) {
    const Level& better = (c.difference > 0) == study.higher_is_better ? c.b : c.a;
    return fmt::format("{} is better", better.text);
  }
  std::string text = "no verdict: the difference is within the noise";
  if (c.difference == 0) return text;
  if (!c.runs_needed) return text + ", and more runs of these folds would not decide; more data might";
  if (*c.runs_needed > 0) return text + fmt::format("; about {} more runs would decide, were it real", *c.runs_needed);
  return text + fmt::format(", though so many runs find such a difference in {:.0f} % of cases", 100 * study.power);
}

void warn(const Study& study, const Comparison& c, const Pairs& pairs, std::vector<std::string>& warnings) {
  const std::string who = fmt::format("{} and {}", c.a.text, c.b.text);
  if (pairs.unmatched > 0)
    warnings.push_back(fmt::format("{}: {} runs have no counterpart, and are left out; what is left is a choice", who,
                                   pairs.unmatched));
  if (c.n >= 2 && study.folds.kind == Folds::none && c.resolution > study.alpha)
    warnings.push_back(
        fmt::format("{}: {} pairs cannot give a p-value below {:.3g}, so no verdict at {:.3g}: use {} "
                    "pairs or more",
                    who, c.n, c.resolution, study.alpha, static_cast<int>(std::ceil(std::log2(2 / study.alpha)))));
}

}  // namespace

std::vector<Comparison> compare_levels(const Study& study, const std::vector<Cell>& cells, const HitsOf& hits,
                                       std::vector<std::string>& warnings) {
  std::vector<Comparison> comparisons;
  const std::vector<Level>& levels = study.find(study.compare)->levels;
  for (std::size_t a = 0; a < levels.size(); ++a) {
    for (std::size_t b = a + 1; b < levels.size(); ++b) {
      const Pairs pairs = match(study, cells, levels[a], levels[b]);
      comparisons.push_back(compare_pair(study, pairs, levels[a], levels[b], hits));
      warn(study, comparisons.back(), pairs, warnings);
    }
  }
  adjust(comparisons);
  for (Comparison& c : comparisons) {
    c.verdict = verdict(study, c);
    if (c.n >= 2 && c.p_adjusted <= study.alpha) c.runs_needed = 0;
  }
  return comparisons;
}

}  // namespace isobit::study
