#include "study/sample_statistics.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "study/distributions.h"
#include "study/random_stream.h"

namespace isobit::study {
namespace {

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

bool all_equal(std::span<const double> values) {
  return std::all_of(values.begin(), values.end(), [&](double value) { return value == values[0]; });
}

// By how often each value was drawn, in the values' order: resamples of the same values have the same mean to the bit,
// so that ties are ties.
std::vector<double> resampled_means(std::span<const double> values, std::uint64_t seed, std::int64_t resamples) {
  RandomStream random(seed, Purpose::bootstrap);
  const std::size_t n = values.size();
  std::vector<std::int64_t> drawn(n);
  std::vector<double> means(static_cast<std::size_t>(resamples));
  for (double& result : means) {
    std::fill(drawn.begin(), drawn.end(), 0);
    for (std::size_t i = 0; i < n; ++i) ++drawn[random.below(n)];
    double sum = 0;
    for (std::size_t i = 0; i < n; ++i) sum += static_cast<double>(drawn[i]) * values[i];
    result = sum / static_cast<double>(n);
  }
  return means;
}

// From the jackknife, which for a mean is the skewness over 6 sqrt(n).
double acceleration(std::span<const double> values, double center) {
  double squares = 0, cubes = 0;
  for (const double value : values) {
    const double d = value - center;
    squares += d * d;
    cubes += d * d * d;
  }
  return squares > 0 ? cubes / (6 * squares * std::sqrt(squares)) : 0;
}

}  // namespace

double mean(std::span<const double> values) {
  if (values.empty()) return kNan;
  if (all_equal(values)) return values[0];
  double sum = 0;
  for (const double value : values) sum += value;
  return sum / static_cast<double>(values.size());
}

double standard_deviation(std::span<const double> values) {
  if (values.size() < 2) return kNan;
  if (all_equal(values)) return 0;
  const double center = mean(values);
  double squares = 0;
  for (const double value : values) squares += (value - center) * (value - center);
  return std::sqrt(squares / static_cast<double>(values.size() - 1));
}

double quantile(std::span<const double> sorted, double p) {
  const double position = p * static_cast<double>(sorted.size() - 1);
  const auto below = static_cast<std::size_t>(position);
  if (below + 1 >= sorted.size()) return sorted.back();
  const double part = position - static_cast<double>(below);
  return part == 0 ? sorted[below] : sorted[below] + part * (sorted[below + 1] - sorted[below]);
}

Interval bootstrap_interval(std::span<const double> values, double confidence, std::uint64_t seed,
                            std::int64_t resamples) {
  if (values.size() < 2) return {kNan, kNan};
  if (standard_deviation(values) == 0) return {values[0], values[0]};
  std::vector<double> means = resampled_means(values, seed, resamples);
  std::sort(means.begin(), means.end());
  const double center = mean(values);
  const auto [less, more] = std::equal_range(means.begin(), means.end(), center);
  const double below = static_cast<double>((less - means.begin()) + (more - means.begin())) / 2;
  // Away from 0 and 1, where a sample of two values can come to lie.
  const auto count = static_cast<double>(resamples);
  const double bias = normal_quantile(std::clamp(below / count, 0.5 / count, 1 - 0.5 / count));
  const double a = acceleration(values, center);
  const auto end = [&](double p) {
    const double z = bias + normal_quantile(p);
    return quantile(means, normal_cdf(bias + z / (1 - a * z)));
  };
  return {end((1 - confidence) / 2), end((1 + confidence) / 2)};
}

}  // namespace isobit::study
