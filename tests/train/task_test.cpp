// What networks learn: each task's loss, weight and score against float64 written out; several inputs by name; grains
// of weighted samples; sequences whose targets count in part.
#include "train/task.h"

#include <ATen/ops/arange.h>
#include <gtest/gtest.h>
#include <torch/csrc/jit/api/module.h>

#include <cmath>

#include "archive/user_error.h"
#include "contract/philox.h"
#include "samples/data_files.h"
#include "samples/memory_samples.h"
#include "train/switched_on.h"
#include "train/trainer.h"

namespace isobit::train {
namespace {

using samples::Element;
using samples::Field;
using samples::Role;

template <class T>
std::vector<std::byte> raw(const std::vector<T>& values) {
  const auto* begin = reinterpret_cast<const std::byte*>(values.data());
  return {begin, begin + values.size() * sizeof(T)};
}

std::vector<float> noise(std::size_t n, std::uint64_t key) {
  std::vector<float> values(n);
  for (std::size_t i = 0; i < n; ++i)
    values[i] = static_cast<float>(contract::random_word(key, i) >> 8) * 0x1p-23f - 1.0f;
  return values;
}

// Samples with columns of weights and counts.
class Weighted final : public samples::Samples {
 public:
  Weighted(samples::MemorySamples of, std::vector<float> weights, std::vector<std::int64_t> counts)
      : of_(std::move(of)), weights_(std::move(weights)), counts_(std::move(counts)) {}
  [[nodiscard]] std::int64_t count() const override { return of_.count(); }
  [[nodiscard]] const std::vector<Field>& fields() const override { return of_.fields(); }
  void read(std::size_t field, std::span<const std::int64_t> ids, std::byte* out) const override {
    of_.read(field, ids, out);
  }
  [[nodiscard]] std::string name(std::int64_t id) const override { return of_.name(id); }
  [[nodiscard]] float weight(std::int64_t id) const override {
    return weights_.empty() ? 1 : weights_[static_cast<std::size_t>(id)];
  }
  [[nodiscard]] std::int64_t targets(std::int64_t id) const override {
    return counts_.empty() ? -1 : counts_[static_cast<std::size_t>(id)];
  }

