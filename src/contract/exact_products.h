// The arithmetic of exact products, tier exact3 (contract, section 17): what a row's exponent is, the integer and the
// three digits of an element, and how a sum of products of digits becomes a binary32.
//
//   x = 2^(e - 24) (V + a rest of at most 1/2),  V = 2^16 d1 + 2^8 d2 + d3,  |V| <= 2^16 127 + 2^8 127 + 127
//   T = sum over k of 2^16 a1 b1 + 2^8 (a1 b2 + a2 b1) + (a1 b3 + a2 b2 + a3 b1)
//   product = RN(2^(e + f - 32) T), a zero +0
//
// Integers throughout, so that any order of the terms gives the same T. |T| < 2^30 k: exact in int64 for k < 2^33.
// Plain functions without state.
#pragma once

#include <bit>

#include "contract/platform.h"

ISOBIT_CONTRACT_BEGIN

// The largest |V|: its digits are 127, 127, 127.
inline constexpr std::int32_t kExactLargest = 0x7f7f7f;
inline constexpr std::int64_t kExactTerms = std::int64_t{1} << 33;  // k stays below

// Of a number that is not 0.
[[nodiscard]] ISOBIT_HOST_DEVICE constexpr int exact_leading_zeros(std::uint32_t x) {
#if defined(__CUDA_ARCH__)
  return __clz(static_cast<int>(x));
#else
  return std::countl_zero(x);
#endif
}
[[nodiscard]] ISOBIT_HOST_DEVICE constexpr int exact_leading_zeros(std::uint64_t x) {
#if defined(__CUDA_ARCH__)
  return __clzll(static_cast<long long>(x));
#else
  return std::countl_zero(x);
#endif
}

struct ExactDigits {
  std::int32_t first, second, third;  // [-127, 127], [-128, 127], [-128, 127]
};

// A finite magnitude as significand * 2^exponent, the significand in [2^23, 2^24), or 0.
struct ExactParts {
  std::uint32_t significand;
  int exponent;
};
[[nodiscard]] ISOBIT_HOST_DEVICE constexpr ExactParts exact_parts(std::uint32_t magnitude_bits) {
  if (magnitude_bits == 0) return {0, 0};
  const int biased = static_cast<int>(magnitude_bits >> 23);
  const std::uint32_t fraction = magnitude_bits & 0x7fffff;
  if (biased != 0) return {fraction | 0x800000, biased - 150};
  const int shift = exact_leading_zeros(fraction) - 8;
  return {fraction << shift, -149 - shift};
}

// A row's exponent, from the bits of its largest magnitude, which is finite: the smallest e with
// largest <= kExactLargest * 2^(e - 24); 0 of a row of zeros, or of nothing.
[[nodiscard]] ISOBIT_HOST_DEVICE constexpr int exact_exponent(std::uint32_t largest_bits) {
  const ExactParts parts = exact_parts(largest_bits);
  if (parts.significand == 0) return 0;
  return parts.exponent + 25 + (parts.significand > 2 * kExactLargest ? 1 : 0);
}

// V: the integer nearest to x * 2^(24 - e), ties to even. Precondition: |x| <= kExactLargest * 2^(e - 24).
[[nodiscard]] ISOBIT_HOST_DEVICE constexpr std::int32_t exact_integer(std::uint32_t bits, int e) {
  const ExactParts parts = exact_parts(bits & 0x7fffffff);
  const int cut = e - 24 - parts.exponent;  // at least 1, where the significand is not 0
  if (parts.significand == 0 || cut > 25) return 0;
  const std::uint32_t whole = parts.significand >> cut, rest = parts.significand - (whole << cut);
  const std::uint32_t half = std::uint32_t{1} << (cut - 1);
  const bool up = rest > half || (rest == half && (whole & 1) != 0);
  const auto value = static_cast<std::int32_t>(whole + (up ? 1 : 0));
  return bits >> 31 != 0 ? -value : value;
}

// Balanced digits in base 256, the last first: what is left is divisible.
[[nodiscard]] ISOBIT_HOST_DEVICE constexpr ExactDigits exact_digits(std::int32_t v) {
  const std::int32_t third = (v + 0x808080) % 256 - 128;
  const std::int32_t upper = (v - third) / 256;
  const std::int32_t second = (upper + 0x8080) % 256 - 128;
  return {(upper - second) / 256, second, third};
}

// RN(2^exponent * sum): one rounding to binary32, whatever the magnitude; a zero is +0. |exponent| <= 900, so that the
// power and the product by it are exact in binary64.
[[nodiscard]] ISOBIT_HOST_DEVICE inline float exact_rounded(std::int64_t sum, int exponent) {
  std::uint64_t magnitude = sum < 0 ? 0 - static_cast<std::uint64_t>(sum) : static_cast<std::uint64_t>(sum);
  if (magnitude == 0) return 0.0f;
  // To 53 bits, the last one odd where anything is cut: exact in binary64, and rounded as the sum itself would be.
  const int cut = 64 - exact_leading_zeros(magnitude) - 53;
  if (cut > 0) {
    const std::uint64_t kept = magnitude >> cut << cut;
    magnitude = kept == magnitude ? kept : kept | std::uint64_t{1} << cut;
  }
  const std::uint64_t bits = static_cast<std::uint64_t>(exponent + 1023) << 52;
  double power;
  std::memcpy(&power, &bits, sizeof power);
  const double exact = static_cast<double>(magnitude) * power;
  return static_cast<float>(sum < 0 ? -exact : exact) + 0.0f;
}

ISOBIT_CONTRACT_END
