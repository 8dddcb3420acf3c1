// The first 20 steps against stock PyTorch in float64: the same initial weights and batches, the networks written
// again (double_networks.h), torch::optim's optimizers. Loss, gradients and updates are compared at each step.
// MLP and LeNet-5 follow two independent courses. ResNet-18 with small batches is chaotic (a deviation grows a
// hundredfold in a few steps), so its float64 weights are set to ours before each step.
#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <gtest/gtest.h>
#include <torch/optim/adam.h>
#include <torch/optim/adamw.h>
#include <torch/optim/sgd.h>

#include <cmath>
#include <memory>
#include <tuple>

#include "contract/order_plan.h"
#include "aten/operator_switch.h"
#include "train/double_networks.h"
#include "train/synthetic_data.h"
#include "train/trainer.h"

namespace isobit::train {
namespace {

enum class Plant {
  none,
  momentum,
  dampening,
  nesterov,
  weight_decay,
  eps_inside_root,
  beta,
  trust,
  rate_after_momentum
};

// torch::optim in float64, or with a planted error.
class DoubleOptimizer {
 public:
  DoubleOptimizer(const OptimizerSettings& s, const std::vector<at::Tensor>& parameters, Plant plant)
      : lr_(s.lr), parameters_(parameters) {
    if (plant == Plant::eps_inside_root || s.name == "lars") {
      by_hand_ = s;
      plant_ = plant;
      return;
    }
    const double decay = plant == Plant::weight_decay ? s.weight_decay * 1.5 : s.weight_decay;
    const std::tuple<double, double> betas{plant == Plant::beta ? s.betas[0] + 0.02 : s.betas[0], s.betas[1]};
    if (s.name == "sgd") {
      optimizer_ = std::make_unique<torch::optim::SGD>(
          parameters, torch::optim::SGDOptions(s.lr)
                          .momentum(plant == Plant::momentum ? s.momentum - 0.02 : s.momentum)
                          .dampening(plant == Plant::dampening ? s.dampening + 0.02 : s.dampening)
                          .nesterov(plant == Plant::nesterov ? !s.nesterov : s.nesterov)
                          .weight_decay(decay));
    } else if (s.name == "adam") {
      optimizer_ = std::make_unique<torch::optim::Adam>(
          parameters, torch::optim::AdamOptions(s.lr).betas(betas).eps(s.eps).weight_decay(decay));
    } else {
      optimizer_ = std::make_unique<torch::optim::AdamW>(
          parameters, torch::optim::AdamWOptions(s.lr).betas(betas).eps(s.eps).weight_decay(decay));
    }
  }

  void step() {
    if (by_hand_.name == "lars") return lars_step();
    if (optimizer_) {
      optimizer_->step();
      return;
    }
    const at::NoGradGuard no_grad;
    ++steps_;
    averages_.resize(parameters_.size());
    squares_.resize(parameters_.size());
    for (std::size_t i = 0; i < parameters_.size(); ++i) {
      const at::Tensor g = parameters_[i].grad();
      if (steps_ == 1) averages_[i] = at::zeros_like(g), squares_[i] = at::zeros_like(g);
      averages_[i] = by_hand_.betas[0] * averages_[i] + (1 - by_hand_.betas[0]) * g;
      squares_[i] = by_hand_.betas[1] * squares_[i] + (1 - by_hand_.betas[1]) * g * g;
      const at::Tensor corrected = squares_[i] / (1 - std::pow(by_hand_.betas[1], steps_));
      parameters_[i].sub_(lr_ / (1 - std::pow(by_hand_.betas[0], steps_)) * averages_[i] /
                          at::sqrt(corrected + by_hand_.eps));
    }
  }