 private:
  samples::MemorySamples of_;
  std::vector<float> weights_;
  std::vector<std::int64_t> counts_;
};

class TaskTest : public SwitchedOn {
 protected:
  static std::string bits(Trainer& trainer) {
    std::string text;
    while (trainer.steps_done() < trainer.timetable().steps()) {
      const StepResult step = trainer.step();
      text += std::to_string(step.loss) + " " + kernels::to_hex(step.batch_digest) + "\n";
    }
    return text + kernels::to_hex(trainer.weights_fingerprint()) + std::to_string(trainer.evaluate().score);
  }
};

constexpr const char* kRegression =
    "seed = 2\nsteps = 6\nbatch = 12\n[data]\nformat = \"csv\"\ntarget = \"value\"\n[model]\nname = \"mlp\"\n"
    "hidden = [8]\nclasses = 2\n[loss]\nname = \"mse\"\n[optimizer]\nlr = 0.1";

samples::MemorySamples numbers(std::int64_t count) {
  const auto n = static_cast<std::size_t>(count);
  return {{{"inputs", Element::float32, {3}, Role::input}, {"targets", Element::float32, {2}, Role::target}},
          {raw(noise(3 * n, 1)), raw(noise(2 * n, 2))},
          count,
          "made"};
}

// The first step's loss and the score, from the network's own outputs in float64.
TEST_F(TaskTest, ValuesAgainstFloat64) {
  for (const std::string loss : {"mse", "l1", "huber"}) {
    const Experiment e = parse_experiment(kRegression, "test", {"loss.name=" + loss, "batch=20"});
    const auto data = std::make_shared<samples::MemorySamples>(numbers(20));
    Trainer trainer(e, {data, data, ""});
    std::vector<std::int64_t> ids(20);
    for (int i = 0; i < 20; ++i) ids[static_cast<std::size_t>(i)] = i;
    const BatchMaker maker(e, *data);
    const at::Tensor x = maker.memory_for(0, 20), y = maker.memory_for(1, 20);
    maker.fill(0, ids, 0, x), maker.fill(1, ids, 0, y);
    const at::Tensor out = trainer.model().forward(x).detach().contiguous();
    double sum = 0, error = 0;
    for (int i = 0; i < 40; ++i) {
      const double d = std::fabs(static_cast<double>(out.const_data_ptr<float>()[i]) -
                                 static_cast<double>(y.const_data_ptr<float>()[i]));
      sum += loss == "mse" ? d * d : loss == "l1" ? d : d < 1 ? 0.5 * d * d : d - 0.5;
      error += d;
    }
    EXPECT_NEAR(trainer.evaluate().loss, sum / 40, 1e-6) << loss;
    EXPECT_NEAR(trainer.evaluate().score, error / 40, 1e-12) << loss;
    EXPECT_EQ(trainer.evaluate().name, "mean_absolute_error");
    EXPECT_NEAR(trainer.step().loss, sum / 40, 1e-6) << loss;
  }
}

TEST_F(TaskTest, LabelsAgainstFloat64) {
  const Experiment e =
      parse_experiment(kRegression, "test", {"data.target=labels", "loss.name=binary_cross_entropy", "batch=20"});
  std::vector<float> labels = noise(40, 9);
  for (float& label : labels) label = label > 0 ? 1.0f : 0.0f;
  const auto data = std::make_shared<samples::MemorySamples>(
      std::vector<Field>{{"inputs", Element::float32, {3}, Role::input},
                         {"targets", Element::float32, {2}, Role::target}},
      std::vector<std::vector<std::byte>>{raw(noise(60, 1)), raw(labels)}, 20, "made");
  Trainer trainer(e, {data, data, ""});
  const BatchMaker maker(e, *data);
  double sum = 0;
  int right = 0;
  for (std::int64_t i = 0; i < 20; ++i) {
    const at::Tensor x = maker.memory_for(0, 1);
    maker.fill(0, {&i, 1}, 0, x);
    const at::Tensor out = trainer.model().forward(x).detach().contiguous();
    for (int k = 0; k < 2; ++k) {
      const double z = out.const_data_ptr<float>()[k], y = labels[static_cast<std::size_t>(2 * i + k)];
      sum += std::log1p(std::exp(-std::fabs(z))) + std::max(z, 0.0) - z * y;
      right += (z > 0) == (y != 0);
    }
  }
  EXPECT_NEAR(trainer.evaluate().loss, sum / 40, 1e-6);
  EXPECT_EQ(trainer.evaluate().score, right / 40.0);
}

// Weights of samples: one grain, several, and several workers are one step; its loss is the weighted mean.
TEST_F(TaskTest, WeightedSamplesInGrains) {
  std::vector<float> weights(30);
  for (std::size_t i = 0; i < 30; ++i) weights[i] = static_cast<float>(i % 4) * 0.3f;
  const auto data = std::make_shared<Weighted>(numbers(30), weights, std::vector<std::int64_t>{});
  std::string with_grains;
  for (const char* grain : {"grain=0", "grain=5"}) {
    const Experiment e = parse_experiment(kRegression, "test", {"data.weight=w", grain});
    Trainer one(e, {data, data, ""});
    const std::string first = bits(one);
    for (const int workers : {2, 3}) {
      Execution execution;
      execution.workers = workers;
      execution.grain_order = GrainOrder::shuffled;
      Trainer several(e, {data, data, ""}, execution);
      EXPECT_EQ(bits(several), first) << grain;
    }
  }
  // Weight 2 is the sample twice.
  std::vector<float> once(10, 1.0f), twice(10, 2.0f);
  const Experiment e = parse_experiment(kRegression, "test", {"data.weight=w", "batch=10", "steps=1"});
  const auto a = std::make_shared<Weighted>(numbers(10), once, std::vector<std::int64_t>{});
  const auto b = std::make_shared<Weighted>(numbers(10), twice, std::vector<std::int64_t>{});
  EXPECT_EQ(Trainer(e, {a, a, ""}).step().loss, Trainer(e, {b, b, ""}).step().loss);
  EXPECT_EQ(Trainer(e, {a, a, ""}).evaluate().loss, Trainer(e, {b, b, ""}).evaluate().loss);
}

// Positions that do not count (-100) weigh nothing, and the column that says so must be right.
TEST_F(TaskTest, SequencesThatCountInPart) {
  const std::string text =
      "seed = 2\nsteps = 4\nbatch = 6\n[data]\nformat = \"npy\"\ntarget = \"sequence\"\ncount = \"n\"\n[model]\n"
      "name = \"gpt2\"\nwidth = 16\ndepth = 1\nheads = 2\nclasses = 7\n[optimizer]\nlr = 0.1";
  std::vector<std::int64_t> tokens, targets, counts;
  for (std::int64_t i = 0; i < 12; ++i) {
    counts.push_back(1 + i % 5);
    for (std::int64_t k = 0; k < 5; ++k) {
      tokens.push_back((i * 3 + k) % 7);
      targets.push_back(k < counts.back() ? (i + k) % 7 : -100);
    }
  }
  const auto make = [&](const std::vector<std::int64_t>& said) {
    samples::MemorySamples plain({{"x", Element::int64, {5}, Role::input}, {"y", Element::int64, {5}, Role::target}},
                                 {raw(tokens), raw(targets)}, 12, "made");
    return std::make_shared<Weighted>(std::move(plain), std::vector<float>{}, said);
  };
  const auto data = make(counts);
  std::string results[2];
  for (int i = 0; i < 2; ++i) {
    const Experiment e = parse_experiment(text, "test", {i == 0 ? "grain=0" : "grain=2"});
    make_task(e)->check(*data);
    Trainer trainer(e, {data, data, ""});
    results[i] = bits(trainer);
    EXPECT_EQ(trainer.epoch_sums().counts.targets, 33);
    Execution shuffled;
    shuffled.grain_order = GrainOrder::shuffled;
    shuffled.workers = 2;
    Trainer other(e, {data, data, ""}, shuffled);
    EXPECT_EQ(bits(other), results[i]);
  }
  const Experiment e = parse_experiment(text, "test");
  counts[3] = 5;
  EXPECT_THROW(make_task(e)->check(*make(counts)), archive::UserError);
  const Experiment unsaid = parse_experiment(text, "test", {"data.count="});
  EXPECT_THROW(make_task(unsaid)->check(*make({})), archive::UserError);
}

// An mlp joins several inputs, TorchScript takes them by name, in any order of the fields.
TEST_F(TaskTest, SeveralInputs) {
  const auto data = std::make_shared<samples::MemorySamples>(
      std::vector<Field>{{"a", Element::float32, {2}, Role::input},
                         {"b", Element::float32, {3}, Role::input},
                         {"y", Element::float32, {2}, Role::target}},
      std::vector<std::vector<std::byte>>{raw(noise(40, 1)), raw(noise(60, 2)), raw(noise(40, 3))}, 20, "made");
  Trainer joined(parse_experiment(kRegression, "test"), {data, data, ""});
  EXPECT_FALSE(bits(joined).empty());

  const samples::ScratchFolder folder;
  const auto save = [&](const char* code) {
    torch::jit::Module net("Net");
    net.register_parameter("w", at::arange(6).to(at::kFloat).mul(0.1).view({2, 3}).requires_grad_(true), false);
    net.register_parameter("v", at::arange(4).to(at::kFloat).mul(0.1).view({2, 2}).requires_grad_(true), false);
    net.register_attribute("training", c10::BoolType::get(), true);
    net.define(code);
    net.save((folder.path() / "net.pt").string());
    return parse_experiment(
        "steps = 3\nbatch = 10\ngrain = 4\n[data]\nformat = \"npy\"\ntarget = \"value\"\n[model]\nname = "
        "\"torchscript\"\n"
        "classes = 2\ntorchscript = \"" +
            (folder.path() / "net.pt").string() + "\"\n[loss]\nname = \"mse\"\n[optimizer]\nlr = 0.1",
        "test");
  };
  const Experiment named =
      save("def forward(self, b, a):\n    return torch.linear(b, self.w) + torch.linear(a, self.v)\n");
  Trainer script(named, {data, data, ""});
  EXPECT_FALSE(bits(script).empty());
  const Experiment others =
      save("def forward(self, x, z):\n    return torch.linear(x, self.w) + torch.linear(z, self.v)\n");
  try {
    Trainer refused(others, {data, data, ""});
    FAIL() << "expected an error";
  } catch (const archive::UserError& error) {
    EXPECT_NE(std::string(error.what()).find("takes (x, z), but the data has the inputs (a, b)"), std::string::npos)
        << error.what();
  }
  EXPECT_THROW(Trainer(parse_experiment(kRegression, "test", {"model.name=lenet5", "model.hidden=[512, 256]"}),
                       {data, data, ""}),
               archive::UserError);
}

// Dice of a step, from softmaxes written out in float64.
TEST_F(TaskTest, DiceCouplesAWholeStep) {
  const Experiment e = parse_experiment(
      "steps = 2\nbatch = 4\n[data]\ntarget = \"mask\"\n[model]\nname = \"unet\"\nwidth = 4\ndepth = 1\nclasses = "
      "3\n[loss]\n"
      "name = \"dice\"\n[optimizer]\nlr = 0.1",
      "test");
  std::vector<std::uint8_t> pixels(4 * 64);
  std::vector<std::int64_t> masks(4 * 64);
  for (std::size_t i = 0; i < pixels.size(); ++i) {
    pixels[i] = static_cast<std::uint8_t>(contract::random_word(4, i));
    masks[i] = contract::random_word(5, i) % 3;
  }
  const auto data =
      std::make_shared<samples::MemorySamples>(std::vector<Field>{{"images", Element::uint8, {1, 8, 8}, Role::input},
                                                                  {"labels", Element::int64, {8, 8}, Role::target}},
                                               std::vector<std::vector<std::byte>>{raw(pixels), raw(masks)}, 4, "made");
  Trainer trainer(e, {data, data, ""});
  const std::vector<std::int64_t> ids = {0, 1, 2, 3};
  const BatchMaker maker(e, *data);
  const at::Tensor x = maker.memory_for(0, 4);
  maker.fill(0, ids, 0, x);
  trainer.model().set_training(false);
  const at::Tensor out = trainer.model().forward(x).detach().contiguous();  // [4, 3, 8, 8]
  double both[3] = {}, each[3] = {};
  for (int n = 0; n < 4; ++n) {
    for (int k = 0; k < 64; ++k) {
      double z[3], sum = 0;
      for (int c = 0; c < 3; ++c) sum += z[c] = std::exp(out.const_data_ptr<float>()[(n * 3 + c) * 64 + k]);
      for (int c = 0; c < 3; ++c) {
        const bool is = masks[static_cast<std::size_t>(n * 64 + k)] == c;
        both[c] += is ? z[c] / sum : 0;
        each[c] += z[c] / sum + is;
      }
    }
  }
  double mean = 0;
  for (int c = 0; c < 3; ++c) mean += (2 * both[c] + 1) / (each[c] + 1) / 3;
  EXPECT_NEAR(trainer.evaluate().loss, 1 - mean, 1e-6);
  EXPECT_FALSE(bits(trainer).empty());
}

}  // namespace
}  // namespace isobit::train
