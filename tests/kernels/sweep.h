// What the kernel tests share: inputs that look for trouble, comparison bit for bit, and a sweep over every
// implementation and thread count.
#pragma once

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <random>
#include <string>
#include <vector>

#ifdef ISOBIT_EMULATED_CUDA
#include "kernels/cuda/emulation/emulation.h"
#endif
#include "kernels/isa.h"
#include "kernels/threads.h"

namespace isobit::kernels::testing {

inline std::vector<float> normal_floats(std::int64_t n, unsigned seed, float mean = 0.0f, float deviation = 1.0f) {
  std::mt19937 engine(seed);
  std::normal_distribution<float> normal(mean, deviation);
  std::vector<float> values(static_cast<std::size_t>(n));
  for (float& value : values) value = normal(engine);
  return values;
}

// Magnitudes over 2^-20 .. 2^20, so that a wrong order of additions shows.
inline std::vector<float> wide_floats(std::int64_t n, unsigned seed) {
  std::mt19937 engine(seed);
  std::uniform_int_distribution<int> exponent(-20, 20);
  std::uniform_real_distribution<float> mantissa(1.0f, 2.0f);
  std::vector<float> values(static_cast<std::size_t>(n));
  for (float& value : values) {
    const float magnitude = std::ldexp(mantissa(engine), exponent(engine));
    value = engine() & 1 ? magnitude : -magnitude;
  }
  return values;
}

// Wide values with zeros of both signs and subnormals among them and, where `non_finite`, NaN and infinities.
inline std::vector<float> hostile_floats(std::int64_t n, unsigned seed, bool non_finite) {
  std::vector<float> values = wide_floats(n, seed);
  std::mt19937 engine(seed + 1);
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  constexpr float kTame[] = {0.0f, -0.0f, 0x1p-149f, -0x1p-149f, 0x1.8p-130f, -0x1p-127f};
  constexpr float kWild[] = {kInfinity, -kInfinity, std::numeric_limits<float>::quiet_NaN()};
  for (float& value : values) {
    if (engine() % 4 == 0) value = kTame[engine() % 6];
    if (non_finite && engine() % 61 == 0) value = kWild[engine() % 3];
  }
  return values;
}

inline bool same(float a, float b) {
  return std::bit_cast<std::uint32_t>(a) == std::bit_cast<std::uint32_t>(b) || (std::isnan(a) && std::isnan(b));
}
inline bool same(std::int64_t a, std::int64_t b) { return a == b; }

// Bit for bit, any NaN equal to any other; names the first difference.
template <class T>
::testing::AssertionResult same_bits(const std::vector<T>& got, const std::vector<T>& expected) {
  if (got.size() != expected.size()) return ::testing::AssertionFailure() << "sizes differ";
  for (std::size_t i = 0; i < got.size(); ++i) {
    if (same(got[i], expected[i])) continue;
    return ::testing::AssertionFailure() << "element " << i << " is " << got[i] << ", expected " << expected[i];
  }
  return ::testing::AssertionSuccess();
}

// Calls check(where) under every implementation of the host but the reference, each with 1, 2, 3 and 8 threads, and
// under the reference with 3; `where` says which, for messages.
template <class Check>
void for_each_host_implementation(Check check) {
  for (const Isa isa : available_isas()) {
    const IsaScope isa_scope(isa);
    for (const int threads : {1, 2, 3, 8}) {
      if (isa == Isa::reference && threads != 3) continue;
      const ThreadCountScope thread_scope(threads);
      check(std::string(name(isa)) + ", " + std::to_string(threads) + " threads");
    }
  }
}
// And under the emulated device with its threads in three orders.
template <class Check>
void for_each_implementation(Check check) {
  for_each_host_implementation(check);
#ifdef ISOBIT_EMULATED_CUDA
  using emulated::ThreadOrder;
  for (const ThreadOrder order : {ThreadOrder::ascending, ThreadOrder::descending, ThreadOrder::shuffled}) {
    const emulated::EmulatedScope scope(order);
    check("emulated device, order " + std::to_string(static_cast<int>(order)));
  }
#endif
}

// What compute() gives under the reference on one thread.
template <class Compute>
auto by_reference(Compute compute) {
  const IsaScope isa_scope(Isa::reference);
  const ThreadCountScope thread_scope(1);
  return compute();
}

// compute() gives the reference's bits under every implementation and thread count.
template <class Compute>
void expect_reference_bits(Compute compute, const std::string& what) {
  const auto expected = by_reference(compute);
  for_each_implementation(
      [&](const std::string& where) { EXPECT_TRUE(same_bits(compute(), expected)) << what << "; " << where; });
}

// The same under the implementations of the host.
template <class Compute>
void expect_host_reference_bits(Compute compute, const std::string& what) {
  const auto expected = by_reference(compute);
  for_each_host_implementation(
      [&](const std::string& where) { EXPECT_TRUE(same_bits(compute(), expected)) << what << "; " << where; });
}

}  // namespace isobit::kernels::testing
