// Fused and list forms of optimizer steps give the bits of the single-tensor sequence.
#include <cmath>

#include "operator_cases.h"

namespace isobit::test {
namespace {

constexpr int kSteps = 4;

struct State {
  Tensors parameters, first, second, third, steps;
};

State fresh(const std::vector<std::vector<std::int64_t>>& shapes) {
  at::manual_seed(120);
  State s;
  for (const auto& sizes : shapes) {
    s.parameters.push_back(at::randn(sizes));
    for (Tensors* zeros : {&s.first, &s.second, &s.third}) zeros->push_back(at::zeros(sizes));
    s.steps.push_back(at::zeros({}));
  }
  return s;
}
Tensors gradients(const State& s, int step) {
  at::manual_seed(200 + step);
  Tensors all;
  for (const Tensor& p : s.parameters) all.push_back(at::randn(p.sizes()));
  return all;
}
const std::vector<std::vector<std::int64_t>> kShapes{{5, 7}, {1}, {40, 33}, {0}};

// torch.optim's `_single_tensor_adam` in the dispatcher's operators.
void single_adam(State& s, std::size_t i, Tensor g, int step, bool decoupled, bool amsgrad, double weight_decay) {
  const double lr = 0.01, beta1 = 0.9, beta2 = 0.999, eps = 1e-8;
  Tensor &p = s.parameters[i], &m = s.first[i], &v = s.second[i];
  if (weight_decay != 0) {
    if (decoupled)
      p.mul_(1 - lr * weight_decay);
    else
      g = g.add(p, weight_decay);
  }
  m.lerp_(g, 1 - beta1);
  v.mul_(beta2).addcmul_(g, g, 1 - beta2);
  const double correction1 = 1 - std::pow(beta1, step), correction2 = 1 - std::pow(beta2, step);
  if (amsgrad) at::maximum_out(s.third[i], s.third[i], v);
  const Tensor root = (amsgrad ? s.third[i] : v).sqrt();
  p.addcdiv_(m, (root / std::sqrt(correction2)).add_(eps), -(lr / correction1));
}

TEST(FusedOptimizers, AdamAndAdamW) {
  const aten::OperatorSwitch on;
  for (const bool decoupled : {false, true}) {
    for (const bool amsgrad : {false, true}) {
      for (const bool maximize : {false, true}) {
        State single = fresh(kShapes), fused = fresh(kShapes);
        for (int step = 1; step <= kSteps; ++step) {
          const Tensors g = gradients(single, step);
          for (std::size_t i = 0; i < g.size(); ++i) {
            single_adam(single, i, maximize ? g[i].neg() : g[i], step, decoupled, amsgrad, 0.02);
            fused.steps[i].add_(1);
          }
          const Tensors largest = amsgrad ? fused.third : Tensors{};
          if (decoupled) {
            at::_fused_adamw_(fused.parameters, g, fused.first, fused.second, largest, fused.steps, 0.01, 0.9, 0.999,
                              0.02, 1e-8, amsgrad, maximize);
          } else {
            at::_fused_adam_(fused.parameters, g, fused.first, fused.second, largest, fused.steps, 0.01, 0.9, 0.999,
                             0.02, 1e-8, amsgrad, maximize);
          }
        }
        EXPECT_TRUE(same_bits(fused.parameters, single.parameters)) << decoupled << amsgrad << maximize;
        EXPECT_TRUE(same_bits(fused.second, single.second));
      }
    }
  }
}

TEST(FusedOptimizers, Sgd) {
  const aten::OperatorSwitch on;
  State single = fresh(kShapes), fused = fresh(kShapes);
  for (int step = 1; step <= kSteps; ++step) {
    const Tensors g = gradients(single, step);
    for (std::size_t i = 0; i < g.size(); ++i) {
      Tensor d = g[i].add(single.parameters[i], 0.02);
      Tensor& buffer = single.first[i];
      if (step == 1)
        buffer.copy_(d);
      else
        buffer.mul_(0.9).add_(d, 1 - 0.1);
      single.parameters[i].add_(d.add(buffer, 0.9), -0.05);
    }
    at::_fused_sgd_(fused.parameters, g, fused.first, 0.02, 0.9, 0.05, 0.1, true, false, step == 1);
  }
  EXPECT_TRUE(same_bits(fused.parameters, single.parameters));
  EXPECT_TRUE(same_bits(fused.first, single.first));
}

TEST(FusedOptimizers, Adagrad) {
  const aten::OperatorSwitch on;
  State single = fresh(kShapes), fused = fresh(kShapes);
  for (int step = 1; step <= kSteps; ++step) {
    const Tensors g = gradients(single, step);
    for (std::size_t i = 0; i < g.size(); ++i) {
      const Tensor d = g[i].add(single.parameters[i], 0.02);
      single.first[i].addcmul_(d, d, 1);
      single.parameters[i].addcdiv_(d, single.first[i].sqrt().add_(1e-10), -(0.05 / (1 + (step - 1) * 0.1)));
      fused.steps[i].add_(1);
    }
    at::_fused_adagrad_(fused.parameters, g, fused.first, fused.steps, 0.05, 0.1, 0.02, 1e-10, false);
  }
  EXPECT_TRUE(same_bits(fused.parameters, single.parameters));
}

TEST(FusedOptimizers, StridesDoNotMatterAndScalingIsRefused) {
  const aten::OperatorSwitch on;
  State plain = fresh({{6, 5}}), turned = fresh({{6, 5}});
  turned.parameters[0] = turned.parameters[0].t().contiguous().t();
  const Tensors g = gradients(plain, 1);
  for (State* s : {&plain, &turned}) {
    s->steps[0].add_(1);
    at::_fused_adam_(s->parameters, g, s->first, s->second, {}, s->steps, 0.01, 0.9, 0.999, 0.0, 1e-8, false, false);
  }
  EXPECT_TRUE(same_bits(turned.parameters, plain.parameters));
  EXPECT_TRUE(same_bits(turned.first, plain.first));
  const Tensor scale = at::ones({});
  expect_throws([&] { at::_fused_sgd_(plain.parameters, g, {}, 0, 0, 0.1, 0, false, false, true, scale); }, "scaled");
}

TEST(ListForms, GiveTheBitsOfTheSingleForms) {
  at::manual_seed(121);
  const Tensors a{at::randn({5, 7}), at::randn({33})}, b{at::randn({5, 7}), at::randn({33})};
  const aten::OperatorSwitch on;
  const auto same = [&](Tensors lists, const std::function<Tensor(std::size_t)>& single) {
    for (std::size_t i = 0; i < a.size(); ++i) EXPECT_TRUE(same_bits(lists[i], single(i))) << i;
  };
  same(at::_foreach_maximum(a, b), [&](auto i) { return at::maximum(a[i], b[i]); });
  same(at::_foreach_minimum(a, b), [&](auto i) { return at::minimum(a[i], b[i]); });
  same(at::_foreach_clamp_min(a, 0.2), [&](auto i) { return a[i].clamp_min(0.2); });
  same(at::_foreach_lerp(a, b, 0.1), [&](auto i) { return a[i].lerp(b[i], 0.1); });
  same(at::_foreach_pow(a, 2), [&](auto i) { return a[i].pow(2); });
  same({at::clamp(a[0], b[0], b[0].add(1)), a[1]},
       [&](auto i) { return i == 0 ? at::minimum(at::maximum(a[0], b[0]), b[0].add(1)) : a[1]; });
}

}  // namespace
}  // namespace isobit::test
