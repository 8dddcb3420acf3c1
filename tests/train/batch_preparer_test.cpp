// Preparing ahead gives what preparing on the spot gives, in turn and out of turn.
#include "train/batch_preparer.h"

#include <gtest/gtest.h>

#include <ATen/ops/tensor.h>

#include <cstring>

#include "contract/order_plan.h"
#include "kernels/threads.h"
#include "trace/tensor_fingerprint.h"
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
class BatchPreparerWithThreads : public testing::TestWithParam<int> {
 protected:
  void SetUp() override { kernels::set_thread_count(GetParam()); }
  void TearDown() override { kernels::set_thread_count(kernels::available_cpus()); }
};

TEST_P(BatchPreparerWithThreads, GivesEachStepsSamplesInAnyOrderOfSteps) {
  const Experiment experiment = parse_experiment(kExperiment, "test");
  const DataSets data = synthetic_data(21, 4, 12);
  const Timetable timetable(experiment, data.train.count);
  const BatchMaker maker(experiment, data.train);
  BatchPreparer preparer(experiment, data.train, timetable, maker);
  ASSERT_EQ(timetable.steps(), 9);
  for (const std::int64_t step : {1, 2, 3, 7, 8, 9, 2, 2, 5, 6, 9}) {
    const StepPlace place = timetable.place(step);
    const PreparedStep& prepared = preparer.take(step);
    ASSERT_EQ(prepared.step, step);
    ASSERT_EQ(prepared.images.sizes(), (std::vector<std::int64_t>{place.count, 1, 12, 12}));
    ASSERT_EQ(prepared.labels.numel(), place.count);
    const contract::OrderPlan plan(contract::OrderRule::shuffled, 5, static_cast<std::uint64_t>(place.epoch), 21);
    for (std::int64_t i = 0; i < place.count; ++i) {
      const auto sample = static_cast<std::int64_t>(plan(static_cast<std::uint64_t>(place.first + i)));
      float expected[144];
      maker.augmented(sample, place.epoch, expected);
      EXPECT_EQ(prepared.samples[static_cast<std::size_t>(i)], sample);
      EXPECT_EQ(prepared.labels.const_data_ptr<std::int64_t>()[i], data.train.labels[static_cast<std::size_t>(sample)]);
      EXPECT_EQ(std::memcmp(prepared.images.const_data_ptr<float>() + i * 144, expected, sizeof expected), 0)
          << step << ", " << i;
    }
    const at::Tensor samples = at::tensor(prepared.samples, at::kLong);
    EXPECT_EQ(prepared.digest,
              trace::fingerprint({{"images", prepared.images}, {"labels", prepared.labels}, {"samples", samples}}))
        << step;
  }
}

INSTANTIATE_TEST_SUITE_P(Counts, BatchPreparerWithThreads, testing::Values(1, kernels::available_cpus() + 1));

}  // namespace
}  // namespace isobit::train
