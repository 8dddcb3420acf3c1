// Running statistics taken grain by grain and applied in grain order: the bits of section 7, from every form of batch
// norm.
#include "aten/batch_statistics.h"

#include <torch/csrc/autograd/custom_function.h>
#include <torch/csrc/jit/frontend/resolver.h>
#include <torch/csrc/jit/api/module.h>

#include <cmath>
#include <functional>
#include <limits>
#include <thread>
#include <utility>

#include "operator_cases.h"

namespace isobit::test {
namespace {

using aten::BatchStatisticsScope;
using aten::RunningUpdates;

struct Running {
  Tensor mean = at::zeros({4}), variance = at::ones({4});
};

using Form = std::function<void(const Tensor& x, const Running& running, double momentum)>;

void composite(const Tensor& x, const Running& running, double momentum) {
  at::batch_norm(x, {}, {}, running.mean, running.variance, true, momentum, 1e-5, false);
}

const std::vector<std::pair<std::string, Form>>& forms() {
  static const std::vector<std::pair<std::string, Form>> all = {
      {"batch_norm", composite},
      {"native_batch_norm",
       [](const Tensor& x, const Running& r, double momentum) {
         at::native_batch_norm(x, {}, {}, r.mean, r.variance, true, momentum, 1e-5);
       }},
      {"native_batch_norm.out",
       [](const Tensor& x, const Running& r, double momentum) {
         Tensor y = at::empty({0}, x.options()), mean = y.clone(), invstd = y.clone();
         at::native_batch_norm_out(y, mean, invstd, x, {}, {}, r.mean, r.variance, true, momentum, 1e-5);
       }},
      {"_native_batch_norm_legit",
       [](const Tensor& x, Running r, double momentum) {
         at::_native_batch_norm_legit(x, {}, {}, r.mean, r.variance, true, momentum, 1e-5);
       }},
      {"_native_batch_norm_legit.out",
       [](const Tensor& x, Running r, double momentum) {
         Tensor y = at::empty({0}, x.options()), mean = y.clone(), invstd = y.clone();
         at::_native_batch_norm_legit_out(y, mean, invstd, x, {}, {}, r.mean, r.variance, true, momentum, 1e-5);
       }},
      {"_batch_norm_with_update",
       [](const Tensor& x, Running r, double momentum) {
         at::_batch_norm_with_update(x, {}, {}, r.mean, r.variance, momentum, 1e-5);
       }},
  };
  return all;
}

// As a training loop without the scope would get them: momentum 1, running values of +0.
Running fresh_of(const Tensor& x) {
  const Running zeros{at::zeros({4}, x.options()), at::zeros({4}, x.options())};
  composite(x, zeros, 1.0);
  return zeros;
}

// Section 7, element by element.
template <class T>
void apply_by_hand(const Tensor& running, const Tensor& fresh, double momentum) {
  const auto keep = static_cast<T>(1.0 - momentum), take = static_cast<T>(momentum);
  for (std::int64_t i = 0; i < running.numel(); ++i) {
    const T kept = keep * running.const_data_ptr<T>()[i], taken = take * fresh.const_data_ptr<T>()[i];
    running.mutable_data_ptr<T>()[i] = kept + taken;
  }
}

TEST(BatchStatistics, EveryFormLeavesRunningTensorsAloneAndGivesTheFreshOnes) {
  at::manual_seed(50);
  const Tensor x = at::randn({6, 4, 15});
  const aten::OperatorSwitch on;
  const Running fresh = fresh_of(x);
  for (const auto& [name, form] : forms()) {
    SCOPED_TRACE(name);
    const Running running{at::full({4}, 0.25), at::full({4}, 3.0)};
    BatchStatisticsScope scope;
    form(x, running, 0.3);
    EXPECT_TRUE(same_bits(running.mean, at::full({4}, 0.25)) && same_bits(running.variance, at::full({4}, 3.0)));
    const RunningUpdates updates = scope.take();
    ASSERT_EQ(updates.size(), 1u);
    EXPECT_TRUE(updates[0].running_mean.is_same(running.mean));
    EXPECT_TRUE(updates[0].running_variance.is_same(running.variance));
    EXPECT_EQ(updates[0].momentum, 0.3);
    EXPECT_TRUE(same_bits(updates[0].fresh_mean, fresh.mean));
    EXPECT_TRUE(same_bits(updates[0].fresh_variance, fresh.variance));
    EXPECT_TRUE(scope.take().empty());
  }
}

TEST(BatchStatistics, OutputsAndGradientsAreThoseWithoutAScope) {
  at::manual_seed(51);
  const Tensor x = at::randn({6, 4, 15}), dy = at::randn({6, 4, 15});
  const aten::OperatorSwitch on;
  const auto run = [&] {
    const Tensor input = x.clone().requires_grad_(true);
    const Running running;
    const Tensor y = at::batch_norm(input, {}, {}, running.mean, running.variance, true, 0.1, 1e-5, false);
    y.backward(dy);
    return Tensors{y, input.grad()};
  };
  const Tensors expected = run();
  const BatchStatisticsScope scope;
  EXPECT_TRUE(same_bits(run(), expected));
}

TEST(BatchStatistics, GrainsAreAppliedInTheOrderGivenEachProductRounded) {
  at::manual_seed(52);
  for (const at::ScalarType type : {at::kFloat, at::kDouble}) {
    const Tensor a = at::randn({6, 4, 15}).to(type), b = at::randn({5, 4, 15}).mul(2).to(type);
    const aten::OperatorSwitch on;
    const Running running{at::full({4}, 0.1, type), at::full({4}, 0.7, type)};
    const Running expected{running.mean.clone(), running.variance.clone()},
        swapped{running.mean.clone(), running.variance.clone()};
    const auto by_hand = [&](const Running& result, const Tensor& x) {
      const auto one = [&](const Tensor& old, const Tensor& fresh) {
        type == at::kFloat ? apply_by_hand<float>(old, fresh, 0.3) : apply_by_hand<double>(old, fresh, 0.3);
      };
      one(result.mean, fresh_of(x).mean), one(result.variance, fresh_of(x).variance);
    };
    by_hand(expected, a), by_hand(expected, b);
    by_hand(swapped, b), by_hand(swapped, a);

    BatchStatisticsScope scope;
    composite(b, running, 0.3);  // computed in another order
    const RunningUpdates second = scope.take();
    composite(a, running, 0.3);
    const RunningUpdates first = scope.take();
    aten::apply(first);
    aten::apply(second);
    EXPECT_TRUE(same_bits(running.mean, expected.mean) && same_bits(running.variance, expected.variance));
    EXPECT_FALSE(same_bits(running.mean, swapped.mean)) << "the order is a part of the bits";
  }
}

TEST(BatchStatistics, AModuleCalledTwiceIsAppliedTwice) {
  at::manual_seed(53);
  const Tensor a = at::randn({6, 4, 15}), b = at::randn({6, 4, 15});
  const aten::OperatorSwitch on;
  const Running plain, running;
  composite(a, plain, 0.1), composite(b, plain, 0.1);
  BatchStatisticsScope scope;
  composite(a, running, 0.1), composite(b, running, 0.1);
  const RunningUpdates updates = scope.take();
  EXPECT_EQ(updates.size(), 2u);
  aten::apply(updates);
  EXPECT_TRUE(same_bits(running.mean, plain.mean) && same_bits(running.variance, plain.variance));
}

TEST(BatchStatistics, BuffersThatAreNotContiguousOrAlone) {
  at::manual_seed(54);
  const Tensor x = at::randn({6, 4, 15});
  const aten::OperatorSwitch on;
  const Running plain;
  composite(x, plain, 0.1);
  const Running gaps{scattered(at::zeros({4})), scattered(at::ones({4}))};
  const Tensor mean = at::zeros({4});
  BatchStatisticsScope scope;
  composite(x, gaps, 0.1);
  at::native_batch_norm(x, {}, {}, mean, {}, true, 0.1, 1e-5);
  at::native_batch_norm(x, {}, {}, {}, {}, true, 0.1, 1e-5);  // without statistics: nothing to keep
  const RunningUpdates updates = scope.take();
  ASSERT_EQ(updates.size(), 2u);
  EXPECT_FALSE(updates[1].running_variance.defined());
  aten::apply(updates);
  EXPECT_TRUE(same_bits(gaps.mean, plain.mean) && same_bits(gaps.variance, plain.variance));
  EXPECT_TRUE(same_bits(mean, plain.mean));
}

TEST(BatchStatistics, InferenceAndNothingKeepNothing) {
  const aten::OperatorSwitch on;
  BatchStatisticsScope scope;
  const Running running;
  at::batch_norm(at::ones({2, 4}), {}, {}, running.mean, running.variance, false, 0.1, 1e-5, false);
  at::native_batch_norm(at::empty({0, 4}), {}, {}, running.mean, running.variance, true, 0.1, 1e-5);
  EXPECT_TRUE(scope.take().empty());
}

TEST(BatchStatistics, ScopesNestAndEndAndBelongToTheirThread) {
  const Tensor x = at::arange(48, at::kFloat).reshape({3, 4, 4});
  const aten::OperatorSwitch on;
  const Running running, other;
  {
    BatchStatisticsScope outer;
    {
      BatchStatisticsScope inner;
      composite(x, running, 0.1);
      EXPECT_EQ(inner.take().size(), 1u);
    }
    std::thread([&] { composite(x, other, 0.1); }).join();
    EXPECT_TRUE(outer.take().empty());
    EXPECT_TRUE(same_bits(running.mean, at::zeros({4})));
    EXPECT_FALSE(same_bits(other.mean, at::zeros({4}))) << "another thread updates as always";
  }
  composite(x, running, 0.1);
  EXPECT_TRUE(same_bits(running.mean, other.mean));
}

TEST(BatchStatistics, TorchScript) {
  torch::jit::Module script("bn");
  const Running running;
  script.register_buffer("mean", running.mean);
  script.register_buffer("variance", running.variance);
  script.define(R"(
    def normalise(self, x):
        return torch.batch_norm(x, None, None, self.mean, self.variance, True, 0.1, 1e-5, False)
    def forward(self, x):
        return self.normalise(x) + self.normalise(x + 1)
  )");
  const aten::OperatorSwitch on;
  BatchStatisticsScope scope;
  script.forward({at::arange(48, at::kFloat).reshape({3, 4, 4})});
  EXPECT_EQ(scope.take().size(), 2u);
  EXPECT_TRUE(same_bits(running.mean, at::zeros({4})));
}

// What activation checkpointing does.
struct AgainInBackward : torch::autograd::Function<AgainInBackward> {
  static Tensor forward(torch::autograd::AutogradContext* context, const Tensor& x, const Tensor& mean,
                        const Tensor& variance) {
    context->saved_data["mean"] = mean;
    context->saved_data["variance"] = variance;
    return x.clone();
  }
  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 const torch::autograd::variable_list& gradients) {
    const Running running{context->saved_data["mean"].toTensor(), context->saved_data["variance"].toTensor()};
    composite(gradients[0], running, 0.1);
    return {gradients[0], {}, {}};
  }
};

TEST(BatchStatistics, ABackwardKeepsTooOnADevicesThreadAsWell) {
#ifdef ISOBIT_FAKE_CUDA
  const bool device = fake_cuda();
#else
  const bool device = false;
#endif
  const aten::OperatorSwitch on;
  for (const at::Device place : {at::Device(at::kCPU), at::Device(at::kCUDA, 0)}) {
    if (place.is_cuda() && !device) continue;
    SCOPED_TRACE(place.str());
    const Tensor x = at::arange(48, at::kFloat).reshape({3, 4, 4}).to(place).requires_grad_(true);
    const Running running{at::zeros({4}).to(place), at::ones({4}).to(place)};
    BatchStatisticsScope scope;
    AgainInBackward::apply(x, running.mean, running.variance).backward(x.detach());
    EXPECT_EQ(scope.take().size(), 1u);
    EXPECT_TRUE(same_bits(running.mean.cpu(), at::zeros({4})));
  }
}

TEST(BatchStatistics, ADeviceHasTheBitsOfTheCpu) {
#ifdef ISOBIT_FAKE_CUDA
  if (!fake_cuda()) GTEST_SKIP();
  at::manual_seed(55);
  const Tensor x = at::randn({6, 4, 15});
  const aten::OperatorSwitch on;
  const Running host, device{at::zeros({4}).to("cuda:0"), at::ones({4}).to("cuda:0")};
  BatchStatisticsScope scope;
  composite(x, host, 0.3);
  aten::apply(scope.take());
  composite(x.to("cuda:0"), device, 0.3);
  EXPECT_TRUE(same_bits(device.mean.cpu(), at::zeros({4})));
  aten::apply(scope.take());
  EXPECT_TRUE(same_bits(device.mean.cpu(), host.mean) && same_bits(device.variance.cpu(), host.variance));
#else
  GTEST_SKIP();
#endif
}

TEST(BatchStatistics, InstanceNormWithRunningStatisticsIsRefusedWithinAScope) {
  const Tensor x = at::randn({3, 4, 5});
  const aten::OperatorSwitch on;
  const Running running;
  const auto instance_norm = [&](bool statistics) {
    return at::instance_norm(x, {}, {}, statistics ? running.mean : Tensor(), statistics ? running.variance : Tensor(),
                             true, 0.1, 1e-5, false);
  };
  const Tensor expected = instance_norm(true);
  const BatchStatisticsScope scope;
  EXPECT_TRUE(same_bits(instance_norm(false), expected));
  expect_throws([&] { instance_norm(true); }, "track_running_stats=False");
  expect_throws([&] { instance_norm(true); }, "aten::instance_norm");
}

TEST(BatchStatistics, MomentaThatFollowTheCallsAreRefusedWhereTheirOrderWasAnother) {
  const Tensor x = at::randn({3, 4, 5});
  const aten::OperatorSwitch on;
  const Running a, b;
  BatchStatisticsScope scope;
  std::vector<RunningUpdates> grains;
  for (int i = 1; i <= 2; ++i) {
    composite(x, a, 0.1), composite(x, b, 0.2);
    grains.push_back(scope.take());
  }
  aten::require_equal_momenta(grains);
  composite(x, b, 1.0 / 3);
  grains.push_back(scope.take());
  expect_throws([&] { aten::require_equal_momenta(grains); }, "momentum=None");
}

}  // namespace
}  // namespace isobit::test
