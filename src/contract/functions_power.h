// x to the power y for any x and y: a written binary64 formula (contract, section 10), rounded once to binary32.
//
// Only + - * / of binary64, one IEEE operation each in the order written here, and integers: no fma, no library.
// Error below 0.500001 ulp (tests/contract/power_test.cpp, against MPFR): binary64 keeps 2^-44 of the result.
// Special values are those of C (Annex F). Host and device; no state.
#pragma once

#include "contract/exact_sum.h"
#include "contract/formula.h"

ISOBIT_CONTRACT_BEGIN

// log(m) = 2 artanh(s): s + s^3 / 3 + ..; 1/3, 1/5 .. 1/21. A function, since device code has no arrays of the host.
[[nodiscard]] ISOBIT_HOST_DEVICE constexpr double odd_inverse(int k) {
  constexpr double kOdd[] = {0x1.5555555555555p-2, 0x1.999999999999ap-3, 0x1.2492492492492p-3, 0x1.c71c71c71c71cp-4,
                             0x1.745d1745d1746p-4, 0x1.3b13b13b13b14p-4, 0x1.1111111111111p-4, 0x1.e1e1e1e1e1e1ep-5,
                             0x1.af286bca1af28p-5, 0x1.8618618618618p-5};
  return kOdd[k];
}
[[nodiscard]] ISOBIT_HOST_DEVICE constexpr double inverse_factorial(int k) {
  constexpr double kInverseFactorial[] = {
      0x1.0000000000000p+0,  0x1.0000000000000p+0,  0x1.0000000000000p-1,  0x1.5555555555555p-3,  0x1.5555555555555p-5,
      0x1.1111111111111p-7,  0x1.6c16c16c16c17p-10, 0x1.a01a01a01a01ap-13, 0x1.a01a01a01a01ap-16, 0x1.71de3a556c734p-19,
      0x1.27e4fb7789f5cp-22, 0x1.ae64567f544e4p-26, 0x1.1eed8eff8d898p-29, 0x1.6124613a86d09p-33};
  return kInverseFactorial[k];
}
inline constexpr std::uint64_t kDoubleFraction = (1ull << 52) - 1,
                               kRootTwoFraction = 0x6a09e667f3bcdull;  // of binary64
inline constexpr double kTwoOverLogTwo = 0x1.71547652b82fep+1, kLogOfTwo = 0x1.62e42fefa39efp-1;

// log2(x) for 0 < x < inf, relative error below 2^-50. x = 2^e m, m in [sqrt(1/2), sqrt(2)); s = (m - 1) / (m + 1),
// log(m) = 2 artanh(s), its series to s^21 (abs(s) < 0.1716). m - 1 and m + 1 are exact.
[[nodiscard]] ISOBIT_HOST_DEVICE inline double log2_of(float x) {
  const double wide = static_cast<double>(x);  // normal for every x
  std::uint64_t bits;
  std::memcpy(&bits, &wide, sizeof bits);
  std::int32_t e = static_cast<std::int32_t>(bits >> 52) - 1023;
  std::uint64_t place = 1023;
  if ((bits & kDoubleFraction) >= kRootTwoFraction) e += 1, place = 1022;
  bits = (bits & kDoubleFraction) | place << 52;
  double m;
  std::memcpy(&m, &bits, sizeof m);
  const double s = (m - 1.0) / (m + 1.0);
  const double q = s * s;
  double p = odd_inverse(9);
  for (int k = 8; k >= 0; --k) p = p * q + odd_inverse(k);
  const double log_m = (s + s * (q * p)) * kTwoOverLogTwo;
  return static_cast<double>(e) + log_m;
}

// 2^t, rounded once to binary32; t finite. t = n + r, abs(r) <= 1/2; e^(r ln 2) by its series to degree 13.
[[nodiscard]] ISOBIT_HOST_DEVICE inline float exp2_of(double t) {
  if (t > 200.0) t = 200.0;  // beyond binary32 on both sides
  if (t < -200.0) t = -200.0;
  const std::int32_t n = static_cast<std::int32_t>(t < 0.0 ? t - 0.5 : t + 0.5);
  const double z = (t - static_cast<double>(n)) * kLogOfTwo;
  double p = inverse_factorial(13);
  for (int k = 12; k >= 0; --k) p = p * z + inverse_factorial(k);
  return static_cast<float>(p * power_of_two(n));
}

enum class Parity { fraction, even, odd };  // of a finite float; 2^24 and above are even
[[nodiscard]] ISOBIT_HOST_DEVICE inline Parity parity(float y) {
  const float size = magnitude(y);
  if (size >= 0x1p24f) return Parity::even;
  const std::int32_t whole = static_cast<std::int32_t>(size);
  if (static_cast<float>(whole) != size) return Parity::fraction;
  return whole % 2 != 0 ? Parity::odd : Parity::even;
}

[[nodiscard]] ISOBIT_HOST_DEVICE inline float power(float x, float y) {
  if (y == 0.0f || x == 1.0f) return 1.0f;  // for NaN too
  if (x != x || y != y) return kNan;
  const float size = magnitude(x);
  if (magnitude(y) == kInfinity) {
    if (size == 1.0f) return 1.0f;
    return (size > 1.0f) == (y > 0.0f) ? kInfinity : 0.0f;
  }
  const Parity kind = parity(y);
  const bool negative = (as_int(x) < 0) && kind == Parity::odd;
  float result;
  if (size == 0.0f || size == kInfinity) {
    result = (size == 0.0f) == (y < 0.0f) ? kInfinity : 0.0f;
  } else {
    if (x < 0.0f && kind == Parity::fraction) return kNan;
    result = exp2_of(static_cast<double>(y) * log2_of(size));
  }
  return negative ? -result : result;
}

ISOBIT_CONTRACT_END
