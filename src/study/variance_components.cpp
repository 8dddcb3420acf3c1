#include "study/variance_components.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <set>
#include <stdexcept>

#include "study/distributions.h"
#include "study/random_stream.h"

namespace isobit::study {
namespace {

constexpr double kRounding = 1e-12;  // of the whole: below it a sum of squares is 0
constexpr std::int64_t kPivotalDraws = 10'000, kBootstrapDraws = 1'000;

using Matrix = std::vector<std::vector<double>>;

// A grouping of the results: by the levels of one factor, or by pairs of levels of two.
struct Effect {
  std::string name;
  std::set<int> factors;
  std::vector<int> level;  // of each result
  int levels = 0;
  std::vector<double> sizes;  // results of each level
};

Effect group_by(std::string name, std::set<int> factors, std::span<const Factor> all, std::size_t n) {
  Effect effect{std::move(name), std::move(factors), std::vector<int>(n), 0, {}};
  std::map<std::vector<int>, int> seen;
  for (std::size_t i = 0; i < n; ++i) {
    std::vector<int> key;
    for (const int f : effect.factors) key.push_back(all[f].levels[i]);
    effect.level[i] = seen.emplace(std::move(key), static_cast<int>(seen.size())).first->second;
  }
  effect.levels = static_cast<int>(seen.size());
  effect.sizes.assign(seen.size(), 0);
  for (const int level : effect.level) effect.sizes[level] += 1;
  return effect;
}

// Whether each level of the one is a level of the other: both group the results alike (levels are numbered as met).
bool same_grouping(const Effect& a, const Effect& b) { return a.level == b.level; }

// Effects of one factor and of two. What cannot be told from another effect or from the residual is left out.
class EffectList {
 public:
  EffectList(std::span<const Factor> factors, std::size_t n, std::vector<std::string>& notes)
      : factors_(factors), n_(n), notes_(notes) {
    const int count = static_cast<int>(factors.size());
    for (int f = 0; f < count; ++f) {
      std::set<int> members{f};
      if (factors[f].within >= 0) members.insert(factors[f].within);
      add(factors[f].name, std::move(members), true);
    }
    const std::vector<Effect> single = effects;
    for (std::size_t a = 0; a < single.size(); ++a) {
      for (std::size_t b = a + 1; b < single.size(); ++b) {
        std::set<int> both = single[a].factors;
        both.insert(single[b].factors.begin(), single[b].factors.end());
        if (both.size() == std::max(single[a].factors.size(), single[b].factors.size())) continue;  // nested
        add(single[a].name + " × " + single[b].name, std::move(both), false);
      }
    }
  }

  std::vector<Effect> effects;

 private:
  void add(std::string name, std::set<int> members, bool single) {
    Effect effect = group_by(std::move(name), std::move(members), factors_, n_);
    if (effect.levels < 2) {
      notes_.push_back(fmt::format("{} has one level: what it explains cannot be told", effect.name));
      return;
    }
    if (effect.levels == static_cast<int>(n_)) {
      if (single)
        notes_.push_back(fmt::format("every result has its own level of {}: it counts as residual", effect.name));
      return;
    }
    for (const Effect& other : effects) {
      if (!same_grouping(effect, other)) continue;
      if (single) notes_.push_back(fmt::format("{} cannot be told from {}", effect.name, other.name));
      return;
    }
    effects.push_back(std::move(effect));
  }

