#include "report/curve.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>

namespace isobit::report {
namespace {

struct Series {
  std::vector<std::int64_t> steps;
  std::vector<double> values;
};

Series series_of(std::size_t count, unsigned seed) {
  std::mt19937_64 random(seed);
  std::normal_distribution<double> noise;
  Series series;
  std::int64_t step = 0;
  for (std::size_t i = 0; i < count; ++i) {
    step += 1 + static_cast<std::int64_t>(random() % 3);
    series.steps.push_back(step);
    series.values.push_back(noise(random));
  }
  return series;
}

TEST(Curve, KeepsShortOnesAsTheyAre) {
  const Series series = series_of(50, 1);
  const Curve curve = thin(series.steps, series.values, 50);
  EXPECT_EQ(curve.steps, series.steps);
  EXPECT_EQ(curve.values, series.values);
  EXPECT_EQ(curve.of, 50);
  EXPECT_TRUE(thin({}, {}, 10).steps.empty());
}

TEST(Curve, KeepsRecordedPointsTheEndsAndEveryExtreme) {
  for (unsigned seed = 0; seed < 20; ++seed) {
    const Series series = series_of(200 + 137 * seed, seed);
    for (const std::size_t most : {4u, 7u, 60u, 199u}) {
      const Curve curve = thin(series.steps, series.values, most);
      ASSERT_LE(curve.steps.size(), most);
      ASSERT_TRUE(std::is_sorted(curve.steps.begin(), curve.steps.end(), std::less_equal<>()));
      for (std::size_t i = 0; i < curve.steps.size(); ++i) {
        const auto at =
            std::lower_bound(series.steps.begin(), series.steps.end(), curve.steps[i]) - series.steps.begin();
        ASSERT_EQ(series.steps[static_cast<std::size_t>(at)], curve.steps[i]);
        ASSERT_EQ(series.values[static_cast<std::size_t>(at)], curve.values[i]);
      }
      EXPECT_EQ(curve.steps.front(), series.steps.front());
      EXPECT_EQ(curve.steps.back(), series.steps.back());
      const auto [low, high] = std::minmax_element(series.values.begin(), series.values.end());
      EXPECT_NE(std::find(curve.values.begin(), curve.values.end(), *low), curve.values.end());
      EXPECT_NE(std::find(curve.values.begin(), curve.values.end(), *high), curve.values.end());
      EXPECT_EQ(curve.of, static_cast<std::int64_t>(series.steps.size()));
    }
  }
}

TEST(Curve, NeverLosesTheFirstNaN) {
  Series series = series_of(5000, 3);
  series.values[1234] = std::numeric_limits<double>::quiet_NaN();
  series.values[3000] = std::numeric_limits<double>::infinity();
  for (std::size_t i = 4000; i < 5000; ++i) series.values[i] = std::numeric_limits<double>::quiet_NaN();
  const Curve curve = thin(series.steps, series.values, 40);
  const auto lost = std::find_if(curve.values.begin(), curve.values.end(), [](double v) { return !std::isfinite(v); });
  ASSERT_NE(lost, curve.values.end());
  EXPECT_EQ(curve.steps[static_cast<std::size_t>(lost - curve.values.begin())], series.steps[1234]);
  EXPECT_TRUE(std::any_of(curve.values.begin(), curve.values.end(), [](double v) { return std::isinf(v); }));
  EXPECT_LE(curve.steps.size(), 40u);
}

}  // namespace
}  // namespace isobit::report
