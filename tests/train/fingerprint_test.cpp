// One fingerprint per experiment, whatever executes it: threads x instruction sets x grains in order or shuffled x
// straight or restored half way; equal to the committed value (tests/golden/training.txt), which any compiler and
// machine must give. To renew the values with a new contract version: run with ISOBIT_UPDATE_GOLDEN=1.
#include "train/fingerprint_courses.h"

namespace isobit::train {
namespace {

constexpr Course kMlp = {"mlp", R"(
seed = 3
steps = 7
batch = 24
grain = 5
[model]
name = "mlp"
hidden = [48, 33]
dropout = 0.25
[loss]
label_smoothing = 0.1
[optimizer]
name = "adamw"
lr = 0.002
weight_decay = 0.01
[evaluate]
batch = 16)",
                         75, 40, 28};

constexpr Course kMlpOneGrain = {"mlp_one_grain", R"(
seed = 4
steps = 5
batch = 32
[model]
name = "mlp"
hidden = [40]
[optimizer]
name = "adam"
[evaluate]
batch = 16)",
                                 80, 40, 28};

constexpr Course kLeNet5 = {"lenet5", R"(
seed = 5
steps = 6
batch = 20
grain = 7
[model]
name = "lenet5"
[optimizer]
name = "sgd"
lr = 0.05
momentum = 0.9
nesterov = true
weight_decay = 5e-4
[schedule]
name = "cosine"
warmup = 2
[augment]
crop = 3
flip = true
[evaluate]
batch = 16)",
                            70, 30, 28};

constexpr Course kLars = {"lars", R"(
seed = 8
steps = 6
batch = 48
grain = 16
[model]
name = "lenet5"
[optimizer]
name = "lars"
lr = 2.0
momentum = 0.9
weight_decay = 1e-3
eta = 0.02
exclude_vectors = true
[schedule]
warmup = 3
[evaluate]
batch = 16)",
                          140, 30, 28};

constexpr Course kResNet18 = {"resnet18", R"(
seed = 6
steps = 3
batch = 8
grain = 4
[model]
name = "resnet18"
[optimizer]
name = "sgd"
lr = 0.05
momentum = 0.9
dampening = 0.1
[evaluate]
batch = 4)",
                              20, 6, 12};

TEST_F(Fingerprints, Mlp) { expect_one(kMlp, every_setting()); }
TEST_F(Fingerprints, MlpOfOneGrain) { expect_one(kMlpOneGrain, every_setting()); }
TEST_F(Fingerprints, LeNet5) { expect_one(kLeNet5, every_setting()); }

TEST_F(Fingerprints, Lars) { expect_one(kLars, every_setting()); }

TEST_F(Fingerprints, ResNet18PairwiseCover) { expect_one(kResNet18, pairwise_settings()); }

// Or the comparisons could not fail: what belongs to the result changes it.
TEST_F(Fingerprints, DependOnSeedGrainAndBatch) {
  const Setting setting{kernels::best_isa(), 2, GrainOrder::ascending, false};
  const std::string original = run(kLeNet5, setting);
  for (const auto& [from, to] : {std::pair{"seed = 5", "seed = 6"}, std::pair{"grain = 7", "grain = 8"},
                                 std::pair{"batch = 20", "batch = 21"}, std::pair{"warmup = 2", "warmup = 3"}}) {
    std::string text = kLeNet5.experiment;
    text.replace(text.find(from), std::string(from).size(), to);
    Course changed = kLeNet5;
    changed.experiment = text.c_str();
    EXPECT_NE(run(changed, setting), original) << to;
  }
}

}  // namespace
}  // namespace isobit::train