  std::span<const Factor> factors_;
  std::size_t n_;
  std::vector<std::string>& notes_;
};

// Each combination of levels equally often, and all of them.
bool is_balanced(std::span<const Factor> factors, const std::vector<Effect>& effects, std::size_t n) {
  for (const Effect& effect : effects) {
    if (std::any_of(effect.sizes.begin(), effect.sizes.end(), [&](double s) { return s != effect.sizes[0]; }))
      return false;
  }
  std::set<int> all;  // those that no effect has were left out
  for (const Effect& effect : effects) all.insert(effect.factors.begin(), effect.factors.end());
  double expected = 1;
  for (const int f : all) {
    const int within = factors[f].within;
    const Effect own = group_by("", within < 0 ? std::set<int>{f} : std::set<int>{within, f}, factors, n);
    expected *= own.levels;
    if (within >= 0) expected /= group_by("", {within}, factors, n).levels;
  }
  const Effect combinations = group_by("", all, factors, n);
  return combinations.levels == expected && std::all_of(combinations.sizes.begin(), combinations.sizes.end(),
                                                        [&](double s) { return s == combinations.sizes[0]; });
}

// Sum over the levels of (total of the level)^2 / its size.
double sum_of_squares(const Effect& effect, std::span<const double> y) {
  std::vector<double> totals(effect.sizes.size(), 0);
  for (std::size_t i = 0; i < y.size(); ++i) totals[effect.level[i]] += y[i];
  double sum = 0;
  for (std::size_t l = 0; l < totals.size(); ++l) sum += totals[l] * totals[l] / effect.sizes[l];
  return sum;
}

// Gaussian elimination with the largest pivot; nothing where the matrix is singular.
std::optional<std::vector<double>> solve(Matrix a, std::vector<double> b) {
  const std::size_t n = b.size();
  for (std::size_t k = 0; k < n; ++k) {
    std::size_t best = k;
    for (std::size_t i = k + 1; i < n; ++i) {
      if (std::abs(a[i][k]) > std::abs(a[best][k])) best = i;
    }
    double scale = 0;
    for (const double value : a[best]) scale = std::max(scale, std::abs(value));
    if (std::abs(a[best][k]) <= 1e-9 * scale) return std::nullopt;
    std::swap(a[k], a[best]);
    std::swap(b[k], b[best]);
    for (std::size_t i = k + 1; i < n; ++i) {
      const double factor = a[i][k] / a[k][k];
      for (std::size_t j = k; j < n; ++j) a[i][j] -= factor * a[k][j];
      b[i] -= factor * b[k];
    }
  }
  for (std::size_t k = n; k-- > 0;) {
    for (std::size_t j = k + 1; j < n; ++j) b[k] -= a[k][j] * b[j];
    b[k] /= a[k][k];
  }
  return b;
}

// Henderson's first method: the expectations of the sums of squares (less that of the mean) as a matrix over the
// components, the residual last.
class Equations {
 public:
  explicit Equations(const std::vector<Effect>& effects, std::size_t n) : effects_(effects), n_(n) {
    const std::size_t k = effects.size();
    matrix_.assign(k + 1, std::vector<double>(k + 1));
    std::vector<double> of_mean(k + 1, 1);
    for (std::size_t m = 0; m < k; ++m) {
      double squares = 0;
      for (const double size : effects[m].sizes) squares += size * size;
      of_mean[m] = squares / static_cast<double>(n);
    }
    for (std::size_t e = 0; e < k; ++e) {
      for (std::size_t m = 0; m < k; ++m) matrix_[e][m] = shared(effects[e], effects[m]) - of_mean[m];
      matrix_[e][k] = effects[e].levels - 1;
    }
    for (std::size_t m = 0; m < k; ++m) matrix_[k][m] = static_cast<double>(n) - of_mean[m];
    matrix_[k][k] = static_cast<double>(n) - 1;
  }

  [[nodiscard]] std::optional<std::vector<double>> estimates(std::span<const double> y) const {
    double total = 0, squares = 0;
    for (const double value : y) {
      total += value;
      squares += value * value;
    }
    const double of_mean = total * total / static_cast<double>(n_);
    std::vector<double> sums;
    for (const Effect& effect : effects_) sums.push_back(sum_of_squares(effect, y) - of_mean);
    sums.push_back(squares - of_mean);
    return solve(matrix_, std::move(sums));
  }

