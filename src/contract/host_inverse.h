// Correctly rounded inverse trigonometric functions and cube root of binary64 (contract, section 8), in pairs and
// integers like host_functions.h, whose words and stated errors these continue.
//
// Special values are C's (Annex F). 35 to 50 ns a call, 10 to 100 microseconds where integers decide (half a
// microsecond a cube root). Host only; thread-safe.
#pragma once

#include <algorithm>

#include "contract/host_functions.h"

ISOBIT_CONTRACT_BEGIN

namespace host {

template <int kWords>
[[nodiscard]] inline Fixed<kWords> half_turns(int halves) {  // of pi / 2; error below 2 units
  return multiply(leading_words<kWords>(pi_constants().half_pi), static_cast<std::uint64_t>(halves));
}

// Square root of a, 2^-108 <= a <= 1: error below 8 units. Newton's steps from IEEE's square root of the leading bits;
// each doubles the digits, and its division drops less than a unit.
template <int kWords>
[[nodiscard]] inline Fixed<kWords> square_root(const Fixed<kWords>& a) {
  double start = 0;
  (void)round_fixed(a, 0, 0, start);
  const Decoded decoded = decode(__builtin_sqrt(start));
  Fixed<kWords> root = fixed<kWords>(decoded.integer, decoded.exponent);
  for (int bits = 50; bits < Fixed<kWords>::kBits + 64; bits *= 2) {
    root = shift_right(add(root, divide(a, root)), 1);
  }
  return root;
}

inline constexpr double kHalfPi = 0x1.921fb54442d18p+0, kWholePi = 0x1.921fb54442d18p+1;

// The angle of (x, s), both in [0, 1] and not both small: error below 2^10 units and the larger of theirs.
template <int kWords>
[[nodiscard]] inline Fixed<kWords> angle(const Fixed<kWords>& s, const Fixed<kWords>& x) {
  if (!less(x, s)) return inverse_tan(divide(s, x));
  return subtract(half_turns<kWords>(1), inverse_tan(divide(x, s)));
}

// Of x with 2^-64 <= x < 1: sqrt(1 - x^2) = sqrt((1 - x) (1 + x)), exact but for the root.
template <int kWords>
[[nodiscard]] inline Fixed<kWords> cathetus(const Fixed<kWords>& x) {
  const Fixed<kWords> one = whole<kWords>(1);
  return square_root(multiply(subtract(one, x), add(one, x)));
}

[[nodiscard]] inline double atan_by_integers(double x) {  // 2^-27 <= x < 2^64
  return decided([&]<int kWords>(double& out) {
    const auto number = fixed_of<kWords>(x), one = whole<kWords>(1);
    const auto value = x <= 1 ? inverse_tan(number) : subtract(half_turns<kWords>(1), inverse_tan(divide(one, number)));
    return round_fixed(value, 11, 0, out);
  });
}

}  // namespace host

[[nodiscard]] inline double atan_rounded(double x) {
  if (host::is_nan(x)) return host::kNotANumber;
  const double size = host::magnitude(x);
  if (size < 0x1p-27) return x;
  // pi/2 lies a quarter of a unit above its binary64 number: what is taken off changes nothing.
  if (size >= 0x1p64) return host::with_sign(host::kHalfPi, host::is_negative(x));
  double result = 0;
  if (!host::quick::attempt<host::quick::Angle>(result, size, 1.0, false)) result = host::atan_by_integers(size);
  return host::with_sign(result, host::is_negative(x));
}

[[nodiscard]] inline double asin_rounded(double x) {
  const double size = host::magnitude(x);
  if (!(size <= 1)) return host::kNotANumber;
  if (size < 0x1p-27) return x;
  if (size == 1) return host::with_sign(host::kHalfPi, host::is_negative(x));
  double quick = 0;
  if (host::quick::attempt<host::quick::InverseSine>(quick, size)) return host::with_sign(quick, host::is_negative(x));
  const double result = host::decided([&]<int kWords>(double& out) {
    const auto number = host::fixed_of<kWords>(size);
    return host::round_fixed(host::angle(number, host::cathetus(number)), 40, 0, out);
  });
  return host::with_sign(result, host::is_negative(x));
}

[[nodiscard]] inline double acos_rounded(double x) {
  const double size = host::magnitude(x);
  if (!(size <= 1)) return host::kNotANumber;
  if (size < 0x1p-64) return host::kHalfPi;
  if (size == 1) return host::is_negative(x) ? host::kWholePi : 0.0;
  double quick = 0;
  if (host::quick::attempt<host::quick::InverseCosine>(quick, size, host::is_negative(x))) return quick;
  return host::decided([&]<int kWords>(double& out) {
    const auto number = host::fixed_of<kWords>(size);
    const auto value = host::angle(host::cathetus(number), number);
    return host::round_fixed(host::is_negative(x) ? host::subtract(host::half_turns<kWords>(2), value) : value, 40, 0,
                             out);
  });
}

