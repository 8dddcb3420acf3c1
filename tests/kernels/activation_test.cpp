// Activations with parameters and terms of losses: every implementation's bits, binary64 within a bound, wrong formulas
// seen.
#include "kernels/activation.h"

#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <string>
#include <vector>

#include "kernels/sweep.h"

namespace isobit::kernels {
namespace {

using namespace isobit::kernels::testing;
using Floats = std::vector<float>;

// Sizes around the registers' widths.
constexpr std::int64_t kSizes[] = {0, 1, 7, 8, 17, 33, 257, 8191, 20011};
constexpr Parameters kParameters[] = {{1.0f, 1.0f, 1.0f}, {1.7580993f, 1.0507010f, 1.0f}, {0.3f, 20.0f, 0.7f}};

using Operator = std::function<void(const float* a, const float* b, const float* c, float* y, std::int64_t n)>;

Operator of(UnaryWith op, Parameters p) {
  return [=](auto a, auto, auto, auto y, auto n) { unary_with(op, p, a, y, n); };
}
Operator of(BinaryWith op, Parameters p) {
  return [=](auto a, auto b, auto, auto y, auto n) { binary_with(op, p, a, b, y, n); };
}
Operator of(TernaryWith op, Parameters p) {
  return [=](auto a, auto b, auto c, auto y, auto n) { ternary_with(op, p, a, b, c, y, n); };
}

void expect_bits(const Operator& compute, const std::string& what) {
  for (const std::int64_t n : kSizes) {
    const Floats a = hostile_floats(n, 1, true), b = hostile_floats(n, 2, true), c = hostile_floats(n, 3, true);
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
    EXPECT_TRUE(same_bits(in_place(), by_reference(apart))) << what << ", in place, n = " << n;
  }
}

TEST(Activation, EveryImplementationGivesTheReferencesBits) {
  for (const Parameters& p : kParameters) {
    const std::string with = ", a = " + std::to_string(p.a);
    for (const UnaryWith op : kAllUnaryWith) expect_bits(of(op, p), std::string(name(op)) + with);
    for (const BinaryWith op : kAllBinaryWith) expect_bits(of(op, p), std::string(name(op)) + with);
    for (const TernaryWith op : kAllTernaryWith) expect_bits(of(op, p), std::string(name(op)) + with);
  }
}

// Largest difference to the binary64 definition, in units of 2^-24 times (1 + |a|) (1 + |b|) (1 + |c|). `probability`:
// the second input lies in (0, 1).
using Exact = std::function<double(double, double, double)>;
double difference(const Operator& compute, const Exact& exact, bool probability = false) {
  constexpr std::int64_t kCount = 20000;
  Floats a = normal_floats(kCount, 5, 0.0f, 2.0f), b = normal_floats(kCount, 6, 0.0f, 2.0f),
         c = normal_floats(kCount, 7);
  if (probability) {
    for (float& v : b) v = 0.1f + 0.8f / (1.0f + v * v);
  }
  Floats y(kCount);
  compute(a.data(), b.data(), c.data(), y.data(), kCount);
  double worst = 0.0;
  for (std::size_t i = 0; i < kCount; ++i) {
    const double scale = (1 + std::fabs(a[i])) * (1 + std::fabs(b[i])) * (1 + std::fabs(c[i])) * 0x1p-24;
    worst = std::max(worst, std::fabs(y[i] - exact(a[i], b[i], c[i])) / scale);
  }
  return worst;
}

double logistic(double x) { return 1.0 / (1.0 + std::exp(-x)); }
double softplus_of(double x) { return std::log1p(std::exp(x)); }
double mish_of(double x) { return x * std::tanh(softplus_of(x)); }
double clamp6(double x) { return std::min(std::max(x + 3.0, 0.0), 6.0); }
template <class Function>
double slope(Function f, double x) {
  return (f(x + 1e-5) - f(x - 1e-5)) / 2e-5;
}

constexpr double kBound = 8.0;
constexpr Parameters kElu{1.75f, 1.05f, 0.5f}, kOne{1.0f, 1.0f, 1.0f}, kHalf{0.5f, 0.25f, 0.0f};

double elu_of(double x) { return x > 0 ? x * 1.05f : std::expm1(x * 0.5) * 1.75; }

TEST(Activation, UnaryAgreesWithBinary64) {
  const IsaScope scope(Isa::reference);
  const auto near = [](UnaryWith op, Parameters p, std::function<double(double)> f) {
    EXPECT_LE(difference(of(op, p), [f](double a, double, double) { return f(a); }), kBound) << name(op);
  };
  near(UnaryWith::elu, kElu, elu_of);
  near(UnaryWith::mish, {}, mish_of);
  near(UnaryWith::softplus, {2.0f, 20.0f, 0}, [](double x) { return softplus_of(2 * x) / 2; });
  near(UnaryWith::softplus, {1.0f, 0.5f, 0}, [](double x) { return x > 0.5 ? x : softplus_of(x); });
  near(UnaryWith::hardsigmoid, {}, [](double x) { return clamp6(x) / 6; });
  near(UnaryWith::hardswish, {}, [](double x) { return x * clamp6(x) / 6; });
  near(UnaryWith::softshrink, kHalf, [](double x) { return x > 0.5 ? x - 0.5 : x < -0.5 ? x + 0.5 : 0.0; });
  near(UnaryWith::hardshrink, kHalf, [](double x) { return std::fabs(x) > 0.5 ? x : 0.0; });
  near(UnaryWith::log_sigmoid, {}, [](double x) { return -softplus_of(-x); });
}

TEST(Activation, GradientsAgreeWithBinary64) {
  const IsaScope scope(Isa::reference);
  const auto near = [](BinaryWith op, Parameters p, std::function<double(double, double)> f, double bound = kBound) {
    EXPECT_LE(difference(of(op, p), [f](double a, double b, double) { return f(a, b); }), bound) << name(op);
  };
  near(BinaryWith::elu_backward, kElu,
       [](double d, double x) { return d * (x > 0 ? 1.05f : 0.875 * std::exp(x / 2)); });
  near(BinaryWith::elu_backward_of_result, kElu,
       [](double d, double y) { return d * (y > 0 ? 1.05f : 0.5 * (y + 1.75)); });
  near(BinaryWith::mish_backward, {}, [](double d, double x) { return d * slope(mish_of, x); });
  near(BinaryWith::softplus_backward, {2.0f, 20.0f, 0}, [](double d, double x) { return d * logistic(2 * x); });
  near(BinaryWith::hardsigmoid_backward, {}, [](double d, double x) { return std::fabs(x) < 3 ? d / 6 : 0; });
  near(BinaryWith::hardswish_backward, {}, [](double d, double x) {
    return x <= -3 ? 0 : x < 3 ? d * (x / 3 + 0.5) : d;
  });
  near(BinaryWith::shrink_backward, kHalf, [](double d, double x) { return std::fabs(x) > 0.5 ? d : 0; });
  near(BinaryWith::log_sigmoid_backward, {}, [](double d, double x) { return d * logistic(-x); });
  near(BinaryWith::prelu_slope_backward, {}, [](double d, double x) { return x > 0 ? 0 : x * d; });
  EXPECT_GT(difference(of(BinaryWith::mish_backward, {}),
                       [](double d, double x, double) { return d * std::tanh(softplus_of(x)); }),
            1e3)
      << "a wrong formula is not seen";
}

double smooth(double d) { return std::fabs(d) < 0.5 ? d * d : std::fabs(d) - 0.25; }
double huber_of(double d) { return std::fabs(d) <= 0.5 ? d * d / 2 : 0.5 * (std::fabs(d) - 0.25); }

TEST(Activation, LossesAgreeWithBinary64) {
  const IsaScope scope(Isa::reference);
  EXPECT_LE(difference(of(BinaryWith::smooth_l1, kHalf), [](double x, double t, double) { return smooth(x - t); }),
            kBound);
  EXPECT_LE(difference(of(BinaryWith::huber, kHalf), [](double x, double t, double) { return huber_of(x - t); }),
            kBound);
  const auto entropy = [](double t, double x) { return -(t * std::log(x) + (1 - t) * std::log1p(-x)); };
  // (x, t) are the kernel's arguments; x is the probability.
  const Operator flipped = [](auto a, auto b, auto, auto y, auto n) {
    binary_with(BinaryWith::binary_cross_entropy, {}, b, a, y, n);
  };
  EXPECT_LE(difference(
                flipped, [&](double t, double x, double) { return entropy(t, x); }, true),
            kBound);
  EXPECT_LE(difference(
                of(BinaryWith::xlogy, {}), [](double a, double b, double) { return a * std::log(b); }, true),
            kBound);
  EXPECT_LE(
      difference(of(TernaryWith::smooth_l1_backward, kHalf),
                 [](double d, double x, double t) { return d * 0.25 * std::max(-1.0, std::min(1.0, 2 * (x - t))); }),
      kBound);
  EXPECT_LE(difference(of(TernaryWith::huber_backward, kHalf),
                       [](double d, double x, double t) { return d * 0.25 * std::max(-0.5, std::min(0.5, x - t)); }),
            kBound);
  EXPECT_LE(difference(
                of(TernaryWith::binary_cross_entropy_backward, kHalf),
                [](double d, double x, double t) { return d * 0.25 * (x - t) / (x * (1 - x)); }, true),
            2 * kBound);
  EXPECT_LE(
      difference(of(TernaryWith::prelu_backward, {}), [](double d, double x, double w) { return x > 0 ? d : w * d; }),
      kBound);
}

TEST(Activation, EdgesAreTorchs) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity(), kNan = std::numeric_limits<float>::quiet_NaN();
  const auto binary = [](BinaryWith op, float u, float v) {
    float y = 7;
    binary_with(op, kOne, &u, &v, &y, 1);
    return y;
  };
  EXPECT_TRUE(same(binary(BinaryWith::xlogy, 0.0f, 0.0f), 0.0f));
  EXPECT_TRUE(std::isnan(binary(BinaryWith::xlogy, 0.0f, kNan)));
  EXPECT_TRUE(same(binary(BinaryWith::binary_cross_entropy, 0.0f, 1.0f), 100.0f));
  EXPECT_TRUE(same(binary(BinaryWith::binary_cross_entropy, 1.0f, 0.0f), 100.0f));
  EXPECT_TRUE(same(binary(BinaryWith::smooth_l1, kInfinity, 0.0f), kInfinity));
  float x = kNan, y = 7;
  for (const UnaryWith op : kAllUnaryWith) {
    unary_with(op, kOne, &x, &y, 1);
    EXPECT_TRUE(std::isnan(y)) << name(op);
  }
}

}  // namespace
}  // namespace isobit::kernels
