// Segments of a verification: where they are cut, which checkpoints an experiment keeps for them, and when a recorded
// tensor is the recomputed one.
#include "train/segments.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <bit>
#include <random>
#include <set>

#include "train/checkpoint_state.h"
#include "train/schedule.h"

namespace isobit::train {
namespace {

std::int64_t longest_of(const std::vector<Segment>& segments, std::int64_t start) {
  std::int64_t longest = 0, at = start;
  for (const Segment& segment : segments) {
    longest = std::max(longest, segment.last - at);
    at = segment.last;
  }
  return longest;
}

// The best over all ways to choose the ends, by trying each.
std::int64_t best_by_trying(const std::vector<std::int64_t>& within, std::int64_t start, std::int64_t last,
                            std::int64_t most) {
  std::int64_t best = last - start;
  for (std::uint32_t chosen = 0; chosen < 1u << within.size(); ++chosen) {
    if (std::popcount(chosen) >= most) continue;
    std::int64_t longest = 0, at = start;
    for (std::size_t i = 0; i < within.size(); ++i) {
      if ((chosen >> i & 1) == 0) continue;
      longest = std::max(longest, within[i] - at);
      at = within[i];
    }
    best = std::min(best, std::max(longest, last - at));
  }
  return best;
}

TEST(Segments, CoverEveryStepOnceAndEndOnCheckpoints) {
  std::mt19937 draw(5);
  for (int round = 0; round < 2000; ++round) {
    const std::int64_t steps = 1 + draw() % 60, first = 1 + draw() % steps, last = first + draw() % (steps - first + 1);
    std::set<std::int64_t> some;
    for (std::uint32_t i = draw() % 8; i > 0; --i) some.insert(1 + draw() % steps);
    const std::vector<std::int64_t> checkpoints(some.begin(), some.end());
    std::int64_t start = 0;
    std::vector<std::int64_t> within;
    for (const std::int64_t step : checkpoints) {
      if (step < first) start = step;
      if (step >= first && step < last) within.push_back(step);
    }
    const std::int64_t most = 1 + draw() % 6;
    const std::vector<Segment> segments = cut_into_segments(checkpoints, start, first, last, most);
    ASSERT_FALSE(segments.empty());
    ASSERT_LE(static_cast<std::int64_t>(segments.size()), most);
    EXPECT_EQ(segments.front().first, first);
    EXPECT_EQ(segments.back().last, last);
    for (std::size_t i = 0; i < segments.size(); ++i) {
      EXPECT_LE(segments[i].first, segments[i].last);
      if (i == 0) continue;
      EXPECT_EQ(segments[i].first, segments[i - 1].last + 1);
      EXPECT_TRUE(some.contains(segments[i - 1].last)) << "a segment starts where no checkpoint is";
    }
    EXPECT_EQ(longest_of(segments, start), best_by_trying(within, start, last, most));
  }
}

TEST(Segments, AreKeptInEqualParts) {
  for (const std::int64_t steps : {1, 2, 3, 4, 5, 30, 937, 938}) {
    for (const std::int64_t segments : {1, 2, 3, 4, 6, 1000}) {
      Experiment experiment;
      experiment.batch = 1;
      experiment.steps = steps;
      experiment.checkpoint.segments = segments;
      const Timetable timetable(experiment, 1000);
      std::set<std::int64_t> expected;
      for (std::int64_t k = 1; k < segments; ++k) expected.insert(k * steps / segments);
      expected.erase(0);
      for (std::int64_t step = 1; step <= steps; ++step) {
        EXPECT_EQ(timetable.segment_ends_after(step), expected.contains(step)) << step << " of " << steps;
        EXPECT_TRUE(!expected.contains(step) || timetable.checkpoint_after(step));
      }
    }
  }
}

TEST(Segments, OfRecordsThatDoNotNameThem) {
  EXPECT_EQ(parse_experiment("seed = 1\n", "e.toml").checkpoint.segments, 4);
  EXPECT_EQ(recorded_experiment("seed = 1\n", "e.toml").checkpoint.segments, 1);
  EXPECT_EQ(recorded_experiment("[checkpoint]\nsegments = 6\n", "e.toml").checkpoint.segments, 6);
}

archive::TensorView view(const std::vector<std::uint32_t>& bits, const char* dtype, std::vector<std::int64_t> shape) {
  return {"t", dtype, std::move(shape), std::as_bytes(std::span(bits))};
}

TEST(Segments, StartFromTheSameBits) {
  const std::vector<std::uint32_t> a{0x3f800000, 0x7fc00000, 0x80000000}, payload{0x3f800000, 0xffc00001, 0x80000000},
      zero{0x3f800000, 0x7fc00000, 0}, number{0x3f800000, 0x7f800000, 0x80000000};
  EXPECT_TRUE(same_tensor(view(a, "F32", {3}), view(a, "F32", {3})));
  EXPECT_TRUE(same_tensor(view(a, "F32", {3}), view(payload, "F32", {3})));
  EXPECT_FALSE(same_tensor(view(a, "F32", {3}), view(zero, "F32", {3})));
  EXPECT_FALSE(same_tensor(view(a, "F32", {3}), view(number, "F32", {3})));
  EXPECT_FALSE(same_tensor(view(a, "F32", {3}), view(a, "F32", {3, 1})));
  EXPECT_FALSE(same_tensor(view(a, "F32", {3}), view(a, "I32", {3})));
  EXPECT_FALSE(same_tensor(view(a, "I32", {3}), view(payload, "I32", {3})));
}

}  // namespace
}  // namespace isobit::train
