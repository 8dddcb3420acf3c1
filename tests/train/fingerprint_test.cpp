// One fingerprint per experiment, whatever executes it: threads x instruction sets x grains in order or shuffled x
// straight or restored half way; equal to the committed value (tests/golden/training.txt), which any compiler and
// machine must give. To renew the values with a new contract version: run with ISOBIT_UPDATE_GOLDEN=1.
#include <ATen/Parallel.h>
#include <gtest/gtest.h>

#include <fstream>
#include <map>

#include "aten/operator_switch.h"
#include "kernels/isa.h"
#include "kernels/threads.h"
#include "train/recording.h"
#include "train/synthetic_data.h"
#include "train/trainer.h"

namespace isobit::train {
namespace {

constexpr const char* kGolden = ISOBIT_SOURCE_DIR "/tests/golden/training.txt";

struct Course {
  const char* name;
  const char* experiment;  // TOML
  std::int64_t train, test, size;
};

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
batch = 16)", 75, 40, 28};

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
batch = 16)", 80, 40, 28};

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
batch = 16)", 70, 30, 28};

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
batch = 4)", 20, 6, 12};

struct Setting {
  kernels::Isa isa;
  int threads;
  GrainOrder order;
  bool restored;
};

std::string describe(const Setting& s) {
  return std::string(kernels::name(s.isa)) + ", " + std::to_string(s.threads) + " threads" +
         (s.order == GrainOrder::shuffled ? ", shuffled" : "") + (s.restored ? ", restored" : "");
}

// Fingerprints of weights and optimizer, every loss, and the evaluation, as one text.
std::string run(const Course& course, const Setting& setting) {
  const kernels::IsaScope isa(setting.isa);
  const kernels::ThreadCountScope threads(setting.threads);
  const Experiment experiment = parse_experiment(course.experiment, course.name);
  const DataSets data = synthetic_data(course.train, course.test, course.size);
  const auto fresh = [&] { return std::make_unique<Trainer>(experiment, data, Execution{.grain_order = setting.order}); };
  std::unique_ptr<Trainer> trainer = fresh();
  kernels::ListFingerprint losses;
  std::vector<float> values;
  while (trainer->steps_done() < experiment.steps) {
    if (setting.restored && trainer->steps_done() == experiment.steps / 2) {
      std::unique_ptr<Trainer> next = fresh();
      next->restore(trainer->state());
      trainer = std::move(next);
    }
    values.push_back(trainer->step().loss);
  }
  const Evaluation evaluation = trainer->evaluate();
  values.push_back(static_cast<float>(evaluation.loss));
  values.push_back(static_cast<float>(evaluation.accuracy));
  const auto sums = kernels::element_sums(values.data(), 0, static_cast<std::int64_t>(values.size()));
  return "weights " + kernels::to_hex(trainer->weights_fingerprint()) + " optimizer " +
         kernels::to_hex(trainer->optimizer_fingerprint()) + " losses " + kernels::to_hex(sums);
}

std::map<std::string, std::string> golden_values() {
  std::map<std::string, std::string> values;
  std::ifstream file(kGolden);
  for (std::string line; std::getline(file, line);) {
    if (line.empty() || line[0] == '#') continue;
    const auto space = line.find(' ');
    values[line.substr(0, space)] = line.substr(space + 1);
  }
  return values;
}

void expect_golden(const Course& course, const std::string& value) {
  auto values = golden_values();
  const std::string entry = std::string(contract::kContractVersion) + " " + value;
  if (std::getenv("ISOBIT_UPDATE_GOLDEN") != nullptr) {
    values[course.name] = entry;
    std::ofstream file(kGolden);
    file << "# Short training runs on synthetic data (tests/train/fingerprint_test.cpp): name, contract version, fingerprints.\n";
    for (const auto& [name, text] : values) file << name << ' ' << text << '\n';
    return;
  }
  EXPECT_EQ(entry, values[course.name]) << "committed value of " << course.name;
}

std::vector<Setting> every_setting() {
  std::vector<Setting> settings;
  for (const kernels::Isa isa : kernels::available_isas()) {
    for (const int threads : {1, 2, 3, 8}) {
      for (const GrainOrder order : {GrainOrder::ascending, GrainOrder::shuffled}) {
        settings.push_back({isa, threads, order, (threads + (order == GrainOrder::shuffled)) % 2 == 0});
      }
    }
  }
  return settings;
}

class Fingerprints : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    at::set_num_threads(1);
    on_ = new aten::OperatorSwitch;
  }
  static void TearDownTestSuite() { delete on_; }

  static void expect_one(const Course& course, const std::vector<Setting>& settings) {
    const std::string first = run(course, settings.front());
    expect_golden(course, first);
    for (std::size_t i = 1; i < settings.size(); ++i) EXPECT_EQ(run(course, settings[i]), first) << describe(settings[i]);
  }

 private:
  static inline aten::OperatorSwitch* on_ = nullptr;
};

TEST_F(Fingerprints, Mlp) { expect_one(kMlp, every_setting()); }
TEST_F(Fingerprints, MlpOfOneGrain) { expect_one(kMlpOneGrain, every_setting()); }
TEST_F(Fingerprints, LeNet5) { expect_one(kLeNet5, every_setting()); }

// Every pair of (instruction set, threads, order, restored) but those with the slow reference occurs.
TEST_F(Fingerprints, ResNet18PairwiseCover) {
  using enum GrainOrder;
  std::vector<Setting> settings;
  const std::vector<Setting> wished = {
      {kernels::Isa::avx2, 1, ascending, false},   {kernels::Isa::avx512, 1, shuffled, true},
      {kernels::Isa::lanes16, 1, ascending, true}, {kernels::Isa::avx2, 2, shuffled, true},
      {kernels::Isa::avx512, 2, ascending, false}, {kernels::Isa::lanes16, 2, shuffled, false},
      {kernels::Isa::avx2, 3, ascending, true},    {kernels::Isa::avx512, 3, shuffled, false},
      {kernels::Isa::lanes16, 3, shuffled, true},  {kernels::Isa::avx2, 8, shuffled, false},
      {kernels::Isa::avx512, 8, ascending, true},  {kernels::Isa::lanes16, 8, ascending, false},
      {kernels::Isa::reference, 2, shuffled, true}};
  for (const Setting& setting : wished) {
    if (kernels::isa_available(setting.isa)) settings.push_back(setting);
  }
  expect_one(kResNet18, settings);
}

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