 private:
  // Algorithm 1 of the paper; torch has none.
  void lars_step() {
    const at::NoGradGuard no_grad;
    averages_.resize(parameters_.size());
    for (std::size_t i = 0; i < parameters_.size(); ++i) {
      const at::Tensor &w = parameters_[i], g = w.grad();
      if (steps_ == 0) averages_[i] = at::zeros_like(g);
      const double weight = w.norm().item<double>(), gradient = g.norm().item<double>();
      const bool plain = by_hand_.exclude_vectors && w.dim() < 2;
      const double decay = plain ? 0 : by_hand_.weight_decay;
      double rate =
          plain || weight == 0 || gradient == 0 ? lr_ : lr_ * by_hand_.eta * weight / (gradient + decay * weight);
      if (plant_ == Plant::trust)
        rate = plain ? lr_ : lr_ * by_hand_.eta * weight / (g + decay * w).norm().item<double>();
      const bool after = plant_ == Plant::rate_after_momentum;
      averages_[i] = by_hand_.momentum * averages_[i] + (after ? 1 : rate) * (g + decay * w);
      w.sub_((after ? rate : 1) * averages_[i]);
    }
    ++steps_;
  }

  double lr_;
  Plant plant_ = Plant::none;
  std::vector<at::Tensor> parameters_, averages_, squares_;
  std::unique_ptr<torch::optim::Optimizer> optimizer_;
  OptimizerSettings by_hand_;
  int steps_ = 0;
};

// Largest deviations over the steps, each relative to the float64 norm.
struct Deviation {
  double loss = 0, gradient = 0, update = 0;
};

double relative(const at::Tensor& a, const at::Tensor& b) {
  const double norm = b.norm().item<double>(), difference = (a.to(at::kDouble) - b).norm().item<double>();
  return norm == 0 ? difference : difference / norm;
}

at::Tensor flat(const std::vector<at::Tensor>& tensors) {
  std::vector<at::Tensor> parts;
  for (const at::Tensor& tensor : tensors) parts.push_back(tensor.detach().reshape(-1));
  return at::cat(parts);
}

struct OurStep {
  StepResult result;
  at::Tensor gradients, weights;  // flat; weights after the step
};

// Some steps of ours, kept, so that the switch is turned rarely.
std::vector<OurStep> our_steps(Trainer& trainer, const std::vector<at::Tensor>& parameters, std::int64_t count) {
  std::vector<OurStep> steps;
  const aten::OperatorSwitch on;
  for (std::int64_t i = 0; i < count; ++i) {
    OurStep step;
    step.result = trainer.step();
    step.gradients = flat(trainer.gradients());
    step.weights = flat(parameters);
    steps.push_back(std::move(step));
  }
  return steps;
}

struct Batch {
  at::Tensor images, labels;
};

Batch batch_of(const Experiment& experiment, const samples::Samples& data, const StepPlace& place) {
  const BatchMaker maker(experiment, data);
  const contract::OrderPlan plan(contract::OrderRule::shuffled, static_cast<std::uint64_t>(experiment.seed),
                                 static_cast<std::uint64_t>(place.epoch), static_cast<std::uint64_t>(data.count()));
  std::vector<std::int64_t> ids;
  for (std::int64_t i = 0; i < place.count; ++i)
    ids.push_back(static_cast<std::int64_t>(plan(static_cast<std::uint64_t>(place.first + i))));
  Batch batch{maker.memory_for(0, place.count), maker.memory_for(1, place.count)};
  maker.fill(0, ids, place.epoch, batch.images);
  maker.fill(1, ids, place.epoch, batch.labels);
  return batch;
}

// Mean cross entropy; batch norm's statistics are per grain.
at::Tensor double_loss(const Experiment& experiment, const Weights& weights, const Batch& batch) {
  const std::int64_t count = batch.labels.size(0);
  at::Tensor loss = at::zeros({}, at::kDouble);
  for (const at::Tensor& rows : at::arange(count).split(experiment.grain_size())) {
    const at::Tensor x = batch.images.index_select(0, rows).to(at::kDouble);
    const at::Tensor log_p = at::log_softmax(logits_of(experiment.model.name, weights, x), 1);
    loss = loss - log_p.gather(1, batch.labels.index_select(0, rows).unsqueeze(1)).sum() / static_cast<double>(count);
  }
  return loss;
}

// Values of one flat tensor into many.
void set_values(const std::vector<at::Tensor>& tensors, const at::Tensor& values) {
  const at::NoGradGuard no_grad;
  std::int64_t first = 0;
  for (const at::Tensor& tensor : tensors) {
    tensor.copy_(values.slice(0, first, first + tensor.numel()).reshape(tensor.sizes()));
    first += tensor.numel();
  }
}

Deviation deviation_of(const Experiment& experiment, const DataSets& data, std::int64_t steps, Plant plant) {
  constexpr std::int64_t kAtOnce = 5;
  at::set_num_threads(1);  // two pools would wait for each other
  Trainer trainer(experiment, data);
  Weights weights;
  std::vector<at::Tensor> ours, doubles;
  for (const auto& [name, tensor] : trainer.model().parameters()) {
    ours.push_back(tensor);
    doubles.push_back(tensor.detach().to(at::kDouble).requires_grad_());
    weights[name] = doubles.back();
  }
  DoubleOptimizer optimizer(experiment.optimizer, doubles, plant);
  Deviation worst;
  at::Tensor before = flat(ours);
  for (std::int64_t done = 0; done < steps; done += kAtOnce) {
    for (const OurStep& step : our_steps(trainer, ours, kAtOnce)) {
      if (experiment.model.name == "resnet18") set_values(doubles, before);
      const at::Tensor before_double = flat(doubles);
      for (at::Tensor& tensor : doubles) tensor.mutable_grad() = at::Tensor();
      const at::Tensor loss = double_loss(experiment, weights, batch_of(experiment, *data.train, step.result.place));
      loss.backward();
      std::vector<at::Tensor> gradients;
      for (const at::Tensor& tensor : doubles) gradients.push_back(tensor.grad());
      const double value = loss.item<double>();
      worst.loss = std::max(worst.loss, std::abs(step.result.loss - value) / std::max(value, 1e-3));
      worst.gradient = std::max(worst.gradient, relative(step.gradients, flat(gradients)));
      optimizer.step();
      worst.update = std::max(
          worst.update, relative(step.weights.to(at::kDouble) - before.to(at::kDouble), flat(doubles) - before_double));
      before = step.weights;
    }
  }
  return worst;
}

OptimizerSettings optimizer(const char* name, double lr) {
  OptimizerSettings settings;
  settings.name = name;
  settings.lr = lr;
  return settings;
}
OptimizerSettings sgd_everything() {
  OptimizerSettings s = optimizer("sgd", 0.05);
  s.momentum = 0.9;
  s.dampening = 0.1;
  s.weight_decay = 1e-2;
  return s;
}
OptimizerSettings sgd_nesterov() {
  OptimizerSettings s = optimizer("sgd", 0.02);
  s.momentum = 0.9;
  s.nesterov = true;
  s.weight_decay = 5e-4;
  return s;
}
// eps large enough for its place to matter from the first step on
OptimizerSettings adam(const char* name) {
  OptimizerSettings s = optimizer(name, 1e-3);
  s.weight_decay = 1e-2;
  s.eps = 1e-4;
  return s;
}

OptimizerSettings lars(bool exclude_vectors) {
  OptimizerSettings s = optimizer("lars", 1.0);
  s.momentum = 0.9;
  s.weight_decay = 0.05;
  s.eta = 0.02;
  s.exclude_vectors = exclude_vectors;
  if (exclude_vectors) s.lr = 0.2, s.eta = 0.1;
  return s;
}

Experiment experiment_of(const char* model, const OptimizerSettings& settings) {
  Experiment e;
  e.seed = 7;
  e.batch = 16;
  e.steps = 20;
  e.model.name = model;
  e.model.hidden = {64, 32};
  e.optimizer = settings;
  e.fingerprint.every = 0;
  return e;
}

constexpr std::int64_t kSteps = 20;

struct Bound {
  double loss, gradient, update;
};

// Some five times what was seen. An update is a difference of rounded weights: binary32 keeps it to 1e-5 or so.
constexpr Bound kBound = {2e-6, 5e-6, 1e-4};
// ResNet-18: a value within rounding of a ReLU's kink takes the other side now and then, 1e-4 of a gradient; losses
// near 0 weigh their rounding.
constexpr Bound kBoundResNet = {5e-5, 2e-3, 2e-3};

struct Case {
  const char* label;
  const char* model;
  OptimizerSettings optimizer;
  std::int64_t grain = 0, size = 28;
};

void PrintTo(const Case& c, std::ostream* out) { *out << c.label; }

class StockFloat64 : public testing::TestWithParam<Case> {};

TEST_P(StockFloat64, FirstTwentySteps) {
  const Case& c = GetParam();
  Experiment e = experiment_of(c.model, c.optimizer);
  e.grain = c.grain;
  if (e.model.name == "resnet18") e.batch = 8;
  const Deviation worst = deviation_of(e, synthetic_data(64, 10, c.size), kSteps, Plant::none);
  RecordProperty("loss", std::to_string(worst.loss));
  std::printf("%s: loss %.2e gradient %.2e update %.2e\n", c.label, worst.loss, worst.gradient, worst.update);
  const Bound& bound = e.model.name == "resnet18" ? kBoundResNet : kBound;
  EXPECT_LE(worst.loss, bound.loss);
  EXPECT_LE(worst.gradient, bound.gradient);
  EXPECT_LE(worst.update, bound.update);
}

INSTANTIATE_TEST_SUITE_P(
    Table, StockFloat64,
    testing::Values(Case{"mlp_sgd", "mlp", optimizer("sgd", 0.05)}, Case{"mlp_sgd_everything", "mlp", sgd_everything()},
                    Case{"mlp_sgd_nesterov_grains", "mlp", sgd_nesterov(), 5}, Case{"mlp_adam", "mlp", adam("adam")},
                    Case{"mlp_adamw", "mlp", adam("adamw")}, Case{"mlp_lars", "mlp", lars(false)},
                    Case{"lenet5_lars_grains", "lenet5", lars(true), 6},
                    Case{"lenet5_sgd_everything", "lenet5", sgd_everything()},
                    Case{"lenet5_sgd_nesterov_grains", "lenet5", sgd_nesterov(), 6},
                    Case{"lenet5_adam", "lenet5", adam("adam")}, Case{"lenet5_adamw", "lenet5", adam("adamw")},
                    Case{"resnet18_sgd_nesterov", "resnet18", sgd_nesterov(), 0, 12},
                    Case{"resnet18_adamw_grains", "resnet18", adam("adamw"), 4, 12}),
    [](const auto& info) { return std::string(info.param.label); });

// Each planted error leaves the wider of the two bounds: the tests above can fail.
TEST(StockFloat64Planted, EveryErrorIsSeen) {
  const DataSets data = synthetic_data(64, 10);
  const auto update_of = [&](const OptimizerSettings& settings, Plant plant) {
    return deviation_of(experiment_of("mlp", settings), data, kSteps, plant).update;
  };
  OptimizerSettings plain_adam = adam("adam");
  plain_adam.weight_decay = 0;  // as the one written by hand
  EXPECT_GT(update_of(sgd_everything(), Plant::momentum), kBoundResNet.update);
  EXPECT_GT(update_of(sgd_everything(), Plant::dampening), kBoundResNet.update);
  EXPECT_GT(update_of(sgd_everything(), Plant::weight_decay), kBoundResNet.update);
  EXPECT_GT(update_of(sgd_nesterov(), Plant::nesterov), kBoundResNet.update);
  EXPECT_GT(update_of(plain_adam, Plant::eps_inside_root), kBoundResNet.update);
  EXPECT_GT(update_of(adam("adam"), Plant::beta), kBoundResNet.update);
  EXPECT_GT(update_of(lars(false), Plant::trust), kBoundResNet.update);
  EXPECT_GT(update_of(lars(false), Plant::rate_after_momentum), kBoundResNet.update);
  OptimizerSettings decaying = adam("adamw");
  decaying.weight_decay = 1;
  EXPECT_GT(update_of(decaying, Plant::weight_decay), kBoundResNet.update);
}

}  // namespace
}  // namespace isobit::train
