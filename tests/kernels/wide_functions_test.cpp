// Functions by binary64 formulas: every implementation's bits, every thread count, in place.
#include "kernels/wide_functions.h"

#include <gtest/gtest.h>

#include <random>

#include "kernels/sweep.h"

namespace isobit::kernels {
namespace {

using namespace isobit::kernels::testing;
using Floats = std::vector<float>;

constexpr std::int64_t kSizes[] = {0, 1, 7, 600, 2051};

Floats arguments(std::int64_t n, unsigned seed) {
  Floats x = hostile_floats(n, seed, true);
  const Floats tame = normal_floats(n, seed + 9);  // where most functions are neither 0 nor infinite
  for (std::size_t i = 0; i < x.size(); i += 2) x[i] = tame[i];
  return x;
}

TEST(WideFunctions, EveryImplementationGivesTheReferencesBits) {
  for (const std::int64_t n : kSizes) {
    const Floats a = arguments(n, 1), b = arguments(n, 2);
    for (const WideUnary op : kAllWideUnary) {
      expect_reference_bits(
          [&] {
            Floats y(a);
            wide_unary(op, y.data(), y.data(), n);
            return y;
          },
          std::string(name(op)) + ", " + std::to_string(n) + " elements");
    }
    for (const WideBinary op : kAllWideBinary) {
      expect_reference_bits(
          [&] {
            Floats y(a);
            wide_binary(op, y.data(), b.data(), y.data(), n);
            return y;
          },
          std::string(name(op)) + ", " + std::to_string(n) + " elements");
    }
  }
}

// Any 32 bits, and any that are near 1: the hosts' implementations alone.
TEST(WideFunctions, AnyBits) {
  std::mt19937 engine(9);
  Floats a(60000), b(a.size());
  for (std::size_t i = 0; i < a.size(); ++i) {
    const std::uint32_t bits = static_cast<std::uint32_t>(engine()), other = static_cast<std::uint32_t>(engine());
    a[i] = std::bit_cast<float>(i % 2 == 0 ? bits : (bits & 0x83ffffffu) | 0x3c000000u);
    b[i] = std::bit_cast<float>(i % 3 == 0 ? other : (other & 0x83ffffffu) | 0x3c000000u);
  }
  const auto n = static_cast<std::int64_t>(a.size());
  const auto compare = [&](auto compute, std::string_view function) {
    const Floats expected = by_reference(compute);
    for_each_host_implementation(
        [&](const std::string& where) { EXPECT_TRUE(same_bits(compute(), expected)) << where << ", " << function; });
  };
  for (const WideUnary op : kAllWideUnary) {
    compare(
        [&] {
          Floats y(a.size());
          wide_unary(op, a.data(), y.data(), n);
          return y;
        },
        name(op));
  }
  for (const WideBinary op : kAllWideBinary) {
    compare(
        [&] {
          Floats y(a.size());
          wide_binary(op, a.data(), b.data(), y.data(), n);
          return y;
        },
        name(op));
  }
}

// Quotients just below and above whole numbers, beyond 2^29, ends of the range, zeros of both signs.
TEST(WideFunctions, RemaindersWhereQuotientsAreClose) {
  std::mt19937 engine(5);
  Floats a, b;
  for (int i = 0; i < 20000; ++i) {
    const float divisor = std::bit_cast<float>(static_cast<std::uint32_t>(engine() & 0xff7fffffu));
    const float times = static_cast<float>(engine() % (i % 3 == 0 ? 7u : 1u << (engine() % 30)));
    float product = divisor * times;
    if (i % 4 == 1) product = std::nextafter(product, 0.0f);
    if (i % 4 == 2) product = std::nextafter(product, std::numeric_limits<float>::infinity());
    if (i % 97 == 0) product = std::copysign(0.0f, divisor);
    a.push_back(i % 5 == 0 ? std::bit_cast<float>(static_cast<std::uint32_t>(engine())) : product),
        b.push_back(divisor);
  }
  for (const WideBinary op : {WideBinary::fmod, WideBinary::remainder, WideBinary::floor_divide}) {
    const Floats expected = by_reference([&] {
      Floats y(a.size());
      wide_binary(op, a.data(), b.data(), y.data(), static_cast<std::int64_t>(a.size()));
      return y;
    });
    for_each_host_implementation([&](const std::string& where) {
      Floats y(a.size());
      wide_binary(op, a.data(), b.data(), y.data(), static_cast<std::int64_t>(a.size()));
      EXPECT_TRUE(same_bits(y, expected)) << where << ", " << name(op);
    });
  }
}

TEST(WideFunctions, FewExactValues) {
  for_each_implementation([](const std::string& where) {
    const float x[] = {8.0f, 0.0f, 1.0f};
    float y[3];
    wide_unary(WideUnary::log2, x, y, 3);
    EXPECT_EQ(y[0], 3.0f) << where;
    EXPECT_EQ(y[1], -std::numeric_limits<float>::infinity()) << where;
    const float b[] = {-3.0f, 2.0f, 0.3f};
    wide_binary(WideBinary::remainder, x, b, y, 3);
    EXPECT_EQ(y[0], -1.0f) << where;
    EXPECT_EQ(y[1], 0.0f) << where;
    wide_binary(WideBinary::floor_divide, x, b, y, 3);
    EXPECT_EQ(y[0], -3.0f) << where;
    EXPECT_EQ(y[2], 3.0f) << where;
  });
}

}  // namespace
}  // namespace isobit::kernels
