// The activations of torch.nn beside those of pointwise_test.cpp.
#include "operator_cases.h"

namespace isobit::test {
namespace {

using Forward = std::function<Tensor(const Tensor&)>;

// Not at a bend, where the derivative is a matter of taste.
Tensor input() { return at::randn({6, 10, 7}).mul(2.5); }

TEST(Activations, ValuesGradientsThreadsStridesAndStockBack) {
  at::manual_seed(80);
  const std::pair<const char*, Forward> activations[] = {
      {"elu", [](const Tensor& x) { return at::elu(x, 1.3); }},
      {"selu", [](const Tensor& x) { return at::selu(x); }},
      {"celu", [](const Tensor& x) { return at::celu(x, 0.7); }},
      {"mish", [](const Tensor& x) { return at::mish(x); }},
      {"softplus", [](const Tensor& x) { return at::softplus(x); }},
      {"softplus with parameters", [](const Tensor& x) { return at::softplus(x, 2.0, 1.0); }},
      {"hardswish", [](const Tensor& x) { return at::hardswish(x); }},
      {"hardsigmoid", [](const Tensor& x) { return at::hardsigmoid(x); }},
      {"softshrink", [](const Tensor& x) { return at::softshrink(x, 0.4); }},
      {"hardshrink", [](const Tensor& x) { return at::hardshrink(x, 0.6); }},
      {"log sigmoid", [](const Tensor& x) { return at::log_sigmoid(x); }},
      {"glu", [](const Tensor& x) { return at::glu(x, 1); }},
      {"rrelu in evaluation", [](const Tensor& x) { return at::rrelu(x, 0.1, 0.3, false); }},
      {"softsign", [](const Tensor& x) { return x / (x.abs() + 1); }},
      {"tanhshrink", [](const Tensor& x) { return x - x.tanh(); }},
      {"softmin", [](const Tensor& x) { return (-x).softmax(2); }},
  };
  for (const auto& [name, forward] : activations) {
    check({name, {input()}, [f = forward](const Tensors& t) { return f(t[0]); }});
  }
  check({"prelu", {input(), at::rand({10})}, [](const Tensors& t) { return at::prelu(t[0], t[1]); }});
  check({"prelu with one slope", {input(), at::rand({1})}, [](const Tensors& t) { return at::prelu(t[0], t[1]); }});
  check({"xlogy", {at::rand({40}), at::rand({40}).add(0.1)}, [](const Tensors& t) { return at::xlogy(t[0], t[1]); }});
}

// In place: the gradient comes from the result.
TEST(Activations, InPlaceValuesAndGradients) {
  at::manual_seed(81);
  const std::pair<const char*, Forward> activations[] = {
      {"elu_",
       [](const Tensor& x) {
         Tensor y = x.mul(1.0);
         return at::elu_(y, 1.3);
       }},
      {"selu_",
       [](const Tensor& x) {
         Tensor y = x.mul(1.0);
         return at::selu_(y);
       }},
      {"celu_",
       [](const Tensor& x) {
         Tensor y = x.mul(1.0);
         return at::celu_(y, 0.7);
       }},
      {"mish_",
       [](const Tensor& x) {
         Tensor y = x.mul(1.0);
         return at::mish_(y);
       }},
      {"hardswish_",
       [](const Tensor& x) {
         Tensor y = x.mul(1.0);
         return at::hardswish_(y);
       }},
      {"hardsigmoid_",
       [](const Tensor& x) {
         Tensor y = x.mul(1.0);
         return at::hardsigmoid_(y);
       }},
  };
  for (const auto& [name, forward] : activations) {
    check({name, {input()}, [f = forward](const Tensors& t) { return f(t[0]); }});
  }
}

TEST(Activations, RandomSlopesComeFromTheGeneratorAndCarryTheGradient) {
  const Tensor x = at::tensor({-2.0f, 3.0f, -0.5f, 0.0f, -1.0f}).requires_grad_();
  const aten::OperatorSwitch on;
  at::manual_seed(5);
  Tensor noise = at::empty_like(x), y = at::rrelu_with_noise(x, noise, 0.1, 0.3, true);
  at::manual_seed(5);
  const Tensor drawn = at::empty({5}).uniform_(0.1, 0.3);
  EXPECT_TRUE(same_bits(noise, at::where(x.detach().gt(0), at::ones({5}), drawn)));
  EXPECT_TRUE(same_bits(y, at::where(x.detach().gt(0), x.detach(), noise * x.detach())));
  y.sum().backward();
  EXPECT_TRUE(same_bits(x.grad(), noise));
}

TEST(Activations, OutGivesTheSame) {
  at::manual_seed(82);
  const Tensor x = input();
  Tensor out = at::empty({0});
  const aten::OperatorSwitch on;
  EXPECT_TRUE(same_bits(at::mish_out(out, x), at::mish(x)));
  EXPECT_TRUE(same_bits(at::elu_out(out, x), at::elu(x)));
  EXPECT_TRUE(same_bits(at::softplus_out(out, x), at::softplus(x)));
  EXPECT_TRUE(same_bits(at::softshrink_out(out, x), at::softshrink(x)));
  EXPECT_TRUE(same_bits(at::hardswish_out(out, x), at::hardswish(x)));
  EXPECT_TRUE(same_bits(at::xlogy_out(out, x, x), at::xlogy(x, x)));
  Tensor half = at::empty({0});
  EXPECT_TRUE(same_bits(at::glu_out(half, x, 1), at::glu(x, 1)));
  expect_throws([&] { at::mish(x.to(at::kComplexFloat)); }, "ComplexFloat");
}

// Rows are read where they lie; the same elements in another order of memory take the operators one after the other.
TEST(Activations, GluAndPreluByRowsAndByOperators) {
  at::manual_seed(83);
  const Tensor few = at::tensor({0.0f, -0.0f, 1e-45f, -1e-40f, 3e38f, -3e38f, static_cast<float>(INFINITY),
                                 -static_cast<float>(INFINITY), static_cast<float>(NAN), -200.0f, 100.0f});
  const aten::OperatorSwitch on;
  for (const at::DimVector& sizes : {at::DimVector{3, 10, 130}, {1, 2, 5000}, {2, 300, 4}, {70, 66, 1}, {0, 4, 80}}) {
    Tensor x = at::randn(sizes).mul(3);
    if (x.numel() > 0) x.view(-1).narrow(0, 1, few.numel()).copy_(few);
    for (const int threads : {1, 3}) {
      const kernels::ThreadCountScope scope(threads);
      for (const std::int64_t dim : {1, 2}) {
        if (sizes[dim] % 2 != 0) continue;
        const Tensor y = at::glu(x, dim), dy = at::randn_like(y);
        EXPECT_TRUE(same_bits(y, at::glu(scattered(x), dim))) << x.sizes() << ", dim " << dim;
        EXPECT_TRUE(same_bits(at::glu_backward(dy, x, dim), at::glu_backward(dy, scattered(x), dim))) << x.sizes();
      }
      for (const Tensor& slope : {at::full({1}, -0.25f), at::rand({1, sizes[1], 1}), at::rand({sizes[1], 1})}) {
        const Tensor dy = at::randn_like(x);
        EXPECT_TRUE(same_bits(at::_prelu_kernel(x, slope), at::_prelu_kernel(scattered(x), slope))) << x.sizes();
        const auto [dx, dslope] = at::_prelu_kernel_backward(dy, x, slope);
        const auto [dx2, dslope2] = at::_prelu_kernel_backward(dy, scattered(x), slope);
        EXPECT_TRUE(same_bits(dx, dx2) && same_bits(dslope, dslope2)) << x.sizes() << slope.sizes();
      }
    }
  }
}

}  // namespace
}  // namespace isobit::test
