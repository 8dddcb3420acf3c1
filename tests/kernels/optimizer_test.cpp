#include "kernels/optimizer.h"

#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <type_traits>
#include <vector>

#include "kernels/pointwise.h"
#include "kernels/sweep.h"

namespace isobit::kernels {
namespace {

using Floats = std::vector<float>;
using Doubles = std::vector<double>;

constexpr std::int64_t kSizes[] = {0, 1, 7, 8, 15, 16, 17, 33, 1001, 20011};

std::vector<SgdOptions> sgd_cases() {
  std::vector<SgdOptions> cases;
  for (const double momentum : {0.0, 0.9}) {
    for (const double decay : {0.0, 5e-4}) {
      cases.push_back({.lr = 0.05, .momentum = momentum, .weight_decay = decay});
      if (momentum == 0) continue;
      cases.push_back({.lr = 0.05, .momentum = momentum, .dampening = 0.3, .weight_decay = decay});
      cases.push_back({.lr = 0.05, .momentum = momentum, .weight_decay = decay, .nesterov = true});
    }
  }
  return cases;
}

std::vector<AdamOptions> adam_cases() {
  return {{},
          {.lr = 2e-3, .weight_decay = 0.01},
          {.lr = 2e-3, .weight_decay = 0.01, .decoupled = true},
          {.lr = 1e-2, .beta1 = 0.4, .beta2 = 0.95, .eps = 1e-3}};  // 1 - beta1 above 1/2: lerp's other side
}

// Parameter and states one after the other, after `steps` steps with changing gradients.
Floats run_sgd(const SgdOptions& options, std::int64_t n, bool non_finite, int steps) {
  Floats parameter = testing::hostile_floats(n, 1, non_finite), buffer(static_cast<std::size_t>(n));
  for (int step = 0; step < steps; ++step) {
    const Floats gradient = testing::hostile_floats(n, 10 + static_cast<unsigned>(step), non_finite);
    sgd_step(options, step == 0, parameter.data(), gradient.data(), options.momentum != 0 ? buffer.data() : nullptr, n);
  }
  parameter.insert(parameter.end(), buffer.begin(), buffer.end());
  return parameter;
}

Floats run_adam(const AdamOptions& options, std::int64_t n, bool non_finite, int steps) {
  Floats parameter = testing::hostile_floats(n, 1, non_finite);
  Floats exp_avg(static_cast<std::size_t>(n)), exp_avg_sq(static_cast<std::size_t>(n));
  for (int step = 1; step <= steps; ++step) {
    const Floats gradient = testing::hostile_floats(n, 10 + static_cast<unsigned>(step), non_finite);
    adam_step(options, step, parameter.data(), gradient.data(), exp_avg.data(), exp_avg_sq.data(), n);
  }
  parameter.insert(parameter.end(), exp_avg.begin(), exp_avg.end());
  parameter.insert(parameter.end(), exp_avg_sq.begin(), exp_avg_sq.end());
  return parameter;
}

TEST(Optimizer, EveryIsaAndThreadCountAgree) {
  for (const std::int64_t n : kSizes) {
    for (const bool non_finite : {false, true}) {
      for (std::size_t i = 0; i < sgd_cases().size(); ++i) {
        testing::expect_reference_bits([&] { return run_sgd(sgd_cases()[i], n, non_finite, 2); },
                                       "sgd case " + std::to_string(i) + " n " + std::to_string(n));
      }
      for (std::size_t i = 0; i < adam_cases().size(); ++i) {
        testing::expect_reference_bits([&] { return run_adam(adam_cases()[i], n, non_finite, 2); },
                                       "adam case " + std::to_string(i) + " n " + std::to_string(n));
      }
    }
  }
}

// The formulas of torch.optim in binary64, with errors that can be planted.
enum class Mistake {
  none,
  no_dampening,
  buffer_from_zero,
  plain_nesterov,
  momentum,
  eps_inside,
  no_correction,
  coupled
};

void sgd_in_double(const SgdOptions& o, bool first, Mistake mistake, double& p, double g, double& buffer) {
  g += o.weight_decay * p;
  if (o.momentum != 0) {
    const double momentum = mistake == Mistake::momentum ? o.momentum - 0.01 : o.momentum;
    const double dampening = mistake == Mistake::no_dampening ? 0.0 : o.dampening;
    const bool copy = first && mistake != Mistake::buffer_from_zero;
    buffer = copy ? g : momentum * buffer + (1 - dampening) * g;
    g = o.nesterov && mistake != Mistake::plain_nesterov ? g + momentum * buffer : buffer;
  }
  p -= o.lr * g;
}

void adam_in_double(const AdamOptions& o, int step, Mistake mistake, double& p, double g, double& m, double& v) {
  const bool decoupled = mistake == Mistake::coupled ? !o.decoupled : o.decoupled;
  if (decoupled)
    p *= 1 - o.lr * o.weight_decay;
  else
    g += o.weight_decay * p;
  const double beta1 = mistake == Mistake::momentum ? o.beta1 - 0.01 : o.beta1;
  m = beta1 * m + (1 - beta1) * g;
  v = o.beta2 * v + (1 - o.beta2) * g * g;
  const double c1 = mistake == Mistake::no_correction ? 1 : 1 - std::pow(o.beta1, step);
  const double c2 = mistake == Mistake::no_correction ? 1 : 1 - std::pow(o.beta2, step);
  const double root = mistake == Mistake::eps_inside ? std::sqrt(v / c2 + o.eps) : std::sqrt(v / c2) + o.eps;
  p -= o.lr / c1 * m / root;
}

constexpr std::int64_t kCount = 500;
constexpr int kSteps = 20;
// Parameters stay below 4: each step rounds by at most 2^-23, and its update carries less error than that.
constexpr double kBound = kSteps * 0x1p-22;

Floats gradient_of_step(int step) {
  return testing::normal_floats(kCount, 100 + static_cast<unsigned>(step), 0.0f, 0.5f);
}

double largest_difference(const Floats& got, const Doubles& expected) {
  double largest = 0;
  for (std::size_t i = 0; i < got.size(); ++i) largest = std::max(largest, std::abs(got[i] - expected[i]));
  return largest;
}

double sgd_deviation(const SgdOptions& options, Mistake mistake) {
  Floats p = testing::normal_floats(kCount, 1), buffer(kCount);
  Doubles q(p.begin(), p.end()), wide_buffer(kCount);
  for (int step = 0; step < kSteps; ++step) {
    const Floats g = gradient_of_step(step);
    sgd_step(options, step == 0, p.data(), g.data(), options.momentum != 0 ? buffer.data() : nullptr, kCount);
    for (std::size_t i = 0; i < q.size(); ++i) sgd_in_double(options, step == 0, mistake, q[i], g[i], wide_buffer[i]);
  }
  return largest_difference(p, q);
}

double adam_deviation(const AdamOptions& options, Mistake mistake) {
  Floats p = testing::normal_floats(kCount, 1), m(kCount), v(kCount);
  Doubles q(p.begin(), p.end()), wide_m(kCount), wide_v(kCount);
  for (int step = 1; step <= kSteps; ++step) {
    const Floats g = gradient_of_step(step);
    adam_step(options, step, p.data(), g.data(), m.data(), v.data(), kCount);
    for (std::size_t i = 0; i < q.size(); ++i) adam_in_double(options, step, mistake, q[i], g[i], wide_m[i], wide_v[i]);
  }
  return largest_difference(p, q);
}

TEST(Optimizer, StaysWithinTheBoundOfBinary64) {
  for (const SgdOptions& options : sgd_cases()) EXPECT_LT(sgd_deviation(options, Mistake::none), kBound);
  for (const AdamOptions& options : adam_cases()) EXPECT_LT(adam_deviation(options, Mistake::none), kBound);
}

TEST(Optimizer, PlantedMistakesExceedTheBound) {
  const SgdOptions dampened{.lr = 0.05, .momentum = 0.9, .dampening = 0.3};
  const SgdOptions nesterov{.lr = 0.05, .momentum = 0.9, .nesterov = true};
  EXPECT_GT(sgd_deviation(dampened, Mistake::no_dampening), 100 * kBound);
  EXPECT_GT(sgd_deviation(dampened, Mistake::buffer_from_zero), 100 * kBound);
  EXPECT_GT(sgd_deviation(dampened, Mistake::momentum), 100 * kBound);
  EXPECT_GT(sgd_deviation(nesterov, Mistake::plain_nesterov), 100 * kBound);
  const AdamOptions adam{.lr = 1e-2, .weight_decay = 0.01};
  AdamOptions visible_eps{.lr = 1e-2, .eps = 1e-3};
  EXPECT_GT(adam_deviation(visible_eps, Mistake::eps_inside), 100 * kBound);
  EXPECT_GT(adam_deviation(adam, Mistake::momentum), 100 * kBound);
  EXPECT_GT(adam_deviation(adam, Mistake::no_correction), 100 * kBound);
  EXPECT_GT(adam_deviation(adam, Mistake::coupled), 100 * kBound);
}

// torch's sequence as calls of the public operators: a fused step gives the bits of its composition.
TEST(Optimizer, AdamIsTheCompositionOfItsOperators) {
  const std::int64_t n = 3001;
  for (const bool decoupled : {false, true}) {
    const AdamOptions o{
        .lr = 2e-3, .beta1 = 0.9, .beta2 = 0.99, .eps = 1e-6, .weight_decay = 0.1, .decoupled = decoupled};
    Floats p = testing::hostile_floats(n, 1, false), m(p.size()), v(p.size());
    Floats q = p, mean(p.size()), square(p.size()), root(p.size());
    for (int step = 1; step <= 3; ++step) {
      Floats g = testing::hostile_floats(n, 20 + static_cast<unsigned>(step), step == 3);
      adam_step(o, step, p.data(), g.data(), m.data(), v.data(), n);
      if (decoupled) {
        for (float& x : q) x *= static_cast<float>(1 - o.lr * o.weight_decay);
      } else {
        add_scaled(g.data(), q.data(), static_cast<float>(o.weight_decay), g.data(), n);
      }
      lerp(mean.data(), g.data(), static_cast<float>(1 - o.beta1), mean.data(), n);
      for (float& x : square) x *= static_cast<float>(o.beta2);
      addcmul(square.data(), g.data(), g.data(), static_cast<float>(1 - o.beta2), square.data(), n);
      // pow of the C library: steps this small are correctly rounded everywhere (and in host_scalars_test).
      const double correction1 = 1 - std::pow(o.beta1, step), correction2 = 1 - std::pow(o.beta2, step);
      for (std::size_t i = 0; i < root.size(); ++i) {
        root[i] = std::sqrt(square[i]) / static_cast<float>(std::sqrt(correction2)) + static_cast<float>(o.eps);
      }
      addcdiv(q.data(), mean.data(), root.data(), static_cast<float>(-(o.lr / correction1)), q.data(), n);
    }
    EXPECT_TRUE(testing::same_bits(p, q));
    EXPECT_TRUE(testing::same_bits(m, mean));
    EXPECT_TRUE(testing::same_bits(v, square));
  }
}

TEST(Optimizer, SgdIsTheCompositionOfItsOperators) {
  const std::int64_t n = 3001;
  for (const SgdOptions& o : sgd_cases()) {
    Floats p = testing::hostile_floats(n, 1, false), buffer(p.size()), q = p, momentum(p.size());
    for (int step = 0; step < 3; ++step) {
      Floats g = testing::hostile_floats(n, 20 + static_cast<unsigned>(step), step == 2);
      sgd_step(o, step == 0, p.data(), g.data(), o.momentum != 0 ? buffer.data() : nullptr, n);
      if (o.weight_decay != 0) add_scaled(g.data(), q.data(), static_cast<float>(o.weight_decay), g.data(), n);
      if (o.momentum != 0) {
        for (float& x : momentum) x *= static_cast<float>(o.momentum);
        add_scaled(momentum.data(), g.data(), static_cast<float>(1 - o.dampening), momentum.data(), n);
        if (step == 0) momentum = g;
        if (o.nesterov)
          add_scaled(g.data(), momentum.data(), static_cast<float>(o.momentum), g.data(), n);
        else
          g = momentum;
      }
      add_scaled(q.data(), g.data(), static_cast<float>(-o.lr), q.data(), n);
    }
    EXPECT_TRUE(testing::same_bits(p, q));
    if (o.momentum != 0) {
      EXPECT_TRUE(testing::same_bits(buffer, momentum));
    }
  }
}

// Of many tensors at once: empty ones, borders, places that no vector is aligned to, more than a device takes in a
// launch.
template <class Arrays, class Steps>
Floats run_many(const Steps& steps) {
  std::vector<std::int64_t> sizes(kSizes, kSizes + std::size(kSizes));
  for (int i = 0; i < 150; ++i) sizes.push_back(i % 7 == 3 ? 0 : 1 + (37 * i) % 400);
  std::vector<Floats> memory;  // parameter, gradient, two states of each; the first `i % 4` elements stay as they are
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    for (unsigned k = 0; k < 4; ++k) {
      const auto n = sizes[i] + static_cast<std::int64_t>(i % 4);
      memory.push_back(k < 2 ? testing::hostile_floats(n, static_cast<unsigned>(4 * i) + k, i % 2 == 0)
                             : Floats(static_cast<std::size_t>(n)));
    }
  }
  std::vector<Arrays> all;
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    float* of[4];
    for (std::size_t k = 0; k < 4; ++k) of[k] = memory[4 * i + k].data() + i % 4;
    if constexpr (std::is_same_v<Arrays, AdamArrays>) {
      all.push_back({of[0], of[1], of[2], of[3], sizes[i]});
    } else {
      all.push_back({of[0], of[1], of[2], sizes[i]});
    }
  }
  steps(all);
  Floats bits;
  for (const Floats& floats : memory) bits.insert(bits.end(), floats.begin(), floats.end());
  return bits;
}

