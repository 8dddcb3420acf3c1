// Softmax, log-softmax and the losses built on them.
#include "kernels/softmax.h"
#include "operator_cases.h"

namespace isobit::test {
namespace {

Tensor classes(std::int64_t n, std::int64_t k) { return at::arange(n).mul(7).remainder(k); }

TEST(Softmax, ValuesGradientsThreadsStridesAndStockBack) {
  at::manual_seed(60);
  const Tensor x = at::randn({9, 40, 5}), wide = at::randn({4, 1300});
  const Case cases[] = {
      {"softmax last", {wide}, [](const Tensors& t) { return at::softmax(t[0], -1); }},
      {"softmax middle", {x}, [](const Tensors& t) { return at::softmax(t[0], 1); }},
      {"softmax of a number", {at::randn({})}, [](const Tensors& t) { return at::softmax(t[0], 0); }},
      {"softmax of nothing", {at::randn({0, 5})}, [](const Tensors& t) { return at::softmax(t[0], 1); }},
      {"log-softmax last", {wide}, [](const Tensors& t) { return at::log_softmax(t[0], -1); }},
      {"log-softmax first", {x}, [](const Tensors& t) { return at::log_softmax(t[0], 0); }},
  };
  for (const Case& c : cases) check(c);
}

TEST(Softmax, HasTheBitsOfTheKernelAndOutGivesTheSame) {
  at::manual_seed(61);
  const Tensor x = at::randn({8, 33});
  Tensor y = at::empty_like(x), out = at::empty({0});
  kernels::softmax({8, 33, 1}, x.data_ptr<float>(), y.data_ptr<float>());
  const aten::OperatorSwitch on;
  EXPECT_TRUE(same_bits(at::_softmax(x, 1, false), y));
  EXPECT_TRUE(same_bits(at::_softmax_out(out, x, 1, false), y));
  Tensor same = x.clone();
  EXPECT_TRUE(same_bits(at::_softmax_out(same, same, 1, false), y));
  const Tensor gradient = at::_softmax_backward_data(x, y, 1, at::kFloat);
  Tensor dx = at::empty({0});
  EXPECT_TRUE(same_bits(at::_softmax_backward_data_out(dx, x, y, 1, at::kFloat), gradient));
  EXPECT_TRUE(same_bits(at::softmax(x, 1, at::kDouble), at::softmax(x.to(at::kDouble), 1)));
  expect_throws([&] { at::softmax(x, 1, at::kComplexFloat); }, "ComplexFloat");
}

Case cross_entropy(const std::string& name, const Tensor& target, std::int64_t reduction, bool weights,
                   double smoothing) {
  const Tensor x = at::randn({30, 10}), w = at::rand({10}).add(0.5);
  return {name, {x}, [=](const Tensors& t) {
            const std::optional<Tensor> weight = weights ? std::optional<Tensor>(w.to(t[0].options())) : std::nullopt;
            return at::cross_entropy_loss(t[0], target.to(t[0].device()), weight, reduction, -100, smoothing);
          }};
}

TEST(CrossEntropy, ValuesGradientsThreadsStridesAndStockBack) {
  at::manual_seed(62);
  const Tensor target = classes(30, 10);
  Tensor some = target.clone();
  some.slice(0, 0, 30, 4).fill_(-100);
  const Case cases[] = {
      cross_entropy("mean", target, at::Reduction::Mean, false, 0),
      cross_entropy("sum", target, at::Reduction::Sum, false, 0),
      cross_entropy("none", target, at::Reduction::None, false, 0),
      cross_entropy("weights", target, at::Reduction::Mean, true, 0),
      cross_entropy("ignored rows", some, at::Reduction::Mean, true, 0),
      cross_entropy("smoothing", target, at::Reduction::Mean, false, 0.1),
      cross_entropy("smoothing, weights, ignored rows", some, at::Reduction::Mean, true, 0.1),
      {"probabilities",
       {at::randn({30, 10}), at::rand({30, 10})},
       [](const Tensors& t) { return at::cross_entropy_loss(t[0], t[1]); }},
      {"one row",
       {at::randn({10})},
       [](const Tensors& t) {
         return at::cross_entropy_loss(t[0], at::scalar_tensor(3, t[0].options().dtype(at::kLong)));
       }},
  };
  for (const Case& c : cases) check(c);
}

TEST(MeanSquaredError, ValuesGradientsThreadsStridesAndStockBack) {
  at::manual_seed(63);
  for (const std::int64_t reduction : {at::Reduction::None, at::Reduction::Mean, at::Reduction::Sum}) {
    check({"mse " + std::to_string(reduction), {at::randn({30, 7}), at::randn({30, 7})}, [=](const Tensors& t) {
             return at::mse_loss(t[0], t[1], reduction);
           }});
  }
}

TEST(CrossEntropy, TargetsOutOfRangeAreNamed) {
  const Tensor x = at::zeros({3, 4}), target = at::tensor({0, 4, 1}, at::kLong);
  const aten::OperatorSwitch on;
  expect_throws([&] { at::cross_entropy_loss(x, target); }, "target 4 of row 1");
}

}  // namespace
}  // namespace isobit::test
