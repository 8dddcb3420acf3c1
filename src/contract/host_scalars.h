// Correctly rounded binary64 powers and cosines for host scalars (contract, section 1): bias corrections,
// learning-rate schedules.
//
// C libraries differ in the last bit of pow and cos; here only 64-bit integers compute, so every machine gives
// the same bits, and the bits are those of the exact value rounded once to nearest even.
// How: integers of fixed width with a counted error; where both ends of the error interval round alike the
// result is proven, else the width grows (Ziv, "Fast evaluation of elementary mathematical functions with
// correctly rounded last bit", 1991). Microseconds a call. Host only; no state; thread-safe.
#pragma once

#include <bit>
#include <cstdint>
#include <limits>

#include "contract/host_fixed.h"
#include "contract/platform.h"

ISOBIT_CONTRACT_BEGIN

namespace host {

// The true value lies in [mantissa, mantissa + error] * 2^exponent; the mantissa's top bit is set.
template <int kWords>
struct Interval {
  std::uint64_t mantissa[kWords] = {};
  std::int64_t exponent = 0;
  Uint128 error = 0;
};

// (a + ea)(b + eb) - ab is at most ea + eb + 1 in units of the product's upper half; dropping the lower half
// adds 1; a product whose top bit is clear is shifted by one place, which doubles the count.
template <int kWords>
[[nodiscard]] inline Interval<kWords> multiply(const Interval<kWords>& a, const Interval<kWords>& b) {
  std::uint64_t full[2 * kWords];
  multiply_words(a.mantissa, b.mantissa, kWords, full);
  const int shift = full[2 * kWords - 1] >> 63 != 0 ? 0 : 1;
  if (shift == 1) {
    for (int i = 2 * kWords - 1; i >= 0; --i) full[i] = full[i] << 1 | (i > 0 ? full[i - 1] >> 63 : 0);
  }
  Interval<kWords> r;
  bool dropped = false;
  for (int i = 0; i < kWords; ++i) {
    r.mantissa[i] = full[kWords + i];
    dropped = dropped || full[i] != 0;
  }
  r.exponent = a.exponent + b.exponent + 64 * kWords - shift;
  const Uint128 sum = a.error + b.error;
  r.error = sum == 0 ? static_cast<Uint128>(dropped) : 2 * sum + 4;
  return r;
}

// False if the two ends of the interval round differently.
template <int kWords>
[[nodiscard]] inline bool round_interval(const Interval<kWords>& x, double& out) {
  std::uint64_t upper[kWords + 1] = {};
  Uint128 carry = x.error;
  for (int i = 0; i < kWords; ++i) {
    const Uint128 t = static_cast<Uint128>(x.mantissa[i]) + static_cast<std::uint64_t>(carry);
    upper[i] = static_cast<std::uint64_t>(t);
    carry = (carry >> 64) + (t >> 64);
  }
  upper[kWords] = static_cast<std::uint64_t>(carry);
  out = round_words(x.mantissa, kWords, x.exponent);
  return out == round_words(upper, kWords + 1, x.exponent);
}

template <int kWords>
[[nodiscard]] inline bool try_power(double base, std::uint64_t n, double& out) {
  const Decoded exact = decode(base);
  const int zeros = std::countl_zero(exact.integer);
  Interval<kWords> square, product;
  square.mantissa[kWords - 1] = exact.integer << zeros;
  square.exponent = exact.exponent - zeros - std::int64_t{64} * (kWords - 1);
  product.mantissa[kWords - 1] = 1ull << 63;
  product.exponent = 1 - 64 * kWords;
  for (;; n >>= 1) {
    if ((n & 1) != 0) product = multiply(product, square);
    if (n == 1) return round_interval(product, out);
    square = multiply(square, square);
    // Far outside binary64 the result is settled (product and square lie on the same side of 1).
    const std::int64_t top = square.exponent + 64 * kWords;
    if (top > 4096 || top < -4096) {
      out = top > 0 ? std::numeric_limits<double>::infinity() : 0.0;
      return true;
    }
  }
}

}  // namespace host

