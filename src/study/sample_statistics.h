// Mean, standard deviation and bootstrap interval of a sample.
//
// The interval is BCa (bias-corrected and accelerated; Efron 1987, "Better bootstrap confidence intervals", JASA 82):
// it is second-order correct, follows skewed samples, and does not leave the range of the data, as accuracies near 1
// need. The percentile interval is that without both corrections. Below ten values every bootstrap interval is too
// short: results say n beside it.
//
// Sums are of binary64 in the order given, resamples are drawn by Philox: mean, sd and the resampled means have the
// same bits everywhere. Which of the sorted means are the interval's ends is computed with the normal distribution
// (distributions.h). No state; thread-safe.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace isobit::study {

struct Interval {
  double low = 0, high = 0;
};

// NaN of no values; of equal ones that value, which a sum may round away.
[[nodiscard]] double mean(std::span<const double> values);
// With n - 1; NaN of fewer than two values.
[[nodiscard]] double standard_deviation(std::span<const double> values);

// Linear between order statistics (the field's type 7). `sorted` ascends and is not empty.
[[nodiscard]] double quantile(std::span<const double> sorted, double p);

// Of the mean. NaN of fewer than two values; the value itself where all are equal.
[[nodiscard]] Interval bootstrap_interval(std::span<const double> values, double confidence, std::uint64_t seed,
                                          std::int64_t resamples = 9999);

}  // namespace isobit::study