TEST(Optimizer, ManyTensorsAtOnceAreThoseStepsOneByOne) {
  for (const SgdOptions& o : sgd_cases()) {
    for (const bool first : {true, false}) {
      const auto at_once = [&](std::vector<SgdArrays>& all) {
        for (SgdArrays& t : all) t.buffer = o.momentum == 0 ? nullptr : t.buffer;
        sgd_steps(o, first, all.data(), static_cast<std::int64_t>(all.size()));
      };
      const auto one_by_one = [&](std::vector<SgdArrays>& all) {
        for (const SgdArrays& t : all) {
          sgd_step(o, first, t.parameter, t.gradient, o.momentum == 0 ? nullptr : t.buffer, t.n);
        }
      };
      EXPECT_TRUE(testing::same_bits(run_many<SgdArrays>(at_once), run_many<SgdArrays>(one_by_one)));
      testing::expect_reference_bits([&] { return run_many<SgdArrays>(at_once); }, "many, sgd");
    }
  }
  for (const AdamOptions& o : adam_cases()) {
    const auto at_once = [&](std::vector<AdamArrays>& all) {
      adam_steps(o, 3, all.data(), static_cast<std::int64_t>(all.size()));
    };
    const auto one_by_one = [&](std::vector<AdamArrays>& all) {
      for (const AdamArrays& t : all) adam_step(o, 3, t.parameter, t.gradient, t.exp_avg, t.exp_avg_sq, t.n);
    };
    EXPECT_TRUE(testing::same_bits(run_many<AdamArrays>(at_once), run_many<AdamArrays>(one_by_one)));
    testing::expect_reference_bits([&] { return run_many<AdamArrays>(at_once); }, "many, adam");
  }
}

TEST(Optimizer, MomentumBufferStartsAsTheGradient) {
  Floats p = {1.0f}, g = {0.25f}, buffer = {std::nanf("")};
  sgd_step({.lr = 0.5, .momentum = 0.9, .dampening = 0.5}, true, p.data(), g.data(), buffer.data(), 1);
  EXPECT_EQ(buffer[0], 0.25f);
  EXPECT_EQ(p[0], 0.875f);
}

}  // namespace
}  // namespace isobit::kernels