namespace host {

// atan(q) for 0 < q = a / b < 2^-64: the exact quotient less less than 2^-128 of it. A quotient of 128 bits holds every
// number that a result may lie next to: where it is exact the result lies just below it, else the bits that are left
// out say more than what is taken off.
[[nodiscard]] inline double small_angle(const Decoded& a, const Decoded& b) {
  const int left = std::countl_zero(a.integer), right = std::countl_zero(b.integer);
  const std::uint64_t divisor = b.integer << right | 1ull << 63;  // the bit is set: analyzers see no zero
  std::uint64_t words[4] = {};
  Uint128 rest = a.integer << left;
  for (int i = 3; i >= 1; --i) {
    words[i] = static_cast<std::uint64_t>(rest / divisor);
    rest = rest % divisor << 64;
  }
  if (rest != 0) {
    words[0] = 1;
  } else {
    for (int i = 0; i < 4; ++i) {
      if (words[i]-- != 0) break;
    }
  }
  return round_words(words, 4, (a.exponent - left) - (b.exponent - right) - 192);
}

// The angle of (across, up), both positive and finite, or of (-across, up) where behind.
[[nodiscard]] inline double angle_by_integers(double up, double across, bool behind) {
  const Decoded a = decode(up), b = decode(across);
  const std::int64_t apart = binade(a) - binade(b);
  if (apart > 64) return kHalfPi;
  if (apart < -65) return behind ? kWholePi : small_angle(a, b);
  const std::int64_t scale = std::max(binade(a), binade(b)) + 1;  // both at most 1, one at least 1/2
  return decided([&]<int kWords>(double& out) {
    const auto s = fixed<kWords>(a.integer, a.exponent - scale), c = fixed<kWords>(b.integer, b.exponent - scale);
    const auto value = angle(s, c);
    return round_fixed(behind ? subtract(half_turns<kWords>(2), value) : value, 12, 0, out);
  });
}

}  // namespace host

[[nodiscard]] inline double atan2_rounded(double y, double x) {
  if (host::is_nan(x) || host::is_nan(y)) return host::kNotANumber;
  const bool behind = host::is_negative(x), below = host::is_negative(y);
  const double across = host::magnitude(x), up = host::magnitude(y);
  const auto decided = [&](double size) { return host::with_sign(size, below); };
  if (host::is_zero(y)) return decided(behind ? host::kWholePi : 0.0);
  if (host::is_zero(x)) return decided(host::kHalfPi);
  if (up == host::kInfinite && across == host::kInfinite) {
    return decided(behind ? 0x1.2d97c7f3321d2p+1 : 0x1.921fb54442d18p-1);  // 3 pi / 4, pi / 4
  }
  if (up == host::kInfinite) return decided(host::kHalfPi);
  if (across == host::kInfinite) return decided(behind ? host::kWholePi : 0.0);
  double result = 0;
  if (!host::quick::attempt<host::quick::Angle>(result, up, across, behind)) {
    result = host::angle_by_integers(up, across, behind);
  }
  return decided(result);
}

[[nodiscard]] inline double cbrt_rounded(double x) {
  if (host::is_nan(x)) return host::kNotANumber;
  const double size = host::magnitude(x);
  if (host::is_zero(x) || size == host::kInfinite) return x;
  // size = number * 2^(3 third), number of 169 to 171 bits: its root has 57.
  const host::Decoded exact = host::decode(size);
  std::int64_t shift = 107 + std::countl_zero(exact.integer);
  shift += ((exact.exponent - shift) % 3 + 3) % 3;
  const std::int64_t third = (exact.exponent - shift) / 3;
  std::uint64_t wanted[4] = {};
  wanted[shift / 64] = exact.integer << shift % 64;
  if (shift % 64 != 0) wanted[shift / 64 + 1] = exact.integer >> (64 - shift % 64);
  const auto cube = [](std::uint64_t root, std::uint64_t* words) {
    const host::Uint128 square = static_cast<host::Uint128>(root) * root;
    const host::Uint128 low = static_cast<host::Uint128>(static_cast<std::uint64_t>(square)) * root;
    const host::Uint128 high =
        static_cast<host::Uint128>(static_cast<std::uint64_t>(square >> 64)) * root + (low >> 64);
    words[0] = static_cast<std::uint64_t>(low), words[1] = static_cast<std::uint64_t>(high);
    words[2] = static_cast<std::uint64_t>(high >> 64), words[3] = 0;
  };
  const auto above = [&](const std::uint64_t* words) {  // whether words > wanted
    for (int i = 3; i >= 0; --i) {
      if (words[i] != wanted[i]) return words[i] > wanted[i];
    }
    return false;
  };
  std::uint64_t root = 0, words[4];
  for (int bit = 58; bit >= 0; --bit) {
    cube(root | 1ull << bit, words);
    if (!above(words)) root |= 1ull << bit;
  }
  cube(root, words);
  const bool rest = !std::equal(words, words + 4, wanted);
  const std::uint64_t doubled = root << 1 | static_cast<std::uint64_t>(rest);
  return host::with_sign(host::round_words(&doubled, 1, third - 1), host::is_negative(x));
}

ISOBIT_CONTRACT_END
