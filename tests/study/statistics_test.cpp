// The statistics against SciPy's and statsmodels' answers (oracle.jsonl, by scripts/study-oracle), against their
// definitions, and against what they promise.
#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>

#include "study/distributions.h"
#include "study/paired_tests.h"
#include "study/random_stream.h"
#include "study/sample_statistics.h"
#include "study/variance_components.h"

namespace isobit::study {
namespace {

using Json = nlohmann::json;

std::vector<double> numbers(const Json& list) { return list.get<std::vector<double>>(); }

std::vector<Factor> crossed_factors(const Json& c) {
  return {{"a", c["a"].get<std::vector<int>>()}, {"b", c["b"].get<std::vector<int>>()}};
}

std::vector<double> estimates(const Json& c) {
  std::vector<double> values;
  for (const Component& component : variance_components(numbers(c["y"]), crossed_factors(c), 0.95, 1).components)
    values.push_back(component.estimate);
  return values;
}

std::vector<double> answer(const Json& c) {
  const std::string name = c["case"];
  const auto arg = [&](const char* key) { return c[key].get<double>(); };
  if (name == "normal_quantile") return {normal_quantile(arg("p"))};
  if (name == "t_quantile") return {t_quantile(arg("p"), arg("degrees"))};
  if (name == "chi_squared_quantile") return {chi_squared_quantile(arg("p"), arg("degrees"))};
  if (name == "t_two_sided") return {t_two_sided(arg("t"), arg("degrees"))};
  if (name == "t_test_power") return {t_test_power(arg("shift"), arg("degrees"), arg("critical"))};
  if (name == "bootstrap_low") return {bootstrap_interval(numbers(c["values"]), 0.95, 0).low};
  if (name == "bootstrap_high") return {bootstrap_interval(numbers(c["values"]), 0.95, 0).high};
  if (name == "sign_flips") return {sign_flips(numbers(c["values"]), 0).p};
  if (name == "corrected_t") return {*corrected_t(numbers(c["values"]), arg("overlap"))};
  if (name == "mcnemar") return {mcnemar(c["b"], c["c"])};
  if (name == "pairs_for") {
    PowerQuestion question;
    question.difference = arg("difference"), question.noise = arg("noise");
    return {static_cast<double>(*pairs_for(question))};
  }
  if (name == "components" || name == "components_reml") return estimates(c);
  ADD_FAILURE() << "the oracle has an unknown case " << name;
  return {};
}

TEST(Statistics, AgreeWithSciPyAndStatsmodels) {
  std::ifstream file(ISOBIT_SOURCE_DIR "/tests/study/oracle.jsonl");
  std::map<std::string, int> seen;
  for (std::string line; std::getline(file, line);) {
    const Json c = Json::parse(line);
    const std::vector<double> expected =
        c["value"].is_array() ? numbers(c["value"]) : std::vector{c["value"].get<double>()};
    const std::vector<double> got = answer(c);
    ASSERT_EQ(got.size(), expected.size()) << line;
    for (std::size_t i = 0; i < got.size(); ++i) {
      const double scale = expected[i] == 0 ? 1 : std::abs(expected[i]);
      EXPECT_LE(std::abs(got[i] - expected[i]), c["tolerance"].get<double>() * scale) << got[i] << " for " << line;
    }
    ++seen[c["case"]];
  }
  EXPECT_EQ(seen.size(), 13u);
}

TEST(SampleStatistics, OfNothingOneAndEqualValues) {
  const std::vector<double> none, one{3}, equal(7, 0.1);
  EXPECT_TRUE(std::isnan(mean(none)));
  EXPECT_TRUE(std::isnan(standard_deviation(one)));
  EXPECT_TRUE(std::isnan(bootstrap_interval(one, 0.95, 0).low));
  EXPECT_EQ(mean(equal), 0.1);  // whose sum of seven, divided by seven, need not be
  EXPECT_EQ(standard_deviation(equal), 0);
  const Interval interval = bootstrap_interval(equal, 0.95, 0);
  EXPECT_EQ(interval.low, 0.1);
  EXPECT_EQ(interval.high, 0.1);
}

TEST(SampleStatistics, BootstrapIsTheSameForASeedAndOfTheDataForAll) {
  const std::vector<double> values{0.91, 0.93, 0.90, 0.99, 0.92};
  const Interval a = bootstrap_interval(values, 0.95, 5), again = bootstrap_interval(values, 0.95, 5);
  EXPECT_EQ(a.low, again.low);
  EXPECT_EQ(a.high, again.high);
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    const Interval interval = bootstrap_interval(values, 0.999, seed);
    EXPECT_GE(interval.low, 0.90);
    EXPECT_LE(interval.high, 0.99);
    EXPECT_LT(interval.low, mean(values));
    EXPECT_GT(interval.high, mean(values));
  }
}

// All signs, one after the other.
double flips_by_definition(const std::vector<double>& differences) {
  const std::size_t n = differences.size();
  double observed = 0;
  for (const double d : differences) observed += d;
  int large = 0;
  for (std::uint64_t signs = 0; signs < std::uint64_t{1} << n; ++signs) {
    double sum = 0;
    for (std::size_t i = 0; i < n; ++i) sum += (signs >> i & 1) != 0 ? -differences[i] : differences[i];
    if (std::abs(sum) >= std::abs(observed)) ++large;
  }
  return large / std::ldexp(1, static_cast<int>(n));
}

TEST(SignFlips, FollowTheDefinition) {
  RandomStream random(3, Purpose::bootstrap);
  for (int n = 1; n <= 12; ++n) {
    std::vector<double> differences;  // small whole numbers: many ties, and every sum is exact
    for (int i = 0; i < n; ++i) differences.push_back(static_cast<double>(random.below(9)) - 3);
    EXPECT_EQ(sign_flips(differences, 0).p, flips_by_definition(differences)) << n;
  }
}

TEST(SignFlips, TakeRoundingForTies) {
  // 0.1 + 0.2 is not 0.3 in binary64, yet (+ + -) is as large as (- - +).
  const Permutation p = sign_flips(std::vector{0.1, 0.2, 0.3}, 0);
  EXPECT_EQ(p.p, 2.0 / 8);
  EXPECT_EQ(sign_flips(std::vector{0.1, 0.2, -0.3}, 0).p, 1);  // sums of 0: no sign pattern is less extreme
  EXPECT_EQ(sign_flips(std::vector(6, 0.0), 0).p, 1);
  EXPECT_EQ(sign_flips(std::vector<double>{}, 0).p, 1);
}

TEST(SignFlips, SayHowFineTheyAre) {
  const Permutation six = sign_flips(std::vector(6, 1.0), 0), many = sign_flips(std::vector(30, 1.0), 0);
  EXPECT_EQ(six.p, 2.0 / 64);
  EXPECT_EQ(six.resolution, six.p);
  EXPECT_FALSE(many.exact);
  EXPECT_EQ(many.p, 1e-5);  // none of 99,999 is as large; never 0
  EXPECT_EQ(many.resolution, 1e-5);
}

TEST(SignFlips, SampledOnesComeNearTheExact) {
  std::vector<double> differences;
  RandomStream random(4, Purpose::bootstrap);
  for (int i = 0; i < 20; ++i) differences.push_back(static_cast<double>(random.below(100)) - 40);
  const double exact = sign_flips(differences, 0).p;
  differences.push_back(0);  // 21 pairs: sampled, and the same p-value
  const Permutation sampled = sign_flips(differences, 1);
  EXPECT_FALSE(sampled.exact);
  EXPECT_NEAR(sampled.p, exact, 5 * std::sqrt(exact * (1 - exact) / kSampledFlips));
}

TEST(Power, OfPairs) {
  PowerQuestion question;
  question.difference = 1, question.noise = 0;
  EXPECT_EQ(pairs_for(question), 6);  // 2/2^6 is the first below 0.05
  question.difference = 0, question.noise = 1;
  EXPECT_EQ(pairs_for(question), std::nullopt);
  // Folds: the noise has a floor, and no number of repetitions finds what lies below it.
  question.difference = 0.3, question.overlap = 0.25;
  EXPECT_EQ(pairs_for(question), std::nullopt);
  question.difference = 3;
  EXPECT_TRUE(pairs_for(question));
  // What n pairs can detect needs n pairs.
  question.overlap = 0;
  for (const std::int64_t n : {8, 20, 90}) {
    question.difference = *detectable(n, question) * (1 + 1e-9);
    EXPECT_EQ(pairs_for(question), n);
  }
}

// y = effect of a (sd 1, few levels) + noise (sd 0.5): the share of a is 0.8.
std::vector<double> one_way(std::uint64_t seed, int levels, int repeats, Factor& a) {
  RandomStream random(seed, Purpose::bootstrap);
  const auto normal = [&] { return normal_quantile(random.uniform()); };
  std::vector<double> y;
  a = {"a", {}};
  for (int level = 0; level < levels; ++level) {
    const double effect = normal();
    for (int r = 0; r < repeats; ++r) {
      y.push_back(effect + 0.5 * normal());
      a.levels.push_back(level);
    }
  }
  return y;
}

TEST(VarianceComponents, IntervalsCoverAsOftenAsTheySay) {
  int covered_share = 0, covered_variance = 0;
  constexpr int kStudies = 150;
  for (int study = 0; study < kStudies; ++study) {
    Factor a;
    const auto y = one_way(static_cast<std::uint64_t>(study), 4, 3, a);
    const auto result = variance_components(y, std::span(&a, 1), 0.9, 7);
    ASSERT_TRUE(result.balanced);
    const Component& c = result.components[0];
    covered_share += c.share_interval.low <= 0.8 && 0.8 <= c.share_interval.high ? 1 : 0;
    covered_variance += c.variance_interval.low <= 1 && 1 <= c.variance_interval.high ? 1 : 0;
  }
  // 90 % but for the noise of 150 studies (standard error 2.4 %).
  EXPECT_GE(covered_share, kStudies * 0.82);
  EXPECT_GE(covered_variance, kStudies * 0.82);
  EXPECT_LE(covered_variance, kStudies * 0.98);
}

TEST(VarianceComponents, OfMissingCellsAreTheAnalysisOfVarianceWhereNoneIs) {
  // One-way balanced: (MSA - MSE) / repeats and MSE, by hand.
  Factor a;
  const auto y = one_way(1, 5, 4, a);
  double whole = 0;
  for (const double v : y) whole += v / 20;
  double between = 0, within = 0;
  for (int level = 0; level < 5; ++level) {
    double own = 0;
    for (int r = 0; r < 4; ++r) own += y[level * 4 + r] / 4;
    between += 4 * (own - whole) * (own - whole) / 4;
    for (int r = 0; r < 4; ++r) within += (y[level * 4 + r] - own) * (y[level * 4 + r] - own) / 15;
  }
  const auto result = variance_components(y, std::span(&a, 1), 0.95, 0);
  EXPECT_NEAR(result.components[0].estimate, (between - within) / 4, 1e-12);
  EXPECT_NEAR(result.components[1].estimate, within, 1e-12);
}

TEST(VarianceComponents, WhatChangesNothingHasNoShare) {
  Factor seed{"seed", {}}, threads{"threads", {}};
  std::vector<double> y;
  for (int s = 0; s < 8; ++s) {
    for (int t = 0; t < 3; ++t) {
      y.push_back(0.8 + 0.013 * ((s * 5) % 7));
      seed.levels.push_back(s);
      threads.levels.push_back(t);
    }
  }
  const std::vector<Factor> factors{seed, threads};
  const auto result = variance_components(y, factors, 0.95, 0);
  ASSERT_EQ(result.components.size(), 3u);
  EXPECT_EQ(result.components[0].share, 1);
  EXPECT_EQ(result.components[1].share, 0);
  EXPECT_EQ(result.components[2].share, 0);
  EXPECT_EQ(result.components[0].share_interval.low, 1);
}

TEST(VarianceComponents, BelowZeroIsSaidAndCountsAsZero) {
  // Levels whose means are closer than the noise within them allows.
  const std::vector<double> y{1, -1, 1, -1, 1, -1};
  const Factor a{"a", {0, 0, 1, 1, 2, 2}};
  const auto result = variance_components(y, std::span(&a, 1), 0.95, 0);
  EXPECT_LT(result.components[0].estimate, 0);
  EXPECT_EQ(result.components[0].variance, 0);
  EXPECT_EQ(result.components[0].share, 0);
  ASSERT_EQ(result.notes.size(), 1u);
  EXPECT_NE(result.notes[0].find("below 0"), std::string::npos) << result.notes[0];
}

TEST(VarianceComponents, SayWhatTheyCannotTell) {
  const std::vector<double> y{1, 2, 3, 5, 4, 4};
  const std::vector<Factor> factors{{"one", {0, 0, 0, 0, 0, 0}},
                                    {"each", {0, 1, 2, 3, 4, 5}},
                                    {"a", {0, 0, 1, 1, 2, 2}},
                                    {"same as a", {2, 2, 0, 0, 1, 1}}};
  const auto result = variance_components(y, factors, 0.95, 0);
  ASSERT_EQ(result.components.size(), 2u);
  EXPECT_EQ(result.components[0].factor, "a");
  EXPECT_EQ(result.components[1].factor, "residual");
  EXPECT_EQ(result.notes.size(), 3u) << Json(result.notes);
  EXPECT_TRUE(variance_components(std::vector{1.0, 2.0}, {}, 0.95, 0).components.empty());
  EXPECT_EQ(variance_components(std::vector(5, 0.1), std::span(factors.data(), 0), 0.95, 0).components[0].variance, 0);
  EXPECT_THROW(static_cast<void>(variance_components(std::vector{1.0, 2.0, 3.0}, factors, 0.95, 0)),
               std::invalid_argument);
}

TEST(VarianceComponents, FoldsWithinRepetitionsAreNestedAndTheirNumberSharesNothing) {
  // Fold k of one repetition has nothing to do with fold k of another: effects of (repetition, fold) alone.
  RandomStream random(9, Purpose::bootstrap);
  Factor repetition{"seed", {}}, fold{"fold", {}, 0};
  std::vector<double> y;
  for (int r = 0; r < 6; ++r) {
    for (int f = 0; f < 5; ++f) {
      const double effect = normal_quantile(random.uniform());
      for (int again = 0; again < 2; ++again) {
        y.push_back(effect + 0.1 * normal_quantile(random.uniform()));
        repetition.levels.push_back(r);
        fold.levels.push_back(f);
      }
    }
  }
  const std::vector<Factor> factors{repetition, fold};
  const auto result = variance_components(y, factors, 0.95, 0);
  ASSERT_EQ(result.components.size(), 3u);
  EXPECT_TRUE(result.balanced);
  EXPECT_EQ(result.components[1].levels, 30);
  EXPECT_GT(result.components[1].share, 0.7);
}

TEST(RandomStream, DrawsEveryNumberAboutAsOften) {
  RandomStream random(1, Purpose::sampled_cells);
  std::vector<int> seen(6);
  for (int i = 0; i < 60'000; ++i) ++seen[random.below(6)];
  for (const int count : seen) EXPECT_NEAR(count, 10'000, 400);
  for (int i = 0; i < 1000; ++i) {
    const double u = random.uniform();
    EXPECT_TRUE(u > 0 && u < 1);
  }
  EXPECT_NE(RandomStream(1, Purpose::bootstrap).bits(), RandomStream(1, Purpose::sign_flips).bits());
}

}  // namespace
}  // namespace isobit::study
