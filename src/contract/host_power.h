// Correctly rounded binary64 powers and square roots of host scalars, for any base and exponent: host_functions.h says
// how; special values are those of C's pow (Annex F). Host only; thread-safe.
#pragma once

#include <bit>
#include <cstdint>

#include "contract/host_fixed.h"
#include "contract/host_functions.h"
#include "contract/host_scalars.h"
#include "contract/platform.h"
#include "contract/quick_power.h"

ISOBIT_CONTRACT_BEGIN

namespace host {

// floor(sqrt(x)), bit by bit.
[[nodiscard]] inline std::uint64_t integer_root(Uint128 x) {
  Uint128 root = 0;
  for (int i = 63; i >= 0; --i) {
    const Uint128 next = root | Uint128{1} << i;
    if (next * next <= x) root = next;
  }
  return static_cast<std::uint64_t>(root);
}

// sqrt(x) of a positive finite x.
[[nodiscard]] inline double square_root(double x) {
  const Decoded exact = decode(x);
  int shift = 63 + std::countl_zero(exact.integer);  // to 127 bits, or one fewer for an even exponent
  if ((exact.exponent - shift) % 2 != 0) --shift;
  const Uint128 number = Uint128{exact.integer} << shift;
  const std::uint64_t root = integer_root(number);
  const std::uint64_t words[2] = {Uint128{root} * root != number ? 1ull : 0ull, root};  // a last bit for what is beyond
  return round_words(words, 2, (exact.exponent - shift) / 2 - 64);
}

// Replaces x by its square root where that is a number of this form. Then the root's integer is odd again.
[[nodiscard]] inline bool take_exact_root(Decoded& x) {
  const std::uint64_t root = integer_root(x.integer);
  if (x.exponent % 2 != 0 || root * root != x.integer) return false;
  x = {root, x.exponent / 2};
  return true;
}

// 2^(n * factor * 2^shift), or its reciprocal.
[[nodiscard]] inline double power_of_two(std::int64_t n, std::uint64_t factor, std::int64_t shift, bool reciprocal) {
  const bool shrinks = (n < 0) != reciprocal;
  const Uint128 size = Uint128{static_cast<std::uint64_t>(n < 0 ? -n : n)} * factor;
  if (shift > 12 || (size << shift) > 4096) return shrinks ? 0.0 : kInfinite;
  const auto exponent = static_cast<std::int64_t>(size << shift);
  constexpr std::uint64_t kOne = 1;
  return round_words(&kOne, 1, shrinks ? -exponent : exponent);
}

// x^y, or x^-y, for positive finite x other than 1 and y a number from decode that no shortcut settled: irrational, or
// of more than 54 bits.
template <int kWords>
[[nodiscard]] inline bool try_general_power(double x, const Decoded& y, bool reciprocal, double& out) {
  const Logarithm<kWords> ln = logarithm_of<kWords>(x);
  const bool shrinks = ln.negative != reciprocal;
  const Fixed<kWords> product = multiply(ln.value, y.integer);  // below 2^10 * 2^53
  const std::int64_t size = highest_bit(product) - Fixed<kWords>::kBits + y.exponent;
  if (size >= 10) {
    out = shrinks ? 0.0 : kInfinite;
    return true;
  }
  if (size < -56) {  // within 2^-55 of 1
    out = 1.0;
    return true;
  }
  const Fixed<kWords> t = y.exponent >= 0 ? shift_left(product, y.exponent) : shift_right(product, -y.exponent);
  const std::int64_t inherited = 15 + binade(y) + 1;  // 2^15 units times y, which is below 2^(binade + 1)
  const int error_bits = static_cast<int>(inherited > 0 ? inherited : 0) + 1;
  const Exponential<kWords> e = exponential(t, shrinks);
  return round_fixed(e.value, (error_bits + 2 > 17 ? error_bits + 2 : 17) + 1, e.exponent, out);
}

// x positive, finite, not 1; y finite, not 0.
[[nodiscard]] inline double positive_power(double x, double y) {
  if (y == 0.5) return square_root(x);
  const Decoded exponent = decode(y);
  const bool reciprocal = is_negative(y);
  if (!reciprocal && exponent.exponent >= 0 && magnitude(y) < 0x1p60) {
    return power_rounded(x, exponent.integer << exponent.exponent);
  }
  // Where x^y has 54 bits or fewer and y is no positive integer, x = root^(2^halvings) and y = n / 2^halvings with
  // integers n, and with n > 0 or a root that is a power of two.
  Decoded root = decode(x);
  std::int64_t halvings = exponent.exponent < 0 ? -exponent.exponent : 0;
  while (halvings > 0 && take_exact_root(root)) --halvings;
  if (halvings == 0 && root.integer == 1) {
    return power_of_two(root.exponent, exponent.integer, exponent.exponent > 0 ? exponent.exponent : 0, reciprocal);
  }
  if (halvings == 0 && !reciprocal && exponent.exponent < 0) {
    return power_rounded(compose(root.integer, root.exponent), exponent.integer);
  }
  // ln(x) is at least 2^-54 in size, and at most 745.2.
  if (magnitude(y) >= 0x1p64) return (x > 1) == reciprocal ? 0.0 : kInfinite;
  if (magnitude(y) < 0x1p-65) return 1.0;
  return decided([&]<int kWords>(double& out) { return try_general_power<kWords>(x, exponent, reciprocal, out); });
}

}  // namespace host

[[nodiscard]] inline double pow_rounded(double x, double y) {
  if (host::is_zero(y) || x == 1) return 1.0;
  if (host::is_nan(x) || host::is_nan(y)) return host::kNotANumber;
  const double size = host::magnitude(x);
  if (host::magnitude(y) == host::kInfinite) {
    if (size == 1) return 1.0;
    return (size > 1) == (y > 0) ? host::kInfinite : 0.0;
  }
  const std::int64_t exponent = host::decode(y).exponent;
  const bool negative = host::is_negative(x) && exponent == 0;  // an odd integer
  if (host::is_zero(x) || size == host::kInfinite) {
    return host::with_sign(host::is_zero(x) == (y > 0) ? 0.0 : host::kInfinite, negative);
  }
  if (host::is_negative(x) && exponent < 0) return host::kNotANumber;
  if (size == 1) return host::with_sign(1.0, negative);
  double result = 0;
  if (!host::quick::attempt<host::quick::Power>(result, size, y)) result = host::positive_power(size, y);
  return host::with_sign(result, negative);
}

ISOBIT_CONTRACT_END
