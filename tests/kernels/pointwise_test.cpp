// Point-wise operators: vector bits equal the reference's, the reference agrees with binary64, wrong formulas
// show.
#include "kernels/pointwise.h"

#include <functional>

#include "contract/functions.h"
#include "contract/pointwise.h"
#include "kernels/sweep.h"

namespace isobit::kernels::testing {
namespace {

using Floats = std::vector<float>;

constexpr std::int64_t kSizes[] = {0, 1, 2, 7, 8, 9, 15, 16, 17, 31, 33, 257, 8191, 33333};

Floats values(std::int64_t n, unsigned seed) { return hostile_floats(n, seed, true); }

// compute(a, b, c, y, n) under every implementation, out of place and over its first input.
using Operator = std::function<void(const float* a, const float* b, const float* c, float* y, std::int64_t n)>;
void expect_reference_bits_for_all_sizes(const Operator& compute, const std::string& what) {
  for (const std::int64_t n : kSizes) {
    const Floats a = values(n, 1), b = values(n, 2), c = values(n, 3);
    const auto apart = [&] {
      Floats y(static_cast<std::size_t>(n));
      compute(a.data(), b.data(), c.data(), y.data(), n);
      return y;
    };
    const auto in_place = [&] {
      Floats y = a;
      compute(y.data(), b.data(), c.data(), y.data(), n);
      return y;
    };
    expect_reference_bits(apart, what + ", n = " + std::to_string(n));
    EXPECT_TRUE(same_bits(by_reference(in_place), by_reference(apart))) << what << ", in place, n = " << n;
    expect_reference_bits(in_place, what + " in place, n = " + std::to_string(n));
  }
}

TEST(Pointwise, UnaryBits) {
  for (const Unary op : kAllUnary) {
    expect_reference_bits_for_all_sizes(
        [op](const float* a, const float*, const float*, float* y, std::int64_t n) { unary(op, a, y, n); },
        "unary " + std::string(name(op)));
  }
}

TEST(Pointwise, BinaryBits) {
  for (const Binary op : kAllBinary) {
    expect_reference_bits_for_all_sizes(
        [op](const float* a, const float* b, const float*, float* y, std::int64_t n) { binary(op, a, b, y, n); },
        "binary " + std::string(name(op)));
  }
}

TEST(Pointwise, OperatorsWithScalarsBits) {
  const std::pair<const char*, Operator> operators[] = {
      {"add_scaled", [](auto a, auto b, auto, auto y, auto n) { add_scaled(a, b, -0.3f, y, n); }},
      {"addcmul", [](auto a, auto b, auto c, auto y, auto n) { addcmul(a, b, c, 0.7f, y, n); }},
      {"addcdiv", [](auto a, auto b, auto c, auto y, auto n) { addcdiv(a, b, c, -1.3f, y, n); }},
      {"lerp near a", [](auto a, auto b, auto, auto y, auto n) { lerp(a, b, 0.1f, y, n); }},
      {"lerp near b", [](auto a, auto b, auto, auto y, auto n) { lerp(a, b, 0.9f, y, n); }},
      {"clamp", [](auto a, auto, auto, auto y, auto n) { clamp(a, -0.5f, 2.0f, y, n); }},
      {"clamp below",
       [](auto a, auto, auto, auto y, auto n) { clamp(a, -std::numeric_limits<float>::infinity(), 2.0f, y, n); }},
      {"hardtanh_backward", [](auto a, auto b, auto, auto y, auto n) { hardtanh_backward(a, b, -1.0f, 1.0f, y, n); }},
      {"leaky_relu", [](auto a, auto, auto, auto y, auto n) { leaky_relu(a, 0.01f, y, n); }},
      {"leaky_relu_backward", [](auto a, auto b, auto, auto y, auto n) { leaky_relu_backward(a, b, 0.01f, y, n); }},
  };
  for (const auto& [what, compute] : operators) expect_reference_bits_for_all_sizes(compute, what);
  for (const double p : {0.0, 0.5, 1.0, 2.0, 2.5, 3.0, 7.0, 31.5, 32.0, -0.5, -1.0, -2.0, -3.5}) {
    expect_reference_bits_for_all_sizes([p](auto a, auto, auto, auto y, auto n) { EXPECT_TRUE(power(a, p, y, n)); },
                                        "power " + std::to_string(p));
  }
}

// One operator against its binary64 definition on ordinary values; the bound is absolute, in units of 2^-24
// times (1 + |x|) (1 + |dy|): a few roundings of intermediate values of that size.
double largest_difference(const Operator& compute, const std::function<double(double, double)>& exact) {
  constexpr std::int64_t kCount = 20000;
  const Floats a = normal_floats(kCount, 5, 0.0f, 2.0f), b = normal_floats(kCount, 6, 0.0f, 2.0f);
  Floats y(kCount);
  compute(a.data(), b.data(), b.data(), y.data(), kCount);
  double worst = 0.0;
  for (std::int64_t i = 0; i < kCount; ++i) {
    const double scale = (1.0 + std::fabs(a[i])) * (1.0 + std::fabs(b[i])) * 0x1p-24;
    worst = std::max(worst, std::fabs(y[i] - exact(a[i], b[i])) / scale);
  }
  return worst;
}

double normal_cumulative(double x) { return 0.5 * std::erfc(-x * std::sqrt(0.5)); }
double normal_density(double x) { return std::exp(-0.5 * x * x) / std::sqrt(2.0 * M_PI); }
double logistic(double x) { return 1.0 / (1.0 + std::exp(-x)); }
double gelu_tanh_of(double x) {
  return 0.5 * x * (1.0 + std::tanh(std::sqrt(2.0 / M_PI) * (x + 0.044715 * x * x * x)));
}

Operator of(Unary op) {
  return [op](auto a, auto, auto, auto y, auto n) { unary(op, a, y, n); };
}
Operator of(Binary op) {
  return [op](auto a, auto b, auto, auto y, auto n) { binary(op, a, b, y, n); };
}

constexpr double kBound = 4.0;

TEST(Pointwise, ReferenceAgreesWithBinary64) {
  const IsaScope scope(Isa::reference);
  EXPECT_LE(largest_difference(of(Unary::silu), [](double x, double) { return x * logistic(x); }), kBound);
  EXPECT_LE(largest_difference(of(Unary::gelu), [](double x, double) { return x * normal_cumulative(x); }), kBound);
  EXPECT_LE(largest_difference(of(Unary::gelu_tanh), [](double x, double) { return gelu_tanh_of(x); }), kBound);
  EXPECT_LE(largest_difference(of(Binary::sigmoid_backward), [](double d, double y) { return d * y * (1 - y); }),
            2 * kBound);
  EXPECT_LE(largest_difference(of(Binary::tanh_backward), [](double d, double y) { return d * (1 - y * y); }),
            2 * kBound);
  EXPECT_LE(largest_difference(of(Binary::silu_backward),
                               [](double d, double x) { return d * logistic(x) * (1 + x * (1 - logistic(x))); }),
            kBound);
  EXPECT_LE(largest_difference(of(Binary::gelu_backward),
                               [](double d, double x) { return d * (normal_cumulative(x) + x * normal_density(x)); }),
            kBound);
  EXPECT_LE(largest_difference(of(Binary::gelu_tanh_backward),
                               [](double d, double x) {
                                 const double h = 1e-5;
                                 return d * (gelu_tanh_of(x + h) - gelu_tanh_of(x - h)) / (2 * h);
                               }),
            kBound);
  EXPECT_LE(largest_difference([](auto a, auto b, auto, auto y, auto n) { lerp(a, b, 0.3f, y, n); },
                               [](double a, double b) { return a + 0.3f * (b - a); }),
            kBound);
  EXPECT_LE(largest_difference([](auto a, auto b, auto c, auto y, auto n) { addcmul(a, b, c, 0.7f, y, n); },
                               [](double a, double b) { return a + 0.7f * b * b; }),
            2 * kBound);
  EXPECT_LE(largest_difference([](auto a, auto, auto, auto y, auto n) { EXPECT_TRUE(power(a, 3.0, y, n)); },
                               [](double a, double) { return a * a * a; }),
            32 * kBound);
}

TEST(Pointwise,
     AWrongFormulaIsSeen) {  // silu's gradient without the fma's x, gelu's with the density doubled
  EXPECT_GT(largest_difference(of(Binary::silu_backward), [](double d, double x) { return d * logistic(x); }), 1e3);
  EXPECT_GT(
      largest_difference(of(Binary::gelu_backward),
                         [](double d, double x) { return d * (normal_cumulative(x) + x * 2 * normal_density(x)); }),
      1e3);
}

float one(const Operator& compute, float a, float b = 0.0f) {
  float y = 7.0f;
  compute(&a, &b, &b, &y, 1);
  return y;
}

TEST(Pointwise, ZerosAndNaNs) {
  constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();
  constexpr float kInf = std::numeric_limits<float>::infinity();
  for (const Isa isa : available_isas()) {
    const IsaScope scope(isa);
    EXPECT_TRUE(same(one(of(Unary::relu), -0.0f), -0.0f));
    EXPECT_TRUE(same(one(of(Unary::relu), -1.0f), 0.0f));
    EXPECT_TRUE(std::isnan(one(of(Unary::relu), kNaN)));
    EXPECT_TRUE(same(one(of(Binary::maximum), -0.0f, -0.0f), 0.0f));
    EXPECT_TRUE(std::isnan(one(of(Binary::maximum), 1.0f, kNaN)));
    EXPECT_TRUE(std::isnan(one(of(Binary::minimum), kNaN, 1.0f)));
    EXPECT_EQ(one(of(Binary::relu_backward), 3.0f, kNaN), 3.0f);
    EXPECT_TRUE(same(one(of(Binary::relu_backward), -3.0f, 0.0f), 0.0f));
    const Operator limit = [](auto a, auto, auto, auto y, auto n) { clamp(a, 0.0f, 6.0f, y, n); };
    EXPECT_EQ(one(limit, kInf), 6.0f);
    EXPECT_TRUE(same(one(limit, -0.0f), -0.0f));
    EXPECT_TRUE(std::isnan(one(limit, kNaN)));
    const Operator crossed = [](auto a, auto, auto, auto y, auto n) { clamp(a, 5.0f, 2.0f, y, n); };
    EXPECT_EQ(one(crossed, 0.0f), 2.0f);
    EXPECT_EQ(one(crossed, 9.0f), 2.0f);
    EXPECT_EQ(one([](auto a, auto, auto, auto y, auto n) { EXPECT_TRUE(power(a, 0.0, y, n)); }, kNaN), 1.0f);
  }
}

TEST(Pointwise, GeneralPowersBits) {
  expect_reference_bits_for_all_sizes([](auto a, auto b, auto, auto y, auto n) { general_power(a, b, y, n); },
                                      "powers");
  expect_reference_bits_for_all_sizes([](auto a, auto, auto, auto y, auto n) { general_power(a, -1.7f, y, n); },
                                      "power -1.7");
}

TEST(Pointwise, OtherPowersAreDeclined) {
  float x = 2.0f, y = 7.0f;
  for (const double p : {0.3, 33.0, -32.5, 1e300, std::numeric_limits<double>::quiet_NaN()}) {
    EXPECT_FALSE(power(&x, p, &y, 1)) << p;
  }
  EXPECT_EQ(y, 7.0f);
}

}  // namespace
}  // namespace isobit::kernels::testing
