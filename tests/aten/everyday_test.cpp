// What people do with tensors beside computing goes on working while the switch is on.
#include <functional>
#include <map>
#include <sstream>
#include <string>

#include <gtest/gtest.h>

#include <ATen/ATen.h>
#include <torch/csrc/jit/serialization/pickle.h>

#include "aten/operator_switch.h"

namespace isobit::aten {
namespace {

using at::indexing::None;
using at::indexing::Slice;

const std::map<std::string, std::function<void()>>& everyday() {
  static const at::Tensor x = at::arange(24, at::kFloat).reshape({2, 3, 4});
  static const at::Tensor ints = at::arange(6);
  static const at::Tensor mask = x > 5;
  static const std::map<std::string, std::function<void()>> table = {
      {"print float", [] { std::ostringstream() << x / 7; }},
      {"print int", [] { std::ostringstream() << ints; }},
      {"print bool", [] { std::ostringstream() << mask; }},
      {"print double", [] { std::ostringstream() << x.to(at::kDouble); }},
      {"save and load",
       [] {
         const auto bytes = torch::jit::pickle_save(x);
         ASSERT_TRUE(at::equal(torch::jit::pickle_load(bytes).toTensor(), x));
       }},
      {"index",
       [] {
         x.index({0, Slice(1, None), None});
       }},
      {"index by mask", [] { x.index({mask}); }},
      {"index by tensor",
       [] {
         ints.index({at::tensor({3, 1, 1})});
       }},
      {"index write",
       [] {
         x.clone().index_put_({0, Slice(0, 2)}, 1.5);
       }},
      {"mask write", [] { x.clone().index_put_({mask}, 0); }},
      {"masked_fill", [] { x.masked_fill(mask, -1); }},
      {"masked_select", [] { x.masked_select(mask); }},
      {"where", [] { at::where(mask, x, at::zeros_like(x)); }},
      {"sort", [] { at::sort(ints, 0, true); }},
      {"argsort", [] { at::argsort(x, std::int64_t{1}); }},
      {"topk by sort", [] { std::get<0>(at::sort(x, -1, true)).narrow(-1, 0, 2); }},
      {"unique", [] { at::_unique2(ints.remainder(3)); }},
      {"bincount", [] { at::bincount(ints); }},
      {"nonzero", [] { at::nonzero(mask); }},
      {"cat stack split",
       [] {
         at::stack(at::split(at::cat({x, x}), 2));
       }},
      {"chunk unbind", [] { at::chunk(x, 2, 2)[0].unbind(0); }},
      {"permute view",
       [] {
         x.permute({2, 0, 1}).contiguous().view({4, 6}).t();
       }},
      {"flip roll", [] { at::roll(at::flip(x, {0}), 1, 2); }},
      {"pad",
       [] {
         at::constant_pad_nd(x, {1, 1, 2, 0}, 0.5);
       }},
      {"tril triu", [] { at::triu(at::tril(x)); }},
      {"gather",
       [] {
         at::gather(x, 2, at::zeros({2, 3, 1}, at::kLong));
       }},
      {"scatter",
       [] {
         at::scatter(x, 2, at::zeros({2, 3, 1}, at::kLong), 9.0);
       }},
      {"one hot", [] { at::one_hot(ints, 6); }},
      {"factories",
       [] {
         at::eye(3);
         at::full({2}, 3.5);
         at::ones({2}, at::kInt);
         at::arange(0, 10, 2);
       }},
      {"convert", [] { x.to(at::kDouble).to(at::kFloat).to(at::kLong).to(at::kBool).to(at::kFloat); }},
      {"half copies", [] { x.to(at::kHalf).to(at::kFloat); }},
      {"byte image to float",
       [] {
         at::ones({4, 4}, at::kByte).to(at::kFloat).div(255).sub(0.5).div(0.25);
       }},
      {"integers", [] { (ints * 3 + 1).floor_divide(2).remainder(3).sum().item<std::int64_t>(); }},
      {"integer sums",
       [] {
         ints.cumsum(0);
         ints.prod();
         ints.max();
         mask.sum();
       }},
      {"accuracy",
       [] {
         (x.argmax(2) == at::zeros({2, 3}, at::kLong)).sum().item<std::int64_t>();
       }},
      {"checks",
       [] {
         at::isnan(x).any();
         at::isfinite(x).all();
         at::isinf(x).any();
         at::equal(x, x);
       }},
      {"allclose", [] { at::allclose(x, x); }},
      {"compare", [] { (x < 3).logical_or(x >= 5).logical_not(); }},
      {"item",
       [] {
         x.index({0, 0, 0}).item<float>();
       }},
      {"repeat expand",
       [] {
         x.repeat({1, 2, 1}).expand({2, 6, 4});
       }},
      {"clone detach", [] { x.clone().detach().requires_grad_(true); }},
      {"set data",
       [] {
         at::Tensor y = x.clone();
         y.set_data(x);
       }},
      {"loss and step",
       [] {
         at::Tensor w = at::full({4, 4}, 0.5).requires_grad_(true);
         at::cross_entropy_loss(at::relu(x.view({6, 4}).matmul(w)), at::zeros({6}, at::kLong)).backward();
         const at::NoGradGuard no_grad;
         w.add_(w.grad(), -0.1);
         w.grad().zero_();
       }},
      {"clip gradient norm",
       [] {
         const at::Tensor norm = at::linalg_vector_norm(x);
         x.clone().mul_(at::clamp(norm.add(1e-6).reciprocal() * 2, std::nullopt, 1.0));
       }},
      {"foreach optimizer",
       [] {
         std::vector<at::Tensor> weights = {x.clone(), x.clone()}, gradients = {x, x};
         at::_foreach_mul_(weights, 0.9);
         at::_foreach_add_(weights, gradients, -0.1);
         at::_foreach_sqrt(weights);
         at::_foreach_addcdiv_(weights, gradients, gradients, 0.5);
       }},
  };
  return table;
}

TEST(Everyday, GoesOnWorkingUnderTheSwitch) {
  everyday();  // its tensors exist before
  const OperatorSwitch on;
  for (const auto& [name, use] : everyday()) {
    EXPECT_NO_THROW(use()) << name;
  }
}

}  // namespace
}  // namespace isobit::aten
