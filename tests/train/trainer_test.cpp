// The loop's own promises: one grain is an ordinary PyTorch step; the fused optimizers are torch.optim's sequence
// under the switch; a step that is not finite changes nothing; batch norm's statistics of several grains.
#include <ATen/ATen.h>
#include <ATen/CPUGeneratorImpl.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "contract/order_plan.h"
#include "contract/host_scalars.h"
#include "train/switched_on.h"
#include "train/synthetic_data.h"
#include "train/trainer.h"

namespace isobit::train {
namespace {

bool same_bits(const at::Tensor& a, const at::Tensor& b) {
  const at::Tensor x = a.detach().contiguous(), y = b.detach().contiguous();
  return x.sizes() == y.sizes() && trace::fingerprint(x) == trace::fingerprint(y);
}

Experiment experiment_of(const char* model, std::int64_t batch, std::int64_t grain) {
  Experiment e;
  e.seed = 2;
  e.steps = 4;
  e.batch = batch;
  e.grain = grain;
  e.model.name = model;
  e.model.hidden = {20};
  e.optimizer.lr = 0.1;
  return e;
}

class TrainerTest : public SwitchedOn {};

// The gradients of a one-grain step, by the lines a user would write.
TEST_F(TrainerTest, OneGrainIsAnOrdinaryPyTorchStep) {
  const DataSets data = synthetic_data(24, 4);
  const Experiment e = experiment_of("lenet5", 24, 0);
  Trainer trainer(e, data), other(e, data);
  const contract::OrderPlan plan(contract::OrderRule::shuffled, 2, 1, 24);
  at::Tensor images = at::empty({24, 1, 28, 28}), labels = at::empty({24}, at::kLong);
  for (std::int64_t i = 0; i < 24; ++i) {
    const auto sample = static_cast<std::int64_t>(plan(static_cast<std::uint64_t>(i)));
    images[i].copy_(made_by(BatchMaker(e, *data.train), 0, sample)[0]);
    labels[i].copy_(made_by(BatchMaker(e, *data.train), 1, sample)[0]);
  }
  const at::Tensor loss = at::cross_entropy_loss(other.model().forward(images), labels);
  loss.backward();
  const StepResult result = trainer.step();
  EXPECT_EQ(result.loss, *loss.const_data_ptr<float>());
  const auto parameters = other.model().parameters();
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    EXPECT_TRUE(same_bits(trainer.gradients()[i], parameters[i].tensor.grad())) << parameters[i].name;
  }
}

// Mean from 1, and sum from RN(1 / RN(count)): the same gradients for plain cross entropy.
TEST_F(TrainerTest, SumFromOneOverCountIsTheMean) {
  for (const std::int64_t count : {1, 3, 7, 64, 100}) {
    at::Tensor logits = at::empty({count, 10});
    for (std::int64_t i = 0; i < logits.numel(); ++i) logits.data_ptr<float>()[i] = std::sin(static_cast<float>(i));
    at::Tensor labels = at::empty({count}, at::kLong);
    for (std::int64_t i = 0; i < count; ++i) labels.data_ptr<std::int64_t>()[i] = i * 7 % 10;
    const at::Tensor a = logits.clone().requires_grad_(), b = logits.clone().requires_grad_();
    at::cross_entropy_loss(a, labels).backward();
    at::Tensor start = at::empty({});
    *start.data_ptr<float>() = 1.0f / static_cast<float>(count);
    at::cross_entropy_loss(b, labels, {}, at::Reduction::Sum).backward(start);
    EXPECT_TRUE(same_bits(a.grad(), b.grad())) << count;
  }
}

// torch.optim's single-tensor sequences (torch/optim/sgd.py, adam.py of 2.13), operator by operator.
void eager_sgd(const OptimizerSettings& s, double lr, std::int64_t step, at::Tensor p, at::Tensor g,
               at::Tensor& buffer) {
  if (s.weight_decay != 0) g = g.add(p, s.weight_decay);
  if (s.momentum != 0) {
    if (step == 1)
      buffer = g.clone();
    else
      buffer.mul_(s.momentum).add_(g, 1 - s.dampening);
    g = s.nesterov ? g.add(buffer, s.momentum) : buffer;
  }
  p.add_(g, -lr);
}

void eager_adam(const OptimizerSettings& s, double lr, std::int64_t step, at::Tensor p, at::Tensor g,
                at::Tensor& average, at::Tensor& square) {
  const auto n = static_cast<std::uint64_t>(step);
  if (step == 1) average = at::zeros_like(g), square = at::zeros_like(g);
  if (s.weight_decay != 0) {
    if (s.name == "adamw")
      p.mul_(1 - lr * s.weight_decay);
    else
      g = g.add(p, s.weight_decay);
  }
  average.lerp_(g, 1 - s.betas[0]);
  square.mul_(s.betas[1]).addcmul_(g, g, 1 - s.betas[1]);
  const double correction1 = 1 - contract::power_rounded(s.betas[0], n),
               correction2 = 1 - contract::power_rounded(s.betas[1], n);
  const at::Tensor denominator = square.sqrt().div_(std::sqrt(correction2)).add_(s.eps);
  p.addcdiv_(average, denominator, -(lr / correction1));
}

// Found by its argument's namespace, which has no GoogleTest in it.
}  // namespace
void PrintTo(const OptimizerSettings& s, std::ostream* out) {
  *out << s.name << " lr " << s.lr << " momentum " << s.momentum << " betas " << s.betas[0] << ", " << s.betas[1]
       << " decay " << s.weight_decay << (s.nesterov ? " nesterov" : "");
}
namespace {

class OptimizerTest : public TrainerTest, public testing::WithParamInterface<OptimizerSettings> {};

TEST_P(OptimizerTest, FusedIsTheEagerSequence) {
  const OptimizerSettings& s = GetParam();
  const std::int64_t n = 1031;
  at::Tensor fused = at::empty({n}), gradient = at::empty({n});
  for (std::int64_t i = 0; i < n; ++i) fused.data_ptr<float>()[i] = std::sin(static_cast<float>(3 * i));
  at::Tensor eager = fused.clone(), first, second;
  Optimizer optimizer(s, {{"p", fused}});
  for (std::int64_t step = 1; step <= 6; ++step) {
    for (std::int64_t i = 0; i < n; ++i) {
      gradient.data_ptr<float>()[i] =
          i % 97 == 0 ? 0.0f : std::sin(static_cast<float>(i * step)) * std::exp2(static_cast<float>(i % 40 - 30));
    }
    const double lr = s.lr / static_cast<double>(step);
    optimizer.step(step, lr, {gradient});
    if (s.name == "sgd")
      eager_sgd(s, lr, step, eager, gradient, first);
    else
      eager_adam(s, lr, step, eager, gradient, first, second);
    for (std::int64_t i = 0; i < n; ++i) {
      const float a = fused.data_ptr<float>()[i], b = eager.data_ptr<float>()[i];
      ASSERT_EQ(contract::bits_of(a), contract::bits_of(b))
          << s.name << ", step " << step << ", element " << i << ": " << a << ", " << b;
    }
  }
}

std::vector<OptimizerSettings> settings_of_all() {
  std::vector<OptimizerSettings> all;
  for (const double momentum : {0.0, 0.9}) {
    for (const double decay : {0.0, 1e-2}) {
      OptimizerSettings sgd;
      sgd.lr = 0.1;
      sgd.momentum = momentum;
      sgd.weight_decay = decay;
      all.push_back(sgd);
      sgd.dampening = 0.3;
      all.push_back(sgd);
      if (momentum != 0) {
        sgd.dampening = 0;
        sgd.nesterov = true;
        all.push_back(sgd);
      }
      for (const char* name : {"adam", "adamw"}) {
        OptimizerSettings adam;
        adam.name = name;
        adam.lr = 1e-3;
        adam.weight_decay = decay;
        if (momentum != 0) adam.betas = {0.4, 0.7};  // lerp's other branch
        all.push_back(adam);
      }
    }
  }
  return all;
}

INSTANTIATE_TEST_SUITE_P(All, OptimizerTest, testing::ValuesIn(settings_of_all()),
                         [](const auto& info) { return info.param.name + std::to_string(info.index); });

TEST_F(TrainerTest, AStepThatIsNotFiniteChangesNothing) {
  for (const std::int64_t grain : {0, 3}) {
    const DataSets data = synthetic_data(8, 4, 12);
    Trainer trainer(experiment_of("resnet18", 8, grain), data);
    (void)trainer.step();
    for (auto& [name, tensor] : trainer.model().parameters()) {
      if (name == "fc.weight") tensor.mutable_data_ptr<float>()[5] = std::numeric_limits<float>::infinity();
    }
    const auto weights = trainer.weights_fingerprint(), optimizer = trainer.optimizer_fingerprint();
    EXPECT_THROW((void)trainer.step(), NotFinite);
    EXPECT_EQ(trainer.weights_fingerprint(), weights);  // batch norm's running statistics included
    EXPECT_EQ(trainer.optimizer_fingerprint(), optimizer);
    EXPECT_EQ(trainer.steps_done(), 1);
  }
}

// Each grain run alone by the batch norm of PyTorch, one after the other in grain order.
TEST_F(TrainerTest, RunningStatisticsAreUpdatedOncePerGrainInGrainOrder) {
  const DataSets data = synthetic_data(8, 4, 12);
  const Experiment e = experiment_of("resnet18", 8, 3);
  for (const GrainOrder order : {GrainOrder::ascending, GrainOrder::shuffled}) {
    Trainer trainer(e, data, {.grain_order = order}), other(e, data);
    other.model().set_training(true);
    const contract::OrderPlan plan(contract::OrderRule::shuffled, 2, 1, 8);
    for (std::int64_t first = 0; first < 8; first += 3) {
      const std::int64_t count = std::min<std::int64_t>(3, 8 - first);
      at::Tensor images = at::empty({count, 1, 12, 12});
      for (std::int64_t i = 0; i < count; ++i) {
        images[i].copy_(made_by(BatchMaker(e, *data.train), 0,
                                static_cast<std::int64_t>(plan(static_cast<std::uint64_t>(first + i))))[0]);
      }
      (void)other.model().forward(images);
    }
    (void)trainer.step();
    const auto ours = trainer.model().buffers(), plain = other.model().buffers();
    for (std::size_t i = 0; i < ours.size(); ++i)
      EXPECT_TRUE(same_bits(ours[i].tensor, plain[i].tensor)) << ours[i].name;
  }
}

TEST_F(TrainerTest, StateGoesThroughRestore) {
  const DataSets data = synthetic_data(20, 4);
  const Experiment e = experiment_of("mlp", 8, 0);
  Trainer trainer(e, data), other(e, data);
  for (int i = 0; i < 2; ++i) (void)trainer.step();
  other.restore(trainer.state());
  EXPECT_EQ(other.epoch_sums().samples, 16);
  EXPECT_EQ(other.step().loss, trainer.step().loss);
  EXPECT_EQ(other.weights_fingerprint(), trainer.weights_fingerprint());
  Experiment wider = e;
  wider.model.hidden = {21};
  EXPECT_THROW(Trainer(wider, data).restore(trainer.state()), std::invalid_argument);
}

// Initial weights do not depend on torch's generator, and lie within their bounds.
TEST_F(TrainerTest, InitialWeights) {
  const DataSets data = synthetic_data(4, 4);
  const Experiment e = experiment_of("lenet5", 4, 0);
  Trainer a(e, data);
  at::Generator generator = at::detail::getDefaultCPUGenerator();
  generator.set_current_seed(12345);
  Trainer b(e, data);
  EXPECT_EQ(a.weights_fingerprint(), b.weights_fingerprint());
  for (const auto& [name, tensor] : a.model().parameters()) {
    if (name != "conv2.weight") continue;
    float largest = 0;
    for (std::int64_t i = 0; i < tensor.numel(); ++i)
      largest = std::max(largest, std::abs(tensor.const_data_ptr<float>()[i]));
    EXPECT_LE(largest, 1 / std::sqrt(150.0f));
    EXPECT_GT(largest, 0.98 / std::sqrt(150.0f));
  }
}

}  // namespace
}  // namespace isobit::train
