// Preparing ahead gives what preparing on the spot gives, in turn and out of turn.
#include "train/grain_preparer.h"

#include <gtest/gtest.h>

#include <ATen/ops/tensor.h>

#include <cstring>

#include "contract/order_plan.h"
#include "kernels/threads.h"
#include "trace/tensor_fingerprint.h"
#include "train/grain_worker.h"
#include "train/synthetic_data.h"

namespace isobit::train {
namespace {

constexpr const char* kExperiment = R"(
seed = 5
epochs = 3
batch = 8
[data]
path = "unused"
[model]
name = "mlp"
[augment]
crop = 2
flip = true
[optimizer]
name = "sgd"
lr = 0.1)";

// With one thread for the kernels the preparing thread digests, where there is a second core.
class GrainPreparerWithThreads : public testing::TestWithParam<int> {
 protected:
  void SetUp() override { kernels::set_thread_count(GetParam()); }
  void TearDown() override { kernels::set_thread_count(kernels::available_cpus()); }
};

TEST_P(GrainPreparerWithThreads, GivesEachGrainsSamplesInAnyOrder) {
  const Experiment experiment = parse_experiment(kExperiment, "test");
  const DataSets data = synthetic_data(21, 4, 12);
  const Timetable timetable(experiment, data.train->count());
  const BatchMaker maker(experiment, *data.train);
  GrainPreparer preparer(experiment, *data.train, maker);
  ASSERT_EQ(timetable.steps(), 9);
  const std::vector<std::pair<std::int64_t, std::int64_t>> course = {{1, 0}, {1, 1}, {1, 2}, {2, 0}, {7, 1}, {8, 0},
                                                                     {9, 1}, {2, 2}, {2, 2}, {5, 0}, {6, 1}, {9, 0}};
  for (std::size_t k = 0; k < course.size(); ++k) {
    const GrainPlace now = grain_place(timetable.place(course[k].first), course[k].second, 3);
    std::optional<GrainPlace> next;  // announced truly, wrongly, or not at all
    if (k % 4 != 3) next = grain_place(timetable.place(course[(k + 1 + k % 2) % course.size()].first), 0, 3);
    const PreparedGrain& prepared = preparer.take(now, next);
    ASSERT_EQ(prepared.place, now);
    ASSERT_EQ(prepared.values[0].sizes(), (std::vector<std::int64_t>{now.count, 1, 12, 12}));
    ASSERT_EQ(prepared.values[1].numel(), now.count);
    const contract::OrderPlan plan(contract::OrderRule::shuffled, 5, static_cast<std::uint64_t>(now.epoch), 21);
    for (std::int64_t i = 0; i < now.count; ++i) {
      const auto sample = static_cast<std::int64_t>(plan(static_cast<std::uint64_t>(now.first + i)));
      EXPECT_EQ(prepared.samples[static_cast<std::size_t>(i)], sample);
      for (const std::size_t field : {0, 1})
        EXPECT_TRUE(prepared.values[field][i].equal(made_by(maker, field, sample, now.epoch)[0])) << k << ", " << i;
    }
  }
}

// The grains' sums close to the digest of the whole step, as a list of tensors has it.
TEST_P(GrainPreparerWithThreads, DigestsOfGrainsMakeTheSteps) {
  const Experiment experiment = parse_experiment(kExperiment, "test");
  const DataSets data = synthetic_data(21, 4, 12);
  const Timetable timetable(experiment, data.train->count());
  const BatchMaker maker(experiment, *data.train);
  GrainPreparer preparer(experiment, *data.train, maker);
  for (const std::int64_t step : {1, 3, 8}) {
    const StepPlace place = timetable.place(step);
    const PreparedGrain& whole = preparer.take(grain_place(place, 0, 8), std::nullopt);
    const kernels::Fingerprint expected = trace::fingerprint(
        {{"images", whole.values[0]}, {"labels", whole.values[1]}, {"samples", at::tensor(whole.samples, at::kLong)}});
    EXPECT_EQ(maker.close(whole.digest, place.count), expected);
    std::vector<kernels::Fingerprint> sums(3);
    for (std::int64_t grain = 0; grain * 3 < place.count; ++grain) {
      const PreparedGrain& part = preparer.take(grain_place(place, grain, 3), grain_place(place, grain + 1, 3));
      for (std::size_t i = 0; i < 3; ++i) sums[i] = kernels::merge(sums[i], part.digest[i]);
    }
    EXPECT_EQ(maker.close(sums, place.count), expected) << step;
  }
}

INSTANTIATE_TEST_SUITE_P(Counts, GrainPreparerWithThreads, testing::Values(1, kernels::available_cpus() + 1));

}  // namespace
}  // namespace isobit::train