// base^n rounded once; base finite and >= 0, n < 2^60; NaN otherwise. 0^0 = 1.
// The width needed is not bounded by a theorem but by chance: 2048 bits undecided would take 2^-1800.
[[nodiscard]] inline double power_rounded(double base, std::uint64_t n) {
  if (!(base >= 0) || base > std::numeric_limits<double>::max() || n >= 1ull << 60) {
    return std::numeric_limits<double>::quiet_NaN();
  }
  if (n == 0 || base == 1.0) return 1.0;
  if (base == 0.0) return 0.0;
  double out = 0;
  if (host::try_power<4>(base, n, out) || host::try_power<8>(base, n, out)) return out;
  (void)host::try_power<32>(base, n, out);
  return out;
}

namespace host {

// 384 fraction bits.
using CosineFixed = Fixed<7>;

// cos y for y in [0, pi / 2]: 1 - z/(1*2) (1 - z/(3*4) (1 - ...)), z = y^2. Every bracket lies in [0, 1]; the
// 45th term is below 2^-400, and each bracket truncates by less than 4 units of 2^-384.
[[nodiscard]] inline CosineFixed cosine_series(const CosineFixed& y) {
  const CosineFixed z = multiply(y, y), one = whole<7>(1);
  CosineFixed r = one;
  for (std::uint64_t i = 45; i >= 1; --i) r = subtract(one, divide(multiply(z, r), (2 * i - 1) * (2 * i)));
  return r;
}

}  // namespace host

// cos(x) rounded once; NaN unless |x| <= 2^20. Absolute error before rounding below 2^-360, so a wrong result
// would take an argument whose cosine comes within that of a midpoint of two binary64 numbers (chance 2^-220).
[[nodiscard]] inline double cosine_rounded(double x) {
  // 2 pi and pi truncated to 384 fraction bits, little end first (tests compare them with MPFR's constant).
  constexpr host::CosineFixed kTwoPi = {{0x7ca8cd9e69d218d9ull, 0x8a5043cc71a026efull, 0x105df531d89cd912ull,
                                         0x48127044533e63a0ull, 0x2633145c06e0e689ull, 0x487ed5110b4611a6ull,
                                         0x0000000000000006ull}};
  constexpr host::CosineFixed kPi = {{0xbe5466cf34e90c6cull, 0x452821e638d01377ull, 0x082efa98ec4e6c89ull,
                                      0xa4093822299f31d0ull, 0x13198a2e03707344ull, 0x243f6a8885a308d3ull,
                                      0x0000000000000003ull}};
  x = x < 0 ? -x : x;
  if (!(x <= 0x1p20)) return std::numeric_limits<double>::quiet_NaN();
  if (x < 0x1p-28) return 1.0;  // 1 - x^2 / 2 lies within 2^-57 of 1

  const host::Decoded exact = host::decode(x);
  host::CosineFixed y = host::fixed<7>(exact.integer, exact.exponent);

  // Into [0, 2 pi), then [0, pi] by cos y = cos(2 pi - y), then [0, pi / 2] by cos y = -cos(pi - y).
  const auto turns = static_cast<std::uint64_t>(x * 0.15915494309189535);
  host::CosineFixed turned = multiply(kTwoPi, turns);
  if (less(y, turned)) turned = multiply(kTwoPi, turns - 1);
  y = subtract(y, turned);
  if (!less(y, kTwoPi)) y = subtract(y, kTwoPi);
  if (less(kPi, y)) y = subtract(kTwoPi, y);
  host::CosineFixed mirrored = subtract(kPi, y);
  const bool negative = less(mirrored, y);
  const host::CosineFixed r = host::cosine_series(negative ? mirrored : y);
  const double magnitude = host::round_words(r.word, 7, -host::CosineFixed::kBits);
  return negative ? -magnitude : magnitude;
}

ISOBIT_CONTRACT_END
