// Series and parts that the correctly rounded functions of host scalars share (host_functions.h says how they round):
// logarithm, exponential, sine, cosine and inverse tangent in fixed point, each with a stated error.
//
// Only integers compute (host_fixed.h). Host only; thread-safe: constants are made at first use.
#pragma once

#include <array>
#include <bit>
#include <cstdint>

#include "contract/host_fixed.h"
#include "contract/platform.h"

ISOBIT_CONTRACT_BEGIN

namespace host {

// ---- series; errors in units of the last place

// s + s^3 / 3 + s^5 / 5 ... for s <= 1 / 3 with an error below 2 units: error below 8 units. The loop's quotients and
// products drop a unit each, which z <= 1 / 9 keeps below 3; z^terms is below a unit.
template <int kWords>
[[nodiscard]] inline Fixed<kWords> inverse_tanh_series(const Fixed<kWords>& s, std::uint64_t terms) {
  const Fixed<kWords> z = multiply(s, s), one = whole<kWords>(1);
  Fixed<kWords> sum = divide(one, 2 * terms + 1);
  for (std::uint64_t i = terms; i >= 1; --i) sum = add(multiply(z, sum), divide(one, 2 * i - 1));
  return multiply(s, sum);
}

// 2 artanh(1 / 3); error below 16 units.
template <int kWords>
[[nodiscard]] inline const Fixed<kWords>& ln2() {
  static const Fixed<kWords> value =
      shift_left(inverse_tanh_series(divide(whole<kWords>(1), 3), Fixed<kWords>::kBits / 3), 1);
  return value;
}

// e^r for r < 1: error below 2^13 units and 3 of r's. e^(r / 2^8) by Taylor's series (the loop's error stays below 3
// units, its first term left out below one), squared eight times, which enlarges errors by less than 2^8 e.
template <int kWords>
[[nodiscard]] inline Fixed<kWords> exponential_series(const Fixed<kWords>& r) {
  const Fixed<kWords> s = shift_right(r, 8), one = whole<kWords>(1);
  Fixed<kWords> sum = one;
  for (int i = Fixed<kWords>::kBits / 10; i >= 1; --i) {
    sum = add(one, divide(multiply(s, sum), static_cast<std::uint64_t>(i)));
  }
  for (int i = 0; i < 8; ++i) sum = multiply(sum, sum);
  return sum;
}

// Sine and cosine of r <= pi / 4: error below 8 units and r's. Each bracket 1 - z/(n (n+1)) (...) drops less than 4.
template <int kWords>
inline void sine_and_cosine(const Fixed<kWords>& r, Fixed<kWords>& sine, Fixed<kWords>& cosine) {
  const Fixed<kWords> z = multiply(r, r), one = whole<kWords>(1);
  sine = cosine = one;
  for (std::uint64_t i = Fixed<kWords>::kBits / 8; i >= 1; --i) {
    cosine = subtract(one, divide(multiply(z, cosine), (2 * i - 1) * (2 * i)));
    sine = subtract(one, divide(multiply(z, sine), (2 * i) * (2 * i + 1)));
  }
  sine = multiply(r, sine);
}

// arctan(1 / n) for n >= 5.
template <int kWords>
[[nodiscard]] inline Fixed<kWords> inverse_tan_of_reciprocal(std::uint64_t n) {
  constexpr std::uint64_t kTerms = Fixed<kWords>::kBits / 4;
  const Fixed<kWords> one = whole<kWords>(1);
  Fixed<kWords> sum = divide(one, 2 * kTerms + 1);
  for (std::uint64_t i = kTerms; i >= 1; --i) sum = subtract(divide(one, 2 * i - 1), divide(sum, n * n));
  return divide(sum, n);
}

// Enough for 2 / pi times the largest binary64 number, modulo 4, to more than 1024 fraction bits.
inline constexpr int kPiWords = 38;
struct PiConstants {
  Fixed<kPiWords> half_pi, two_over_pi;  // errors below 2^10 units
};
[[nodiscard]] inline const PiConstants& pi_constants() {
  static const PiConstants value = [] {
    const Fixed<kPiWords> quarter = subtract(multiply(inverse_tan_of_reciprocal<kPiWords>(5), 4),
                                             inverse_tan_of_reciprocal<kPiWords>(239));  // Machin
    const Fixed<kPiWords> half = shift_left(quarter, 1);
    return PiConstants{half, divide(whole<kPiWords>(1), half)};
  }();
  return value;
}

template <int kWords>
[[nodiscard]] inline Fixed<kWords> leading_words(const Fixed<kPiWords>& x) {  // drops less than a unit
  Fixed<kWords> r;
  for (int i = 0; i < kWords; ++i) r.word[i] = x.word[i + kPiWords - kWords];
  return r;
}

// atan of t <= 1 / 16: error below 4 units. The terms left out are below a unit; the loop drops less than 3.
template <int kWords>
[[nodiscard]] inline Fixed<kWords> inverse_tan_series(const Fixed<kWords>& t) {
  constexpr std::uint64_t kTerms = Fixed<kWords>::kBits / 8;
  const Fixed<kWords> z = multiply(t, t), one = whole<kWords>(1);
  Fixed<kWords> sum = divide(one, 2 * kTerms + 1);
  for (std::uint64_t i = kTerms; i >= 1; --i) sum = subtract(divide(one, 2 * i - 1), multiply(z, sum));
  return multiply(t, sum);
}

// atan(k / 16) for k = 0 ... 16, each the one before and atan(16 / (256 + k (k - 1))): errors below 2^7 units.
template <int kWords>
[[nodiscard]] inline const std::array<Fixed<kWords>, 17>& inverse_tans() {
  static const std::array<Fixed<kWords>, 17> value = [] {
    std::array<Fixed<kWords>, 17> all;
    for (std::uint64_t k = 1; k <= 16; ++k) {
      all[k] = add(all[k - 1], inverse_tan_series(divide(whole<kWords>(16), 256 + k * (k - 1))));
    }
    return all;
  }();
  return value;
}

// atan of r <= 1: error below 2^8 units and r's. r = k / 16 + d, and t = d / (1 + r k / 16) is below 1 / 16.
template <int kWords>
[[nodiscard]] inline Fixed<kWords> inverse_tan(const Fixed<kWords>& r) {
  const std::uint64_t k = r.word[kWords - 1] != 0 ? 16 : r.word[kWords - 2] >> 60;
  const Fixed<kWords> base = divide(whole<kWords>(k), 16), one = whole<kWords>(1);
  return add(inverse_tans<kWords>()[k], inverse_tan_series(divide(subtract(r, base), add(one, multiply(r, base)))));
}

// ---- parts that the functions share

// ln of a positive number: value, or -value; error below 2^15 units.
template <int kWords>
struct Logarithm {
  Fixed<kWords> value;
  bool negative = false;
};

// Of number * 2^exponent: number = 2^highest m, m in [1, 2), or half of it, so that m lies in [sqrt(1/2), sqrt(2)].
// ln m = +-2 artanh((m - 1) / (m + 1)), at most 0.172; exponents stay below 1100 in size.
template <int kWords>
[[nodiscard]] inline Logarithm<kWords> logarithm(const Fixed<kWords>& number, std::int64_t exponent) {
  constexpr int kBits = Fixed<kWords>::kBits;
  const int highest = highest_bit(number);
  const Fixed<kWords> one = whole<kWords>(1);
  Fixed<kWords> m = highest <= kBits ? shift_left(number, kBits - highest) : shift_right(number, highest - kBits);
  std::int64_t power = exponent + highest - kBits;
  if (m.word[kWords - 2] > 0x6a09e667f3bcc908ull) {  // sqrt(2)
    m = shift_right(m, 1);
    ++power;
  }
  const bool below = less(m, one);
  const Fixed<kWords> s = divide(below ? subtract(one, m) : subtract(m, one), add(m, one));
  const Fixed<kWords> part = shift_left(inverse_tanh_series(s, kBits / 5), 1);
  if (power == 0) return {part, below};
  const bool negative = power < 0;
  const Fixed<kWords> whole_part = multiply(ln2<kWords>(), static_cast<std::uint64_t>(negative ? -power : power));
  return {below == negative ? add(whole_part, part) : subtract(whole_part, part), negative};
}

template <int kWords>
[[nodiscard]] inline Logarithm<kWords> logarithm_of(double x) {
  const Decoded exact = decode(x);
  return logarithm(whole<kWords>(exact.integer), exact.exponent);
}

// e^t, or e^-t: value * 2^exponent, value in [1, 2] with an error below 2^17 units and 3 of t's. t < 2^10, so that the
// multiple of ln 2 adds 3 times 1478 * 16 units.
template <int kWords>
struct Exponential {
  Fixed<kWords> value;
  std::int64_t exponent = 0;
};

template <int kWords>
[[nodiscard]] inline Exponential<kWords> exponential(const Fixed<kWords>& t, bool negative) {
  const Fixed<kWords>& step = ln2<kWords>();
  auto n = static_cast<std::int64_t>(Uint128{t.word[kWords - 1]} * 0x171547652b82fe17ull >> 60);  // 2^60 / ln 2
  Fixed<kWords> rest = subtract(t, multiply(step, static_cast<std::uint64_t>(n)));
  for (; !less(rest, step); ++n) rest = subtract(rest, step);
  if (!negative) return {exponential_series(rest), n};
  return {exponential_series(subtract(step, rest)), -n - 1};
}

// A quarter turn's fraction: x = (quarters + fraction) pi / 2; r = the fraction, or what it lacks to 1, times pi / 2.
template <int kWords>
struct Quarters {
  int quarters = 0;  // modulo 4
  bool mirrored = false;
  Fixed<kWords> sine, cosine;  // of r <= pi / 4: errors below 2^4 units
};

template <int kWords>
[[nodiscard]] inline Quarters<kWords> quarters_of(double x) {  // x >= 2^-28
  const Decoded exact = decode(x);
  const Fixed<kPiWords> product = multiply(pi_constants().two_over_pi, exact.integer);
  Fixed<kWords> fraction = leading_words<kWords>(exact.exponent >= 0 ? shift_left(product, exact.exponent)
                                                                     : shift_right(product, -exact.exponent));
  Quarters<kWords> r;
  r.quarters = static_cast<int>(fraction.word[kWords - 1] & 3);
  fraction.word[kWords - 1] = 0;
  r.mirrored = fraction.word[kWords - 2] >> 63 != 0;
  if (r.mirrored) fraction = subtract(whole<kWords>(1), fraction);
  sine_and_cosine(multiply(fraction, leading_words<kWords>(pi_constants().half_pi)), r.sine, r.cosine);
  return r;
}

// The attempts of a function at 256, 512 and 1024 bits: attempt<words>(out) is false where that width does not decide.
template <class Attempt>
[[nodiscard]] inline double decided(Attempt&& attempt) {
  double out = 0;
  if (attempt.template operator()<5>(out) || attempt.template operator()<9>(out)) return out;
  (void)attempt.template operator()<17>(out);
  return out;
}

template <int kWords>
[[nodiscard]] inline Fixed<kWords> fixed_of(double x) {  // without what lies below a unit
  const Decoded exact = decode(x);
  return fixed<kWords>(exact.integer, exact.exponent);
}

[[nodiscard]] inline bool is_nan(double x) { return (bits_of_double(x) & ~(1ull << 63)) > 0x7ff0000000000000ull; }
// floor(log2(x)) of a number from decode.
[[nodiscard]] inline std::int64_t binade(const Decoded& x) { return x.exponent + 63 - std::countl_zero(x.integer); }

}  // namespace host

ISOBIT_CONTRACT_END
