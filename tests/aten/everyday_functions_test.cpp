// Functions by binary64 formulas, remainders, sequences, products, reductions by index, fractional pooling, bilinear:
// values, gradients, orders, edge values.
#include <ATen/core/dispatch/Dispatcher.h>

#include <limits>
#include <vector>

#include "kernels/wide_functions_list.h"
#include "operator_cases.h"

namespace isobit::test {
namespace {

Tensor number(const Tensor& t, std::int64_t i) { return t.flatten()[i]; }

TEST(EverydayFunctions, OfOneArgument) {
  at::manual_seed(320);
  const Tensor any = at::randn({7, 40, 30}), positive = at::rand({33, 9}) + 0.1, unit = at::rand({33, 9}) * 1.8 - 0.9;
  using One = Tensor (*)(const Tensor&);
  for (const One f : {One{at::sinh}, One{at::cosh}, One{at::atan}, One{at::asinh}, One{at::erfc}, One{at::exp2},
                      One{at::i0}, One{at::special_i0e}, One{at::special_i1}, One{at::special_i1e},
                      One{at::special_erfcx}, One{at::special_log_ndtr}}) {
    check({"any", {any}, [f](const Tensors& t) { return f(t[0]); }});
  }
  check(
      {"sinc", {any}, [](const Tensors& t) { return at::sinc(t[0]); }, 1e-3});  // PyTorch's gradient loses digits at 0
  for (const One f : {One{at::log2}, One{at::log10}, One{at::special_entr}, One{at::lgamma}, One{at::digamma}}) {
    check({"positive", {positive}, [f](const Tensors& t) { return f(t[0]); }});
  }
  for (const One f : {One{at::asin}, One{at::acos}, One{at::atanh}, One{at::tan}, One{at::erfinv}}) {
    check({"unit", {unit}, [f](const Tensors& t) { return f(t[0]); }});
  }
  check({"acosh", {positive + 1.5}, [](const Tensors& t) { return at::acosh(t[0]); }});
  check({"ndtri", {unit * 0.5 + 0.5}, [](const Tensors& t) { return at::special_ndtri(t[0]); }, 1e-4});
  check({"trigamma", {positive}, [](const Tensors& t) { return at::polygamma(1, t[0]); }});
  check({"polygamma", {positive}, [](const Tensors& t) { return at::polygamma(4, t[0]); }});
  check({"zeta", {positive}, [](const Tensors& t) { return at::special_zeta(2.5, t[0]); }});
  check({"igamma", {positive}, [](const Tensors& t) { return at::igamma(t[0].detach() * 3, t[0]); }});
  check({"igammac", {positive}, [](const Tensors& t) { return at::igammac(t[0].detach() * 3, t[0]); }});
  check({"mvlgamma", {positive + 1}, [](const Tensors& t) { return at::mvlgamma(t[0], 3); }});
  check({"logit", {at::rand({50}) * 0.9 + 0.05}, [](const Tensors& t) { return at::logit(t[0], 0.1); }});
}

// Every operator that is a line of wide_functions_list.h and no more: values, bits, and all its overloads.
TEST(EverydayFunctions, EveryLineOfTheList) {
  at::manual_seed(319);
  struct Line {
    const char* name;
    std::string_view overloads;
  };
#define ISOBIT_LINE(name, formula, build, aten, overloads, ...) {"aten::" #aten, #overloads},
  constexpr Line kLines[] = {ISOBIT_WIDE_UNARY(ISOBIT_LINE)};
#undef ISOBIT_LINE
  auto& dispatcher = c10::Dispatcher::singleton();
  const Tensor unit = at::rand({30, 40}) * 0.8 + 0.1;
  for (const Line& line : kLines) {
    if (line.overloads == "by_hand") continue;
    const auto fresh = dispatcher.findSchemaOrThrow(line.name, "").typed<Tensor(const Tensor&)>();
    const Tensor x = fresh.call(unit).isnan().any().item<bool>() ? unit + 1 : unit;
    check({line.name, {x}, [&](const Tensors& t) { return fresh.call(t[0]); }, 1e-5, /*gradients=*/false});
    const aten::OperatorSwitch on;
    const Tensor y = fresh.call(x);
    Tensor out = at::empty({0}), changed = x.clone();
    dispatcher.findSchemaOrThrow(line.name, "out").typed<Tensor&(const Tensor&, Tensor&)>().call(x, out);
    EXPECT_TRUE(same_bits(out, y)) << line.name;
    if (line.overloads != "in_place") continue;
    dispatcher.findSchemaOrThrow((std::string(line.name) + "_").c_str(), "").typed<Tensor&(Tensor&)>().call(changed);
    EXPECT_TRUE(same_bits(changed, y)) << line.name;
  }
}

TEST(EverydayFunctions, OfTwoArguments) {
  at::manual_seed(321);
  const Tensor a = at::randn({8, 300}) * 4, b = at::randn({300}) + 3;
  using Two = Tensor (*)(const Tensor&, const Tensor&);
  for (const Two f : {Two{at::atan2}, Two{at::hypot}, Two{at::logaddexp}, Two{at::logaddexp2}, Two{at::fmax},
                      Two{at::fmin}, Two{at::fmod}, Two{at::remainder}, Two{at::copysign}}) {
    check({"two", {a, b}, [f](const Tensors& t) { return f(t[0], t[1]); }, 1e-4});
  }
  check({"floor", {a, b}, [](const Tensors& t) { return at::floor_divide(t[0], t[1]); }, 0, false});
  check({"trunc", {a, b}, [](const Tensors& t) { return at::div(t[0], t[1], "trunc"); }, 0, false});
  check({"power of a number", {b}, [](const Tensors& t) { return at::pow(1.7, t[0]); }});
}

#ifdef ISOBIT_FAKE_CUDA
TEST(EverydayFunctions, IntegersOnADeviceAreTheCpus) {
  if (!kFakeCuda) GTEST_SKIP();
  const at::Device device(at::kCUDA, 0);
  const Tensor a = at::tensor({-7, 7, -8, 9, 0}), b = at::tensor({2, -2, 4, -4, 3}), none = at::tensor({2, 0, 1, 1, 1});
  const aten::OperatorSwitch on;
  const auto on_device = [&](auto f) { return f(a.to(device), b.to(device)).cpu(); };
  const auto expect = [&](auto f) { EXPECT_TRUE(same_bits(on_device(f), f(a, b))); };
  expect([](const Tensor& x, const Tensor& y) { return at::fmod(x, y); });
  expect([](const Tensor& x, const Tensor& y) { return at::remainder(x, y); });
  expect([](const Tensor& x, const Tensor& y) { return at::floor_divide(x, y); });
  expect([](const Tensor& x, const Tensor& y) { return at::div(x, y, "floor"); });
  expect([](const Tensor& x, const Tensor& y) { return at::div(x, y, "trunc"); });
  expect([](const Tensor& x, const Tensor& y) { return at::fmax(x, y); });
  expect([](const Tensor& x, const Tensor& y) { return at::atan2(x, y); });
  expect([](const Tensor& x, const Tensor&) { return at::remainder(x, 3); });
  expect_throws([&] { (void)at::remainder(a.to(device), none.to(device)); }, "ZeroDivisionError");
  expect_throws([&] { (void)at::div(a.to(device), none.to(device), "trunc"); }, "ZeroDivisionError");
}

// What PyTorch gives in binary64 beside float32: by CPU fallback.
TEST(EverydayFunctions, DoubleSamplesAndWeightsOnADevice) {
  if (!kFakeCuda) GTEST_SKIP();
  const at::Device device(at::kCUDA, 0);
  const aten::OperatorSwitch on;
  const Tensor image = at::randn({1, 2, 9, 9}), samples = at::rand({1, 2, 2}).to(at::kDouble),
               weights = at::rand({7}).to(at::kDouble);
  EXPECT_TRUE(
      same_bits(std::get<0>(at::fractional_max_pool2d(image.to(device), {2, 2}, {5, 5}, samples.to(device))).cpu(),
                std::get<0>(at::fractional_max_pool2d(image, {2, 2}, {5, 5}, samples))));
  const auto drawn = [&](const Tensor& w) {
    at::manual_seed(5);
    return at::multinomial(w, 40, true).cpu();
  };
  EXPECT_TRUE(same_bits(drawn(weights.to(device)), drawn(weights)));
}
#endif

TEST(EverydayFunctions, EdgeValues) {
  const float inf = std::numeric_limits<float>::infinity(), nan = std::numeric_limits<float>::quiet_NaN();
  const Tensor x = at::tensor({nan, inf, -inf, -0.0f});
  const Tensor zeros = at::tensor({0.0f, -0.0f}), many = at::tensor({nan, 1.0f, -0.0f, 0.0f, nan, 1.0f});
  const aten::OperatorSwitch on;
  EXPECT_TRUE(same_bits(at::nan_to_num(x, 2.0), at::tensor({2.0f, 3.4028234664e38f, -3.4028234664e38f, -0.0f})));
  EXPECT_TRUE(same_bits(at::fmax(zeros, zeros.flip(0)), at::tensor({0.0f, 0.0f})));
  EXPECT_TRUE(same_bits(at::remainder(at::tensor({-3.0f, 3.0f, 1.0f}), at::tensor({2.0f, -2.0f, 0.0f})),
                        at::tensor({1.0f, -1.0f, nan})));
  EXPECT_EQ(std::get<0>(at::_unique2(many, true, false, false)).numel(), 4);  // a zero, a one, two NaN
  EXPECT_TRUE(std::signbit(number(std::get<0>(at::_unique2(many, true, false, false)), 0).item<float>()))
      << "the first of equals";
}

TEST(EverydayFunctions, SequencesMeetBothEnds) {
  const Tensor stock = at::linspace(-1.0, 3.0, 1001, at::kDouble);
  const aten::OperatorSwitch on;
  const Tensor line = at::linspace(-1.0, 3.0, 1001);
  EXPECT_TRUE(at::allclose(line, stock.to(at::kFloat), 1e-7, 1e-9));
  EXPECT_EQ(number(line, 1000).item<float>(), 3.0f);
  EXPECT_EQ(number(at::arange(0.0, 1.0, 0.1), 9).item<float>(), 0.9f);
  EXPECT_EQ(number(at::logspace(0, 10, 11, 2.0), 10).item<float>(), 1024.0f);
  EXPECT_EQ(at::arange(5).scalar_type(), at::kLong);
}

TEST(EverydayFunctions, Reductions) {
  at::manual_seed(322);
  const Tensor x = at::rand({6, 50, 5}) + 0.5, index = at::randint(0, 4, {6, 50, 5}, at::kLong);
  const Tensor self = at::rand({6, 4, 5}) + 0.5;
  check({"prod", {x}, [](const Tensors& t) { return at::prod(t[0], 1); }, 1e-4});
  check({"prod of rows",
         {at::rand({3, 700}) * 0.1 + 0.95},
         [](const Tensors& t) { return at::prod(t[0], -1, true); },
         1e-4});
  check({"prod of all", {x.flatten().narrow(0, 0, 60)}, [](const Tensors& t) { return at::prod(t[0]); }, 1e-4});
  check({"prod with zeros",
         {x.narrow(1, 0, 7).sub(0.9).relu()},
         [](const Tensors& t) { return at::prod(t[0], 1); },
         1e-4});
  check({"logcumsumexp", {x}, [](const Tensors& t) { return at::logcumsumexp(t[0], 1); }});
  check({"logcumsumexp of rows", {x}, [](const Tensors& t) { return at::logcumsumexp(t[0], 2); }});
  check({"cummax", {x}, [](const Tensors& t) { return std::get<0>(at::cummax(t[0], 1)); }});
  check({"cummin of rows", {at::randn({3, 70})}, [](const Tensors& t) { return std::get<0>(at::cummin(t[0], 1)); }});
  for (const double order : {1.0, 2.0, 3.0, std::numeric_limits<double>::infinity()}) {
    check(
        {"renorm", {x}, [=](const Tensors& t) { return at::renorm(t[0], order, 1, 0.7); }, 2e-5, /*gradients=*/false});
  }
  check({"norm of order 3", {x}, [](const Tensors& t) { return at::linalg_vector_norm(t[0], 3, at::IntArrayRef{1}); }});
  check({"distances of order 3", {at::randn({9, 5}), at::randn({11, 5})}, [](const Tensors& t) {
           return at::cdist(t[0], t[1], 3);
         }});
  check({"nansum", {x}, [](const Tensors& t) { return at::nansum(t[0], 1); }});
  check({"weight norm", {x, at::rand({6, 1, 1})}, [](const Tensors& t) { return at::_weight_norm(t[0], t[1], 0); }});
  check({"unfold", {x}, [](const Tensors& t) { return t[0].unfold(1, 7, 2); }});
  for (const char* kind : {"sum", "prod", "mean", "amax", "amin"}) {
    for (const bool include_self : {true, false}) {
      check({kind,
             {self, x},
             [=](const Tensors& t) {
               return at::scatter_reduce(t[0], 1, index.to(t[0].device()), t[1], kind, include_self);
             },
             1e-4});
    }
  }
  const Tensor rows = at::randint(0, 4, {50}, at::kLong);
  for (const char* kind : {"prod", "mean", "amax", "amin"}) {
    for (const bool include_self : {true, false}) {
      check({kind,
             {self, x},
             [=](const Tensors& t) {
               return at::index_reduce(t[0], 1, rows.to(t[0].device()), t[1], kind, include_self);
             },
             1e-4});
    }
  }
  const Tensor places = at::randint(-120, 120, {40}, at::kLong);
  for (const bool accumulate : {false, true}) {
    check({"put",
           {self, at::randn({40})},
           [=](const Tensors& t) { return at::put(t[0], places.to(t[0].device()), t[1], accumulate); },
           1e-5});
  }
}

TEST(EverydayFunctions, AScattersSumIsInLeaves) {
  Tensor source = at::full({1024}, 0x1p-25);
  source[0] = 1.0;
  source.narrow(0, 1, 511).zero_();
  const Tensor index = at::zeros({1024}, at::kLong), self = at::zeros({1});
  const aten::OperatorSwitch on;
  EXPECT_EQ(at::scatter_reduce(self, 0, index, source, "sum").item<float>(), 1.0f + 0x1p-16f);
}
// Factors of 1 + 2^-23 and 1 - 2^-24: a chain keeps or loses them by its order.
TEST(EverydayFunctions, AProductIsATreeOfLeaves) {
  at::manual_seed(323);
  const Tensor x = at::rand({1500}) * 0.01 + 0.995;
  float leaf[3], chain = 1;
  for (int k = 0; k < 3; ++k) {
    leaf[k] = 1;
    for (int i = 512 * k; i < std::min(1500, 512 * k + 512); ++i)
      leaf[k] *= number(x, i).item<float>(), chain *= number(x, i).item<float>();
  }
  const aten::OperatorSwitch on;
  EXPECT_EQ(at::prod(x).item<float>(), (leaf[0] * leaf[1]) * leaf[2]);
  EXPECT_NE(chain, (leaf[0] * leaf[1]) * leaf[2]) << "the values do not tell";
}

TEST(EverydayFunctions, FractionalPoolingAndBilinear) {
  at::manual_seed(324);
  const Tensor image = at::randn({2, 3, 20, 23}), body = at::randn({2, 3, 9, 8, 7});
  const Tensor samples = at::rand({2, 3, 2}), samples3 = at::rand({2, 3, 3});
  check({"fractional", {image}, [=](const Tensors& t) {
           return std::get<0>(at::fractional_max_pool2d(t[0], {3, 2}, {7, 9}, samples.to(t[0].options())));
         }});
  check({"fractional, three dimensions", {body}, [=](const Tensors& t) {
           return std::get<0>(at::fractional_max_pool3d(t[0], {2, 3, 2}, {4, 3, 3}, samples3.to(t[0].options())));
         }});
  check({"bilinear",
         {at::randn({12, 6}), at::randn({12, 5}), at::randn({4, 6, 5}), at::randn({4})},
         [](const Tensors& t) { return at::bilinear(t[0], t[1], t[2], t[3]); }});
}

// Few weights are looked at one by one, many by operators: zeros behind them change no draw, only the way.
TEST(EverydayFunctions, DrawsOfFewWeightsAndOfMany) {
  const aten::OperatorSwitch on;
  at::manual_seed(6);
  const Tensor hostile = at::tensor({0.0f, -0.0f, 1e-45f, 0.0f, 3e38f, 2e38f, 0.0f, 1.0f});  // their sum overflows
  const std::vector<Tensor> given = {hostile,
                                     hostile.slice(0, 0, 5),
                                     at::tensor({0.0f, 1e-45f, 1e-40f}),
                                     at::rand({3, 40}).mul(at::rand({3, 40}).gt(0.5)),
                                     at::rand({1, 4000}),
                                     at::ones({7, 1}),
                                     at::rand({5, 6}).t()};
  for (const Tensor& weights : given) {
    for (const std::int64_t count : {1, 9, 5000}) {
      at::DimVector sizes(weights.sizes());
      sizes.back() = 5000;
      const Tensor behind = at::zeros(sizes), many = at::cat({weights, behind}, -1);
      at::manual_seed(static_cast<std::uint64_t>(count));
      const Tensor few = at::multinomial(weights, count, true);
      at::manual_seed(static_cast<std::uint64_t>(count));
      EXPECT_TRUE(few.equal(at::multinomial(many, count, true))) << weights.sizes() << ", " << count;
      EXPECT_TRUE((weights.dim() == 1 ? weights.unsqueeze(0) : weights)
                      .gather(-1, few.view({-1, count}))
                      .gt(0)
                      .all()
                      .item<bool>())
          << weights.sizes();
    }
  }
  for (const float bad : {-1e-45f, std::numeric_limits<float>::infinity(), std::numeric_limits<float>::quiet_NaN()})
    EXPECT_THROW(at::multinomial(at::tensor({1.0f, bad}), 1, true), c10::Error);
  EXPECT_THROW(at::multinomial(at::tensor({0.0f, 1.0f, 0.0f, 0.0f}).view({2, 2}), 1, true),
               c10::Error);  // a row of zeros
  EXPECT_EQ(at::multinomial(at::ones({0, 4}), 2, true).sizes(), (at::IntArrayRef{0, 2}));
}

// Differences are made a piece at a time where there are many: every row has the bits that it has by itself.
TEST(EverydayFunctions, DistancesOfManyRowsAreThoseOfEachRow) {
  at::manual_seed(11);
  const Tensor a = at::randn({2, 150, 40}), b = at::randn({2, 131, 40}), dy = at::randn({2, 150, 131});
  const aten::OperatorSwitch on;
  for (const double p : {0.0, 1.0, 2.0, 3.0, std::numeric_limits<double>::infinity()}) {
    const Tensor all = at::cdist(a, b, p), gradient = at::_cdist_backward(dy, a, b, p, all);
    for (const std::int64_t i : {0, 1, 74, 149}) {
      const Tensor row = a.narrow(1, i, 1), one = at::cdist(row, b, p);
      EXPECT_TRUE(all.narrow(1, i, 1).equal(one)) << p << " " << i;
      EXPECT_TRUE(gradient.narrow(1, i, 1).equal(at::_cdist_backward(dy.narrow(1, i, 1).contiguous(), row, b, p, one)))
          << p << " " << i;
    }
    if (p == 0.0) continue;  // pdist of order 0 has no gradient in torch
    const Tensor x = a.select(0, 0).contiguous(), pairs = at::pdist(x, p);
    for (const std::int64_t j : {1, 75, 149})  // the first row's pairs
      EXPECT_TRUE(pairs.narrow(0, j - 1, 1).equal(at::pdist(at::stack({x[0], x[j]}), p))) << p << " " << j;
  }
}

TEST(EverydayFunctions, Draws) {
  const Tensor weights = at::tensor({0.0f, 1.0f, 3.0f, 0.0f, 6.0f});
  const aten::OperatorSwitch on;
  at::manual_seed(5);
  const Tensor places = at::multinomial(weights, 20000, true), counts = at::bincount(places, {}, 5);
  EXPECT_EQ(number(counts, 0).item<std::int64_t>() + number(counts, 3).item<std::int64_t>(), 0);
  EXPECT_NEAR(number(counts, 2).item<double>() / 20000, 0.3, 0.02);
  const Tensor some = at::multinomial(weights, 3, false);
  EXPECT_TRUE(std::get<0>(at::sort(some)).equal(at::tensor({1, 2, 4}, at::kLong)));
  EXPECT_THROW(at::multinomial(weights, 4, false), c10::Error);
  const Tensor e = at::empty({50000}).exponential_(2.0);
  EXPECT_NEAR(e.mean().item<double>(), 0.5, 0.01);
  EXPECT_GT(e.min().item<float>(), 0.0f);
  EXPECT_NEAR(at::bernoulli(at::full({50000}, 0.3)).mean().item<double>(), 0.3, 0.01);
}

}  // namespace
}  // namespace isobit::test
