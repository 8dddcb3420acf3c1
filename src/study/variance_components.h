// How much of the spread of results each factor of a study explains: the variance components of a random-effects model
//
//   result = mean + one random effect per level of each factor + one per pair of levels of two factors + residual
//
// Estimates are Henderson's first method (1953, "Estimation of variance and covariance components", Biometrics 9;
// Searle, Casella, McCulloch 1992, "Variance Components", section 5.3): sums of squares of the levels' totals are set
// equal to what the model expects of them. For a balanced design these are the estimates of the analysis of variance;
// for one with missing cells they stay unbiased. They need + - * / alone, and so have the same bits everywhere. REML,
// which a fit by iteration gives, is the same for a balanced design with no estimate below 0.
//
// An estimate may fall below 0: the component is then within the noise of the others. `estimate` keeps it; variance and
// share take 0 for it, and a note says so. What is below 1e-12 of the whole is rounding, and 0.
//
// Intervals: of a balanced design from generalized pivotal quantities (Weerahandi 1993, JASA 88), which stay honest
// for factors of few levels; of others by a parametric bootstrap (quantiles), which is too short for them: a note says
// so. No state; thread-safe.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "study/sample_statistics.h"

namespace isobit::study {

struct Factor {
  std::string name;
  std::vector<int> levels;  // of each result, numbered from 0
  // The factor whose levels it is nested in (a fold of one repetition is not the fold of the next): -1, none.
  int within = -1;
};

struct Component {
  std::string factor;  // "seed", "seed × threads", "residual"
  std::int64_t levels = 0;
  double estimate = 0, variance = 0, share = 0;
  Interval variance_interval, share_interval;
};

struct VarianceComponents {
  std::vector<Component> components;  // the residual last; none where there are too few results
  double mean = 0;
  bool balanced = false;
  std::vector<std::string> notes;  // what was left out or is to be read with care, in words
};

// std::invalid_argument where the factors' levels are not as many as the results.
[[nodiscard]] VarianceComponents variance_components(std::span<const double> results, std::span<const Factor> factors,
                                                     double confidence, std::uint64_t seed);

}  // namespace isobit::study
