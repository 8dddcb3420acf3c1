#include "study/paired_tests.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdlib>
#include <vector>

#include "study/distributions.h"
#include "study/random_stream.h"
#include "study/sample_statistics.h"

namespace isobit::study {
namespace {

// Whole multiples of 2^-40 of the largest difference's power of two: sums of them are exact. Each is off by half a
// multiple at most, two sums of n by n multiples together: what is that near counts as a tie.
std::vector<std::int64_t> as_whole_numbers(std::span<const double> differences) {
  double largest = 0;
  for (const double d : differences) largest = std::max(largest, std::abs(d));
  int exponent = 0;
  std::frexp(largest, &exponent);
  std::vector<std::int64_t> whole;
  for (const double d : differences) whole.push_back(std::llrint(std::ldexp(d, 40 - exponent)));
  return whole;
}

// Signs in the order of Gray's code: each differs from the one before in one place.
Permutation all_flips(const std::vector<std::int64_t>& differences) {
  std::int64_t sum = 0;
  for (const std::int64_t d : differences) sum += d;
  const std::int64_t observed = std::abs(sum) - static_cast<std::int64_t>(differences.size());
  const std::uint64_t count = std::uint64_t{1} << differences.size();
  std::uint64_t flipped = 0, as_large = 1;  // the signs as they are
  for (std::uint64_t i = 1; i < count; ++i) {
    const int place = std::countr_zero(i);
    const std::uint64_t bit = std::uint64_t{1} << place;
    sum += (flipped & bit) != 0 ? 2 * differences[place] : -2 * differences[place];
    flipped ^= bit;
    if (std::abs(sum) >= observed) ++as_large;
  }
  const auto all = static_cast<double>(count);
  return {static_cast<double>(as_large) / all, true, std::min(1.0, 2 / all)};
}

Permutation sampled_flips(const std::vector<std::int64_t>& differences, std::uint64_t seed) {
  std::int64_t observed = 0;
  for (const std::int64_t d : differences) observed += d;
  observed = std::abs(observed) - static_cast<std::int64_t>(differences.size());
  RandomStream random(seed, Purpose::sign_flips);
  std::int64_t as_large = 1;  // the observed signs are one of those that count (Phipson, Smyth 2010)
  for (std::int64_t draw = 0; draw < kSampledFlips; ++draw) {
    std::int64_t sum = 0;
    std::uint64_t signs = 0;
    for (std::size_t i = 0; i < differences.size(); ++i, signs >>= 1) {
      if (i % 64 == 0) signs = random.bits();
      sum += (signs & 1) != 0 ? differences[i] : -differences[i];
    }
    if (std::abs(sum) >= observed) ++as_large;
  }
  return {static_cast<double>(as_large) / (kSampledFlips + 1), false, 1.0 / (kSampledFlips + 1)};
}

double power_of(double pairs, const PowerQuestion& q) {
  const double error = q.noise * std::sqrt(1 / pairs + q.overlap);
  return t_test_power(q.difference / error, pairs - 1, t_quantile(1 - q.alpha / 2, pairs - 1));
}

}  // namespace

Permutation sign_flips(std::span<const double> differences, std::uint64_t seed) {
  if (differences.empty()) return {};
  const auto whole = as_whole_numbers(differences);
  return static_cast<std::int64_t>(whole.size()) <= kMostExactPairs ? all_flips(whole) : sampled_flips(whole, seed);
}

double mcnemar(std::int64_t only_first, std::int64_t only_second) {
  return fair_coins_two_sided(std::min(only_first, only_second), only_first + only_second);
}

std::optional<double> corrected_t(std::span<const double> differences, double overlap) {
  const auto n = static_cast<double>(differences.size());
  if (differences.size() < 2) return std::nullopt;
  const double noise = standard_deviation(differences), difference = mean(differences);
  if (noise == 0) return difference == 0 ? 1 : 0;
  return t_two_sided(difference / (noise * std::sqrt(1 / n + overlap)), n - 1);
}

std::optional<std::int64_t> pairs_for(const PowerQuestion& q) {
  if (q.difference == 0) return std::nullopt;
  // 2 of 2^n signs are as extreme as all alike.
  std::int64_t least = 2;
  while (std::ldexp(2.0, -static_cast<int>(least)) > q.alpha && least < 60) ++least;
  if (q.noise == 0) return least;
  std::int64_t enough = least;
  while (power_of(static_cast<double>(enough), q) < q.power) {
    if (enough >= kMostPairs) return std::nullopt;
    enough = std::min(2 * enough, kMostPairs);
  }
  std::int64_t too_few = std::max(least, enough / 2) - 1;
  while (enough - too_few > 1) {
    const std::int64_t middle = too_few + (enough - too_few) / 2;
    (power_of(static_cast<double>(middle), q) < q.power ? too_few : enough) = middle;
  }
  return enough;
}

std::optional<double> detectable(std::int64_t pairs, const PowerQuestion& question) {
  if (pairs < 2) return std::nullopt;
  if (question.noise == 0) return 0;
  PowerQuestion q = question;
  double low = 0, high = question.noise;
  for (q.difference = high; power_of(static_cast<double>(pairs), q) < q.power; q.difference = high) high *= 2;
  for (int i = 0; i < 50; ++i) {
    q.difference = (low + high) / 2;
    (power_of(static_cast<double>(pairs), q) < q.power ? low : high) = q.difference;
  }
  return high;
}

}  // namespace isobit::study