 private:
  // Sum over pairs of levels of (results that both hold)^2 / (size of the first).
  static double shared(const Effect& first, const Effect& second) {
    std::map<std::pair<int, int>, double> held;
    for (std::size_t i = 0; i < first.level.size(); ++i) held[{first.level[i], second.level[i]}] += 1;
    double sum = 0;
    for (const auto& [levels, count] : held) sum += count * count / first.sizes[levels.first];
    return sum;
  }

  const std::vector<Effect>& effects_;
  std::size_t n_;
  Matrix matrix_;
};

// Draws of all components, the residual last: what they may have been, given the results.
using Draws = std::vector<std::vector<double>>;

// Of a balanced design, whose sums of squares are independent multiples of chi-squared numbers.
class Pivots {
 public:
  Pivots(const std::vector<Effect>& effects, std::span<const double> y) : effects_(effects), y_(y) {
    const auto n = static_cast<double>(y.size());
    double total = 0, whole = 0, left_degrees = n - 1;
    for (const double value : y) total += value, whole += value * value;
    whole -= total * total / n;
    double left = whole;
    for (std::size_t e = 0; e < effects.size(); ++e) {  // those of one factor stand before those of two
      double squares = sum_of_squares(effects[e], y) - total * total / n, degrees = effects[e].levels - 1;
      for (std::size_t s = 0; s < e; ++s) {
        if (!contains(effects[e], effects[s])) continue;
        squares -= squares_[s];
        degrees -= degrees_[s];
      }
      squares_.push_back(squares < kRounding * whole ? 0 : squares);
      degrees_.push_back(degrees);
      left -= squares;
      left_degrees -= degrees;
    }
    squares_.push_back(left < kRounding * whole ? 0 : left);
    degrees_.push_back(left_degrees);
  }
  [[nodiscard]] bool usable() const {
    return std::all_of(degrees_.begin(), degrees_.end(), [](double d) { return d >= 1; });
  }

  [[nodiscard]] Draws draw(std::uint64_t seed) const {
    RandomStream random(seed, Purpose::components);
    Draws draws(static_cast<std::size_t>(kPivotalDraws));
    for (std::vector<double>& components : draws) {
      std::vector<double> means;  // mean squares' expectations
      for (std::size_t e = 0; e < squares_.size(); ++e)
        means.push_back(squares_[e] / chi_squared_quantile(random.uniform(), degrees_[e]));
      components = components_of(means);
    }
    return draws;
  }

 private:
  static bool contains(const Effect& larger, const Effect& smaller) {
    return larger.factors != smaller.factors &&
           std::includes(larger.factors.begin(), larger.factors.end(), smaller.factors.begin(), smaller.factors.end());
  }

  // E[mean square of e] = residual + sum over e and all that contain it of (results per level) * component.
  [[nodiscard]] std::vector<double> components_of(const std::vector<double>& means) const {
    std::vector<double> components(means.size());
    components.back() = means.back();
    for (std::size_t e = effects_.size(); e-- > 0;) {
      double rest = means[e] - means.back();
      for (std::size_t m = e + 1; m < effects_.size(); ++m) {
        if (contains(effects_[m], effects_[e])) rest -= effects_[m].sizes[0] * components[m];
      }
      components[e] = rest / effects_[e].sizes[0];
    }
    return components;
  }

