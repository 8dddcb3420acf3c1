// contract/functions_power.h over registers of binary64: the same operations in the same order, so the same bits.
// Some registers side by side, since each of its two polynomials is a chain.
#pragma once

#include <cmath>

#include "contract/functions_power.h"
#include "kernels/cpu/vector/wide_lanes.h"

namespace isobit::kernels::ISOBIT_ISA {
namespace {

constexpr int kPowersTogether = 4;  // registers
constexpr int kPowers = kPowersTogether * kWideLanes;

// contract::log2_of; x > 0 and finite.
ISOBIT_INLINE void logs_of(const float* x, WideDouble (&log)[kPowersTogether]) {
  WideDouble s[kPowersTogether], q[kPowersTogether], p[kPowersTogether], e[kPowersTogether];
  for (int g = 0; g < kPowersTogether; ++g) {
    const WideInt bits = wide_bits(wide_from_floats(x + g * kWideLanes)),
                  fraction = wide_and(bits, wide_set(contract::kDoubleFraction));
    const WideInt above = wide_shift_right(wide_add(fraction, wide_set((1ull << 52) - contract::kRootTwoFraction)),
                                           52);  // 1 from the root on
    const WideInt exponent = wide_add(wide_shift_right(bits, 52), above);
    const WideDouble m = wide_as_double(wide_or(fraction, wide_shift_left(wide_subtract(wide_set(1023), above), 52)));
    // An integer below 2^52 in the fraction of 2^52 is 2^52 more.
    e[g] = wide_as_double(wide_or(exponent, wide_set(0x4330000000000000ull))) - wide_double(0x1p52 + 1023.0);
    s[g] = (m - wide_double(1.0)) / (m + wide_double(1.0));
    q[g] = s[g] * s[g];
    p[g] = wide_double(contract::odd_inverse(9));
  }
  for (int k = 8; k >= 0; --k) {
    for (int g = 0; g < kPowersTogether; ++g) p[g] = p[g] * q[g] + wide_double(contract::odd_inverse(k));
  }
  for (int g = 0; g < kPowersTogether; ++g) {
    const WideDouble series = s[g] + s[g] * (q[g] * p[g]);
    log[g] = e[g] + series * wide_double(contract::kTwoOverLogTwo);
  }
}

// contract::exp2_of
ISOBIT_INLINE void powers_of_two(const WideDouble (&given)[kPowersTogether], float* y) {
  WideDouble z[kPowersTogether], p[kPowersTogether], scale[kPowersTogether];
  for (int g = 0; g < kPowersTogether; ++g) {
    const WideDouble t = wide_within(given[g], 200.0);
    const WideDouble half =
        wide_as_double(wide_or(wide_and(wide_bits(t), wide_set(1ull << 63)), wide_bits(wide_double(0.5))));
    const auto n = wide_truncated(t + half);
    z[g] = (t - wide_from_integers(n)) * wide_double(contract::kLogOfTwo);
    scale[g] = wide_as_double(wide_shift_left(wide_add(wide_integers(n), wide_set(1023)), 52));
    p[g] = wide_double(contract::inverse_factorial(13));
  }
  for (int k = 12; k >= 0; --k) {
    for (int g = 0; g < kPowersTogether; ++g) p[g] = p[g] * z[g] + wide_double(contract::inverse_factorial(k));
  }
  for (int g = 0; g < kPowersTogether; ++g) wide_to_floats(y + g * kWideLanes, p[g] * scale[g]);
}

// kPowers of them; y may be x or p.
ISOBIT_INLINE void powers(const float* x, const float* p, float* y) {
  WideDouble t[kPowersTogether];
  float result[kPowers];
  logs_of(x, t);
  for (int g = 0; g < kPowersTogether; ++g) t[g] = wide_from_floats(p + g * kWideLanes) * t[g];
  powers_of_two(t, result);
  for (int i = 0; i < kPowers; ++i) {
    const bool usual = x[i] > 0.0f && x[i] < INFINITY && p[i] > -INFINITY && p[i] < INFINITY;
    if (!usual) result[i] = contract::power(x[i], p[i]);
  }
  for (int i = 0; i < kPowers; ++i) y[i] = result[i];
}

// n of them, those of p `step` (0 or 1) apart.
[[maybe_unused]] void powers_in_blocks(const float* x, const float* p, int step, float* y, std::int64_t n) {
  float same[kPowers], left[kPowers];
  for (float& each : same) each = step == 0 ? *p : 1.0f;
  std::int64_t i = 0;
  for (; i + kPowers <= n; i += kPowers) powers(x + i, step == 0 ? same : p + i, y + i);
  if (i == n) return;
  for (int j = 0; j < kPowers; ++j) left[j] = i + j < n ? x[i + j] : 1.0f;
  for (int j = 0; step != 0 && i + j < n; ++j) same[j] = p[i + j];
  powers(left, same, left);
  for (int j = 0; i + j < n; ++j) y[i + j] = left[j];
}

}  // namespace
}  // namespace isobit::kernels::ISOBIT_ISA
