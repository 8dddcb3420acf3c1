// Point-wise operators: vector bits equal the reference's, the reference agrees with binary64, wrong formulas show.
#include "kernels/pointwise.h"

#include <functional>

#include "contract/functions.h"
#include "contract/pointwise.h"
#include "kernels/sweep.h"

namespace isobit::kernels::testing {
namespace {

using Floats = std::vector<float>;

constexpr std::int64_t kSizes[] = {0, 1, 2, 7, 8, 9, 15, 16, 17, 31, 33, 257, 8191, 20011, 100003};
constexpr Unary kUnaries[] = {Unary::exp,   Unary::expm1, Unary::log,   Unary::log1p, Unary::tanh, Unary::sigmoid,
                              Unary::erf,   Unary::sin,   Unary::cos,   Unary::sinpi, Unary::cospi, Unary::relu,
                              Unary::rsqrt, Unary::silu,  Unary::gelu,  Unary::gelu_tanh, Unary::square,
                              Unary::reciprocal};
constexpr Binary kBinaries[] = {Binary::maximum,       Binary::minimum,       Binary::relu_backward,
                                Binary::sigmoid_backward, Binary::tanh_backward, Binary::silu_backward,
                                Binary::gelu_backward, Binary::gelu_tanh_backward};

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
  for (const Unary op : kUnaries) {
    expect_reference_bits_for_all_sizes(
        [op](const float* a, const float*, const float*, float* y, std::int64_t n) { unary(op, a, y, n); },
        "unary " + std::to_string(static_cast<int>(op)));
  }
}

TEST(Pointwise, BinaryBits) {
  for (const Binary op : kBinaries) {
    expect_reference_bits_for_all_sizes(
        [op](const float* a, const float* b, const float*, float* y, std::int64_t n) { binary(op, a, b, y, n); },
        "binary " + std::to_string(static_cast<int>(op)));
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
      {"clamp below", [](auto a, auto, auto, auto y, auto n) { clamp(a, -std::numeric_limits<float>::infinity(), 2.0f, y, n); }},
      {"hardtanh_backward", [](auto a, auto b, auto, auto y, auto n) { hardtanh_backward(a, b, -1.0f, 1.0f, y, n); }},
      {"leaky_relu", [](auto a, auto, auto, auto y, auto n) { leaky_relu(a, 0.01f, y, n); }},
      {"leaky_relu_backward", [](auto a, auto b, auto, auto y, auto n) { leaky_relu_backward(a, b, 0.01f, y, n); }},
  };
  for (const auto& [what, compute] : operators) expect_reference_bits_for_all_sizes(compute, what);
  for (const double p : {0.0, 0.5, 1.0, 2.0, 2.5, 3.0, 7.0, 31.5, 32.0, -0.5, -1.0, -2.0, -3.5}) {
    expect_reference_bits_for_all_sizes(
        [p](auto a, auto, auto, auto y, auto n) { EXPECT_TRUE(power(a, p, y, n)); }, "power " + std::to_string(p));
  }
}

}  // namespace
}  // namespace isobit::kernels::testing
