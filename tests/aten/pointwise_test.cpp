// Element-wise operators: values, gradients, broadcasting, types, variants, and the kernel's bits.
#include "kernels/pointwise.h"

#include <cmath>
#include <functional>
#include <limits>
#include <string>

#include "call_operator.h"
#include "operator_cases.h"

namespace isobit::test {
namespace {

Tensor positive(at::IntArrayRef sizes) { return at::rand(sizes).add(0.1); }

using UnaryFunction = Tensor (*)(const Tensor&);
Case unary(const std::string& name, UnaryFunction function, const Tensor& x) {
  return {name, {x}, [function](const Tensors& t) { return function(t[0]); }};
}

TEST(Pointwise, FunctionsOfOneTensor) {
  at::manual_seed(20);
  const Tensor x = at::randn({37, 53}), p = positive({37, 53});
  const Case cases[] = {
      unary("exp", &at::exp, x),
      unary("expm1", &at::expm1, x),
      unary("log", &at::log, p),
      unary("log1p", &at::log1p, p),
      unary("tanh", &at::tanh, x),
      unary("sigmoid", &at::sigmoid, x),
      unary("erf", &at::erf, x),
      unary("sin", &at::sin, x),
      unary("cos", &at::cos, x),
      unary("rsqrt", &at::rsqrt, p),
      unary("sqrt", &at::sqrt, p),
      unary("reciprocal", &at::reciprocal, p),
      unary("silu", &at::silu, x),
      unary("relu", &at::relu, x),
      unary("square", &at::square, x),
      unary("exp of one number", &at::exp, at::randn({})),
      unary("exp of nothing", &at::exp, at::randn({0, 3})),
      {"gelu", {x}, [](const Tensors& t) { return at::gelu(t[0]); }},
      {"gelu by tanh", {x}, [](const Tensors& t) { return at::gelu(t[0], "tanh"); }},
      {"leaky_relu", {x}, [](const Tensors& t) { return at::leaky_relu(t[0], 0.2); }},
      {"clamp", {x}, [](const Tensors& t) { return at::clamp(t[0], -0.5, 0.7); }},
      {"clamp_min", {x}, [](const Tensors& t) { return at::clamp_min(t[0], 0.1); }},
      {"pow 3", {x}, [](const Tensors& t) { return at::pow(t[0], 3); }},
      {"pow -2", {p}, [](const Tensors& t) { return at::pow(t[0], -2); }},
      {"pow 1.5", {p}, [](const Tensors& t) { return at::pow(t[0], 1.5); }},
      {"pow 0.3", {p}, [](const Tensors& t) { return at::pow(t[0], 0.3); }},
      {"pow -2.7", {p}, [](const Tensors& t) { return at::pow(t[0], -2.7); }},
      {"hardtanh", {x}, [](const Tensors& t) { return at::hardtanh(t[0], -1, 1); }},
  };
  for (const Case& c : cases) check(c);
}

TEST(Pointwise, FunctionsOfSeveralTensors) {
  at::manual_seed(21);
  const Tensor a = at::randn({19, 23}), b = at::randn({19, 23}), row = at::randn({23}), q = positive({19, 1});
  const Case cases[] = {
      {"add alpha", {a, b}, [](const Tensors& t) { return at::add(t[0], t[1], 0.3); }},
      {"add plain, broadcast", {a, row}, [](const Tensors& t) { return at::add(t[0], t[1]); }},
      {"sub alpha, broadcast", {a, row}, [](const Tensors& t) { return at::sub(t[0], t[1], 1.7); }},
      {"rsub", {a, b}, [](const Tensors& t) { return at::rsub(t[0], t[1], 2.5); }},
      {"addcmul", {a, b, q}, [](const Tensors& t) { return at::addcmul(t[0], t[1], t[2], 0.7); }},
      {"addcdiv", {a, b, q}, [](const Tensors& t) { return at::addcdiv(t[0], t[1], t[2], -0.7); }},
      {"lerp 0.1", {a, b}, [](const Tensors& t) { return at::lerp(t[0], t[1], 0.1); }},
      {"lerp 0.9", {a, row}, [](const Tensors& t) { return at::lerp(t[0], t[1], 0.9); }},
      {"pow of tensors, broadcast", {q, row}, [](const Tensors& t) { return at::pow(t[0], t[1]); }},
      {"maximum", {a, b}, [](const Tensors& t) { return at::maximum(t[0], t[1]); }},
      {"minimum, broadcast", {a, row}, [](const Tensors& t) { return at::minimum(t[0], t[1]); }},
  };
  for (const Case& c : cases) check(c);
}

TEST(Pointwise, HasTheBitsOfTheKernel) {
  at::manual_seed(22);
  const Tensor a = at::randn({1000}), b = at::randn({1000}), c = positive({1000});
  Tensor y = at::empty({1000});
  const float *p = a.data_ptr<float>(), *q = b.data_ptr<float>(), *r = c.data_ptr<float>();
  float* out = y.data_ptr<float>();
  const aten::OperatorSwitch on;
  kernels::unary(kernels::Unary::exp, p, out, 1000);
  EXPECT_TRUE(same_bits(at::exp(a), y));
  kernels::unary(kernels::Unary::gelu, p, out, 1000);
  EXPECT_TRUE(same_bits(at::gelu(a), y));
  kernels::add_scaled(p, q, 0.3f, out, 1000);
  EXPECT_TRUE(same_bits(at::add(a, b, 0.3), y));
  kernels::add_scaled(p, q, -0.3f, out, 1000);
  EXPECT_TRUE(same_bits(at::sub(a, b, 0.3), y));
  kernels::addcdiv(p, q, r, -0.1f, out, 1000);
  EXPECT_TRUE(same_bits(at::addcdiv(a, b, c, -0.1), y));
  kernels::addcmul(p, q, r, -0.1f, out, 1000);
  EXPECT_TRUE(same_bits(at::addcmul(a, b, c, -0.1), y));
  kernels::general_power(r, q, out, 1000);
  EXPECT_TRUE(same_bits(at::pow(c, b), y));
  kernels::general_power(r, 0.3f, out, 1000);
  EXPECT_TRUE(same_bits(at::pow(c, 0.3), y));
  EXPECT_TRUE(kernels::power(r, 3.0, out, 1000));
  EXPECT_TRUE(same_bits(at::pow(c, 3), y));
  EXPECT_FALSE(same_bits(at::pow(c, at::full({1000}, 3.0f)), y))
      << "an integer as a number is a product, in a tensor it is not";
  kernels::lerp(p, q, 0.1f, out, 1000);
  EXPECT_TRUE(same_bits(at::lerp(a, b, 0.1), y));
  for (std::int64_t i = 0; i < 1000; ++i) out[i] = std::fma(0.3f, q[i], p[i]);  // the contract's sentence
  EXPECT_TRUE(same_bits(at::add(a, b, 0.3), y));
  for (std::int64_t i = 0; i < 1000; ++i) out[i] = p[i] + 0.3f * q[i];
  EXPECT_FALSE(same_bits(at::add(a, b, 0.3), y)) << "two roundings would go unnoticed";
}

// Each functional operator, its in-place form on a copy and its out= form give the same bits.
struct Variants {
  std::string functional, in_place, out;
  Values arguments;  // the first is self
};

TEST(Pointwise, InPlaceAndOutGiveTheSame) {
  at::manual_seed(23);
  const Tensor a = at::randn({6, 7}), b = at::randn({6, 7}), c = positive({6, 7});
  std::vector<Variants> all = {
      {"aten::add.Tensor", "aten::add_.Tensor", "aten::add.out", {a, b, 0.3}},
      {"aten::sub.Tensor", "aten::sub_.Tensor", "aten::sub.out", {a, b, 0.3}},
      {"aten::addcmul", "aten::addcmul_", "aten::addcmul.out", {a, b, c, 0.3}},
      {"aten::addcdiv", "aten::addcdiv_", "aten::addcdiv.out", {a, b, c, 0.3}},
      {"aten::lerp.Scalar", "aten::lerp_.Scalar", "aten::lerp.Scalar_out", {a, b, 0.3}},
      {"aten::maximum", "", "aten::maximum.out", {a, b}},
      {"aten::minimum", "", "aten::minimum.out", {a, b}},
      {"aten::relu", "aten::relu_", "", {a}},
      {"aten::gelu", "aten::gelu_", "aten::gelu.out", {a, "none"}},
      {"aten::gelu", "aten::gelu_", "aten::gelu.out", {a, "tanh"}},
      {"aten::leaky_relu", "aten::leaky_relu_", "aten::leaky_relu.out", {a, 0.1}},
      {"aten::pow.Tensor_Scalar", "aten::pow_.Scalar", "aten::pow.Tensor_Scalar_out", {a, 3}},
      {"aten::pow.Tensor_Scalar", "aten::pow_.Scalar", "aten::pow.Tensor_Scalar_out", {c, 0.3}},
      {"aten::pow.Tensor_Tensor", "aten::pow_.Tensor", "aten::pow.Tensor_Tensor_out", {c, b}},
      {"aten::clamp", "aten::clamp_", "aten::clamp.out", {a, -0.1, 0.4}},
      {"aten::clamp_min", "aten::clamp_min_", "aten::clamp_min.out", {a, 0.1}},
      {"aten::clamp_max", "aten::clamp_max_", "aten::clamp_max.out", {a, 0.1}},
      {"aten::sigmoid_backward", "", "aten::sigmoid_backward.grad_input", {a, c}},
      {"aten::tanh_backward", "", "aten::tanh_backward.grad_input", {a, c}},
      {"aten::silu_backward", "", "aten::silu_backward.grad_input", {a, c}},
      {"aten::gelu_backward", "", "aten::gelu_backward.grad_input", {a, c, "none"}},
      {"aten::gelu_backward", "", "aten::gelu_backward.grad_input", {a, c, "tanh"}},
      {"aten::threshold_backward", "", "aten::threshold_backward.grad_input", {a, b, 0}},
      {"aten::leaky_relu_backward", "", "aten::leaky_relu_backward.grad_input", {a, b, 0.1, false}},
  };
  for (const char* name : {"exp", "expm1", "log", "log1p", "tanh", "sigmoid", "erf", "sin", "cos", "rsqrt",
                           "reciprocal", "sqrt", "silu"}) {
    const std::string full = std::string("aten::") + name;
    all.push_back({full, full + "_", full + ".out", {c}});
  }
  const aten::OperatorSwitch on;
  for (const Variants& v : all) {
    SCOPED_TRACE(v.functional);
    const Tensor expected = call_operator(v.functional, v.arguments)[0].toTensor();
    if (!v.in_place.empty()) {
      for (Tensor self : {v.arguments[0].toTensor().clone(), scattered(v.arguments[0].toTensor())}) {
        Values arguments = v.arguments;
        arguments[0] = self;
        call_operator(v.in_place, arguments);
        EXPECT_TRUE(same_bits(self, expected)) << v.in_place << self.strides();
      }
    }
    if (v.out.empty()) continue;
    const std::string out_name = find_operator(v.out).schema().arguments().back().name();
    for (Tensor out : {at::empty({6, 7}), at::empty({0}), scattered(a)}) {
      call_operator(v.out, v.arguments, {{out_name, out}});
      EXPECT_TRUE(same_bits(out, expected)) << v.out << out.strides();
    }
  }
}

TEST(Pointwise, AnOutputMayOverlapAnInput) {
  at::manual_seed(24);
  const Tensor whole = at::randn({33}), other = at::randn({32});
  const aten::OperatorSwitch on;
  const Tensor expected = at::add(whole.narrow(0, 0, 32), other, 0.3);
  Tensor memory = whole.clone();
  Tensor shifted = memory.narrow(0, 1, 32);
  at::add_out(shifted, memory.narrow(0, 0, 32), other, 0.3);
  EXPECT_TRUE(same_bits(shifted, expected));
  Tensor twice = at::zeros({1}).expand({4});
  expect_throws([&] { at::exp_out(twice, at::ones({4})); }, "single memory location");
}

TEST(Pointwise, DenseOrdersOfMemoryAreKept) {
  at::manual_seed(25);
  const Tensor x = at::randn({2, 3, 4, 5}), last = x.contiguous(at::MemoryFormat::ChannelsLast);
  const aten::OperatorSwitch on;
  EXPECT_TRUE(at::exp(last).is_contiguous(at::MemoryFormat::ChannelsLast));
  EXPECT_TRUE(same_bits(at::exp(last), at::exp(x)));
  EXPECT_TRUE(same_bits(at::lerp(last, x, 0.2), at::lerp(x, x, 0.2)));
}

TEST(Pointwise, ZerosAndNaN) {
  const float inf = std::numeric_limits<float>::infinity(), nan = std::nanf("");
  const Tensor x = at::tensor({-0.0f, 0.0f, nan, -inf, inf, -1e-45f});
  const aten::OperatorSwitch on;
  EXPECT_TRUE(same_bits(at::relu(x), at::tensor({-0.0f, 0.0f, nan, 0.0f, inf, 0.0f})));
  EXPECT_TRUE(same_bits(at::maximum(x, at::zeros({6})), at::tensor({0.0f, 0.0f, nan, 0.0f, inf, 0.0f})));
  EXPECT_TRUE(same_bits(at::maximum(at::zeros({6}), x), at::maximum(x, at::zeros({6}))));
  EXPECT_TRUE(same_bits(at::minimum(at::neg(at::zeros({6})), x), at::tensor({0.0f, 0.0f, nan, -inf, 0.0f, -1e-45f})));
  EXPECT_TRUE(same_bits(at::clamp(x, -1, 1), at::tensor({-0.0f, 0.0f, nan, -1.0f, 1.0f, -1e-45f})));
  const Tensor nans = at::full({37}, nan);
  EXPECT_TRUE(same_bits(at::hardtanh_backward(nans.isnan().to(at::kFloat), nans, -1, 1), at::ones({37})));
  EXPECT_TRUE(same_bits(at::clamp(x, 2, 1).narrow(0, 3, 3), at::ones({3})));
}

TEST(Pointwise, TypesPromoteOrAreRefused) {
  const Tensor i = at::arange(5), f = at::arange(5).to(at::kFloat), d = f.to(at::kDouble);
  const Tensor sum = at::add(i, i, 3), top = at::clamp(i, 1, 3), plain = at::add(d, d), powers = at::pow(i, i);
  Tensor narrow = at::empty({0});
  const aten::OperatorSwitch on;
  EXPECT_TRUE(same_bits(at::add(i, i, 3), sum));
  EXPECT_TRUE(same_bits(at::clamp(i, 1, 3), top));
  EXPECT_TRUE(same_bits(at::add(d, d), plain)) << "one IEEE addition is exact in every type";
  EXPECT_TRUE(same_bits(at::exp(i), at::exp(f)));
  EXPECT_TRUE(same_bits(at::add(f, i, 0.3), at::add(f, f, 0.3)));
  EXPECT_TRUE(same_bits(at::maximum(f, at::scalar_tensor(2.0, at::kDouble)), at::clamp_min(f, 2)));
  EXPECT_EQ(at::exp(d).scalar_type(), at::kDouble);
  EXPECT_TRUE(same_bits(at::add(f, d, 0.3), at::add(d, d, 0.3))) << "float32 beside float64 becomes float64";
  EXPECT_TRUE(same_bits(at::add_out(narrow, d, d, 0.3), at::add(d, d, 0.3).to(at::kFloat))) << "rounded once";
  expect_throws([&] { at::exp(f.to(at::kComplexFloat)); }, "ComplexFloat");
  expect_throws([&] { at::lgamma(d); }, "float32 only, got Double");
  expect_throws([&] { at::gelu(f, "erf"); }, "'none' or 'tanh'");
  EXPECT_EQ(at::pow(d, 1.3).scalar_type(), at::kDouble);
  EXPECT_TRUE(same_bits(at::pow(i, i), powers));
  EXPECT_TRUE(same_bits(at::pow(i, f), at::pow(f, f)));
  EXPECT_TRUE(same_bits(at::pow(i, 1.3), at::pow(f, 1.3)));
  Tensor small = at::ones({1});
  expect_throws([&] { small.lerp_(at::ones({5}), 0.1); }, "cannot write");
}

// What the contract has no formula for says so, and names a way out.
TEST(Pointwise, FunctionsWithoutAFormulaAreRefused) {
  const Tensor x = positive({3});
  const aten::OperatorSwitch on;
  const auto refused = [](const char* name, const std::function<void()>& call) {
    expect_throws(call, (std::string(name) + " is not certified under isobit-").c_str());
    expect_throws(call, "\n  do     ");
  };
  refused("aten::special_bessel_j0", [&] { at::special_bessel_j0(x); });
  refused("aten::special_airy_ai", [&] { at::special_airy_ai(x); });
  refused("aten::special_scaled_modified_bessel_k0", [&] { at::special_scaled_modified_bessel_k0(x); });
  expect_throws([&] { at::special_airy_ai(x); }, "run this part outside isobit");
}

}  // namespace
}  // namespace isobit::test
