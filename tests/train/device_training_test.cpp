// Training on a device: the CPU's bits, and a run that changes sides half way.
#include <gtest/gtest.h>

#include "aten/fake_cuda.h"
#include "aten/operator_switch.h"
#include "synthetic_data.h"
#include "train/experiment.h"
#include "train/out_of_memory.h"
#include "train/trainer.h"

namespace isobit::train {
namespace {

const Execution kCpu, kCuda{.grain_order = GrainOrder::shuffled, .device = c10::Device(c10::kCUDA, 0)};

class DeviceTrainingOnce : public testing::Test {
 protected:
  void SetUp() override {
    if (!test::fake_cuda()) GTEST_SKIP() << "this PyTorch has CUDA devices of its own";
  }
};

class DeviceTraining : public DeviceTrainingOnce, public testing::WithParamInterface<const char*> {};

// The losses, then the weights and the optimizer's state, after `steps` steps, the first `on_first` of them on `first`.
std::string run(const std::string& text, const Execution& first, std::int64_t on_first, const Execution& second,
                std::int64_t steps) {
  const aten::OperatorSwitch on;
  const Experiment experiment = parse_experiment(text, "test");
  const DataSets data = synthetic_data(24, 6, 16);
  auto trainer = std::make_unique<Trainer>(experiment, data, first);
  std::string result;
  for (std::int64_t step = 0; step < steps; ++step) {
    if (step == on_first) {
      auto next = std::make_unique<Trainer>(experiment, data, second);
      next->restore(trainer->state());
      trainer = std::move(next);
    }
    const StepResult done = trainer->step();
    result += std::to_string(done.loss) + " " + kernels::to_hex(done.batch_digest) + "\n";
  }
  const Evaluation evaluation = trainer->evaluate();
  return result + std::to_string(evaluation.loss) + " " + std::to_string(evaluation.score) + "\n" +
         kernels::to_hex(trainer->weights_fingerprint()) + " " + kernels::to_hex(trainer->optimizer_fingerprint());
}

constexpr const char* kMlp = R"(
seed = 2
steps = 3
batch = 8
grain = 3
[data]
path = "unused"
[model]
name = "mlp"
hidden = [20, 12]
dropout = 0.4
[optimizer]
name = "adamw"
lr = 0.01
weight_decay = 0.1
[augment]
crop = 1
flip = true)";

constexpr const char* kLeNet = R"(
seed = 3
steps = 3
batch = 6
[data]
path = "unused"
[model]
name = "lenet5"
[loss]
label_smoothing = 0.1
[optimizer]
name = "sgd"
lr = 0.05
momentum = 0.9
nesterov = true)";

// Batch norm in grains: running statistics on both sides.
constexpr const char* kResNet = R"(
seed = 4
steps = 3
batch = 4
grain = 2
[data]
path = "unused"
[model]
name = "resnet18"
stem = "imagenet"
[optimizer]
name = "sgd"
lr = 0.05
momentum = 0.9
[evaluate]
batch = 4)";

TEST_P(DeviceTraining, GivesTheBitsOfTheCpuWholeAndHalfway) {
  const std::string expected = run(GetParam(), kCpu, 0, kCpu, 3);
  EXPECT_EQ(run(GetParam(), kCuda, 0, kCuda, 3), expected);
  EXPECT_EQ(run(GetParam(), kCuda, 1, kCpu, 3), expected);
  EXPECT_EQ(run(GetParam(), kCpu, 2, kCuda, 3), expected);
}

// Of full width, so one step and one evaluation there.
TEST_F(DeviceTrainingOnce, ResNet18ChangesSides) {
  EXPECT_EQ(run(kResNet, kCpu, 1, kCuda, 2), run(kResNet, kCpu, 0, kCpu, 2));
}

INSTANTIATE_TEST_SUITE_P(Models, DeviceTraining, testing::Values(kMlp, kLeNet),
                         [](const auto& info) { return std::string(info.index == 0 ? "mlp" : "lenet5"); });

TEST(OutOfMemory, NamesSizesAndAGrainThatFits) {
  const MemoryUse use{"cuda:0", 7, 512, std::int64_t{1} << 30};
  const std::string message =
      "CUDA out of memory. Tried to allocate 1.00 GiB. GPU 0 has a total capacity of 9.00 GiB of which 512.00 MiB is "
      "free. Of the "
      "allocated memory 8.50 GiB is allocated by PyTorch, and 1.00 MiB is reserved by PyTorch but unallocated.";
  // (8.5 + 1 - 1) GiB for 512 samples, 8 GiB * 0.9 to be had: 433, so 256.
  EXPECT_EQ(
      std::string(out_of_memory(message, use).what()),
      "--device cuda:0: out of memory in step 7 with grain 512: asked for 1.00 GiB, 512.0 MiB free (start a new run "
      "with --set grain=256, which should fit, or use another device)");
  EXPECT_NE(std::string(out_of_memory("out of memory", use).what()).find("asked for an unknown size"),
            std::string::npos);
  EXPECT_NE(std::string(out_of_memory("out of memory", use).what()).find("grain=256"), std::string::npos);
  EXPECT_NE(std::string(out_of_memory(message, {"cuda:0", 7, 1, 0}).what()).find("one sample does not fit"),
            std::string::npos);
}

TEST_F(DeviceTrainingOnce, TooLittleMemoryLeavesTheTrainerAsItWas) {
  const aten::OperatorSwitch on;
  const Experiment experiment = parse_experiment(kMlp, "test");
  const DataSets data = synthetic_data(24, 6, 16);
  Trainer trainer(experiment, data, kCuda);
  (void)trainer.step();
  const std::string before = kernels::to_hex(trainer.weights_fingerprint());
  test::limit_fake_cuda_memory(test::fake_cuda_memory_in_use() + 2000);
  EXPECT_THROW((void)trainer.step(), archive::UserError);
  test::limit_fake_cuda_memory(0);
  EXPECT_EQ(kernels::to_hex(trainer.weights_fingerprint()), before);
  EXPECT_NE((trainer.step(), kernels::to_hex(trainer.weights_fingerprint())), before);
}

}  // namespace
}  // namespace isobit::train
