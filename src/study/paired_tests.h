// Two algorithms compared in pairs of runs that agree in all else.
//
//   sign flips   the exact permutation test of the mean difference: were the algorithms the same, each difference could
//                as well have the other sign. All 2^n signs up to 20 pairs, above that 99,999 drawn by Philox: then the
//                p-value cannot fall below 1e-5. Sums are of whole multiples of 2^-40 of the largest difference, and
//                count as tied where rounding to them could part them: the p-value is the same everywhere.
//   McNemar      of predictions for the same samples: b samples that only the first gets right against c that only the
//                second does, exact (binomial). With several pairs of runs a sample counts for the algorithm under
//                which more of its runs get it right.
//   corrected t  for folds, whose training parts overlap: the variance of the mean difference is (1/n + test/train) s^2
//                instead of s^2/n (Nadeau, Bengio 2003, "Inference for the generalization error", Machine Learning 52).
//
// Differences are second minus first. No state; thread-safe.
#pragma once

#include <cstdint>
#include <optional>
#include <span>

namespace isobit::study {

inline constexpr std::int64_t kMostExactPairs = 20;
inline constexpr std::int64_t kSampledFlips = 99'999;

struct Permutation {
  double p = 1;
  bool exact = true;
  double resolution = 1;  // the smallest p-value that so many pairs can give
};
// Two-sided. No differences: p = 1.
[[nodiscard]] Permutation sign_flips(std::span<const double> differences, std::uint64_t seed);

// Two-sided p-value for b and c discordant samples; 1 where there are none.
[[nodiscard]] double mcnemar(std::int64_t only_first, std::int64_t only_second);

// Two-sided. `overlap` is test/train of the folds (1/(k-1) of k), 0 for independent pairs: then it is the paired t
// test. Nothing of fewer than two differences; without any spread p is 1 where the difference is 0, else 0.
[[nodiscard]] std::optional<double> corrected_t(std::span<const double> differences, double overlap);

struct PowerQuestion {
  double difference = 0,
         noise = 0;  // the true mean difference that is assumed, and the standard deviation of differences
  double overlap = 0;
  double alpha = 0.05, power = 0.8;
};
inline constexpr std::int64_t kMostPairs = 1'000'000;
// The number of pairs with which a two-sided test at `alpha` finds the difference with this probability: that of the t
// test, and enough for sign flips to reach `alpha` at all (6 for 0.05). Nothing where no number up to kMostPairs does,
// as with overlapping folds, whose noise has a floor.
[[nodiscard]] std::optional<std::int64_t> pairs_for(const PowerQuestion& question);
// The smallest difference that so many pairs find with this probability; nothing for fewer than two.
[[nodiscard]] std::optional<double> detectable(std::int64_t pairs, const PowerQuestion& question);

}  // namespace isobit::study