  const std::vector<Effect>& effects_;
  std::span<const double> y_;
  std::vector<double> squares_, degrees_;  // the residual last
};

// Of any design: results drawn from the fitted model, estimated like the real ones.
Draws bootstrap(const std::vector<Effect>& effects, const Equations& equations, const std::vector<double>& variances,
                std::size_t n, std::uint64_t seed) {
  RandomStream random(seed, Purpose::components);
  const auto normal = [&](double variance) { return std::sqrt(variance) * normal_quantile(random.uniform()); };
  Draws draws;
  std::vector<double> y(n);
  for (std::int64_t draw = 0; draw < kBootstrapDraws; ++draw) {
    for (double& value : y) value = normal(variances.back());
    for (std::size_t e = 0; e < effects.size(); ++e) {
      if (variances[e] == 0) continue;
      std::vector<double> of_level(effects[e].sizes.size());
      for (double& value : of_level) value = normal(variances[e]);
      for (std::size_t i = 0; i < n; ++i) y[i] += of_level[effects[e].level[i]];
    }
    if (auto estimates = equations.estimates(y)) draws.push_back(std::move(*estimates));
  }
  return draws;
}

Interval middle(std::vector<double> values, double confidence) {
  std::sort(values.begin(), values.end());
  return {quantile(values, (1 - confidence) / 2), quantile(values, (1 + confidence) / 2)};
}

void set_intervals(std::vector<Component>& components, const Draws& draws, double confidence) {
  for (std::size_t c = 0; c < components.size(); ++c) {
    std::vector<double> variances, shares;
    for (const std::vector<double>& draw : draws) {
      double whole = 0;
      for (const double value : draw) whole += std::max(0.0, value);
      const double own = std::max(0.0, draw[c]);
      variances.push_back(own);
      shares.push_back(whole > 0 ? own / whole : 0);
    }
    components[c].variance_interval = middle(std::move(variances), confidence);
    components[c].share_interval = middle(std::move(shares), confidence);
  }
}

}  // namespace

VarianceComponents variance_components(std::span<const double> results, std::span<const Factor> factors,
                                       double confidence, std::uint64_t seed) {
  for (const Factor& factor : factors) {
    if (factor.levels.size() != results.size())
      throw std::invalid_argument("variance_components: levels and results differ in number");
  }
  VarianceComponents result;
  const std::size_t n = results.size();
  if (n < 3) {
    result.notes.push_back(fmt::format("{} results are too few for a share of the spread", n));
    return result;
  }
  const bool all_equal = std::all_of(results.begin(), results.end(), [&](double r) { return r == results[0]; });
  result.mean = all_equal ? results[0] : mean(results);
  std::vector<double> y(results.begin(), results.end());
  for (double& value : y) value -= result.mean;  // sums of squares of small numbers round less
  std::vector<Effect> effects = EffectList(factors, n, result.notes).effects;

  // Pairs of factors that the design cannot tell apart are left to the residual, the last first.
  std::optional<std::vector<double>> estimates;
  while (!(estimates = Equations(effects, n).estimates(y))) {
    if (effects.empty()) return result;
    result.notes.push_back(fmt::format("{} cannot be told from the residual here", effects.back().name));
    effects.pop_back();
  }
  const auto sum = [&] {
    double total = 0;
    for (const double value : *estimates) total += std::max(0.0, value);
    return total;
  };
  for (double& estimate : *estimates) estimate = std::abs(estimate) <= kRounding * sum() ? 0 : estimate;
  const double whole = sum();
  std::vector<double> variances;
  for (std::size_t c = 0; c < estimates->size(); ++c) {
    const double estimate = (*estimates)[c];
    const bool residual = c == effects.size();
    const std::string name = residual ? "residual" : effects[c].name;
    if (estimate < 0)
      result.notes.push_back(
          fmt::format("{} is estimated below 0 ({:.3g}): it is within the noise, and counts as 0", name, estimate));
    variances.push_back(std::max(0.0, estimate));
    result.components.push_back({name,
                                 residual ? static_cast<std::int64_t>(n) : effects[c].levels,
                                 estimate,
                                 variances.back(),
                                 whole > 0 ? variances.back() / whole : 0,
                                 {},
                                 {}});
  }
  result.balanced = is_balanced(factors, effects, n);
  const Pivots pivots(effects, y);
  if (whole == 0) {
    result.notes.emplace_back("all results are equal: there is no spread to explain");
  } else if (result.balanced && pivots.usable()) {
    set_intervals(result.components, pivots.draw(seed), confidence);
  } else {
    result.notes.emplace_back("the design is not balanced: intervals are approximate, and too short for few levels");
    set_intervals(result.components, bootstrap(effects, Equations(effects, n), variances, n, seed), confidence);
  }
  return result;
}

}  // namespace isobit::study
