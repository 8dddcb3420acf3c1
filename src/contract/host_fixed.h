// Numbers of several words for host scalars: integers of 64-bit words, fixed point, and their rounding to binary64.
//
// Only integers compute, so nothing here depends on the C library, on the rounding mode, on flush-to-zero or on
// contraction. A unit is the last place of a fixed-point number; what an operation drops is stated in units, and
// callers add it up (host_functions.h). Host only; no state; thread-safe.
#pragma once

#include <bit>
#include <cstdint>

#include "contract/platform.h"

ISOBIT_CONTRACT_BEGIN

namespace host {

using Uint128 = unsigned __int128;

// A finite number other than 0: integer * 2^exponent, without its sign; the integer is odd.
struct Decoded {
  std::uint64_t integer = 0;
  std::int64_t exponent = 0;
};

[[nodiscard]] inline std::uint64_t bits_of_double(double x) { return std::bit_cast<std::uint64_t>(x); }
[[nodiscard]] inline bool is_negative(double x) { return bits_of_double(x) >> 63 != 0; }
[[nodiscard]] inline double magnitude(double x) { return std::bit_cast<double>(bits_of_double(x) & ~(1ull << 63)); }
[[nodiscard]] inline double with_sign(double x, bool negative) {
  return std::bit_cast<double>(bits_of_double(x) | static_cast<std::uint64_t>(negative) << 63);
}
inline constexpr double kInfinite = std::bit_cast<double>(0x7ff0000000000000ull);
inline constexpr double kNotANumber = std::bit_cast<double>(0x7ff8000000000000ull);

// Zeros by their bits: a comparison may take subnormals for zero.
[[nodiscard]] inline bool is_zero(double x) { return bits_of_double(x) << 1 == 0; }

[[nodiscard]] inline Decoded decode(double x) {
  const std::uint64_t bits = bits_of_double(x), fraction = bits & ((1ull << 52) - 1);
  const auto biased = static_cast<std::int64_t>(bits >> 52 & 0x7ff);
  const std::uint64_t integer = biased == 0 ? fraction : fraction | 1ull << 52;
  const int zeros = std::countr_zero(integer);
  return {integer >> zeros, (biased == 0 ? 1 : biased) - 1075 + zeros};
}

// integer * 2^exponent, which must be a binary64 number or beyond the largest (then infinite).
[[nodiscard]] inline double compose(std::uint64_t integer, std::int64_t exponent) {
  if (integer == 0) return 0.0;
  const int shift = std::countl_zero(integer) - 11;  // to 53 bits
  integer = shift >= 0 ? integer << shift : integer >> -shift;
  exponent -= shift;
  if (exponent > 971) return kInfinite;
  if (exponent < -1074) return std::bit_cast<double>(integer >> (-1074 - exponent));
  return std::bit_cast<double>((static_cast<std::uint64_t>(exponent + 1075) << 52) + (integer - (1ull << 52)));
}

// full[2n] = a[n] * b[n], little end first.
inline void multiply_words(const std::uint64_t* a, const std::uint64_t* b, int n, std::uint64_t* full) {
  for (int i = 0; i < 2 * n; ++i) full[i] = 0;
  for (int i = 0; i < n; ++i) {
    std::uint64_t carry = 0;
    for (int j = 0; j < n; ++j) {
      const Uint128 t = static_cast<Uint128>(a[i]) * b[j] + full[i + j] + carry;
      full[i + j] = static_cast<std::uint64_t>(t);
      carry = static_cast<std::uint64_t>(t >> 64);
    }
    full[i + n] = carry;
  }
}

// words[n] * 2^exponent rounded once to binary64, subnormals and overflow included.
[[nodiscard]] inline double round_words(const std::uint64_t* words, int n, std::int64_t exponent) {
  const auto bit = [&](std::int64_t i) {
    return i >= 0 && i < std::int64_t{64} * n && (words[i / 64] >> (i % 64) & 1) != 0;
  };
  int word = n - 1;
  while (word >= 0 && words[word] == 0) --word;
  if (word < 0) return 0.0;
  const std::int64_t top = 64 * word + 63 - std::countl_zero(words[word]);
  if (top + exponent > 1024) return kInfinite;
  std::int64_t last = top - 52;  // position of the last bit kept; a subnormal keeps fewer
  if (last + exponent < -1074) last = -1074 - exponent;
  std::uint64_t kept = 0;
  for (std::int64_t i = top; i >= last; --i) kept = kept << 1 | static_cast<std::uint64_t>(bit(i));
  bool rest = false;
  for (std::int64_t i = 0; i < last - 1 && !rest; ++i) rest = bit(i);
  if (bit(last - 1) && (rest || (kept & 1) != 0)) ++kept;
  return compose(kept, last + exponent);
}

// Not negative: 64 integer bits, the highest word, and kBits fraction bits.
template <int kWords>
struct Fixed {
  static constexpr int kBits = 64 * (kWords - 1);
  std::uint64_t word[kWords] = {};
};

template <int kWords>
[[nodiscard]] inline Fixed<kWords> whole(std::uint64_t integer) {
  Fixed<kWords> r;
  r.word[kWords - 1] = integer;
  return r;
}

template <int kWords>
[[nodiscard]] inline bool less(const Fixed<kWords>& a, const Fixed<kWords>& b) {
  for (int i = kWords - 1; i >= 0; --i) {
    if (a.word[i] != b.word[i]) return a.word[i] < b.word[i];
  }
  return false;
}

// The position of the highest bit, 0 that of a unit; -1 of zero.
template <int kWords>
[[nodiscard]] inline int highest_bit(const Fixed<kWords>& a) {
  for (int i = kWords - 1; i >= 0; --i) {
    if (a.word[i] != 0) return 64 * i + 63 - std::countl_zero(a.word[i]);
  }
  return -1;
}

template <int kWords>
[[nodiscard]] inline Fixed<kWords> add(const Fixed<kWords>& a, const Fixed<kWords>& b) {  // modulo 2^64
  Fixed<kWords> r;
  Uint128 t = 0;
  for (int i = 0; i < kWords; ++i) {
    t = (t >> 64) + a.word[i] + b.word[i];
    r.word[i] = static_cast<std::uint64_t>(t);
  }
  return r;
}

template <int kWords>
[[nodiscard]] inline Fixed<kWords> subtract(const Fixed<kWords>& a, const Fixed<kWords>& b) {  // modulo 2^64
  Fixed<kWords> r;
  std::uint64_t borrow = 0;
  for (int i = 0; i < kWords; ++i) {
    const Uint128 t = static_cast<Uint128>(a.word[i]) - b.word[i] - borrow;
    r.word[i] = static_cast<std::uint64_t>(t);
    borrow = static_cast<std::uint64_t>(t >> 64) & 1;
  }
  return r;
}

// Drops less than a unit.
template <int kWords>
[[nodiscard]] inline Fixed<kWords> multiply(const Fixed<kWords>& a, const Fixed<kWords>& b) {
  std::uint64_t full[2 * kWords];
  multiply_words(a.word, b.word, kWords, full);
  Fixed<kWords> r;
  for (int i = 0; i < kWords; ++i) r.word[i] = full[i + kWords - 1];
  return r;
}

template <int kWords>
[[nodiscard]] inline Fixed<kWords> multiply(const Fixed<kWords>& a, std::uint64_t b) {  // exact, modulo 2^64
  Fixed<kWords> r;
  Uint128 t = 0;
  for (int i = 0; i < kWords; ++i) {
    t = (t >> 64) + static_cast<Uint128>(a.word[i]) * b;
    r.word[i] = static_cast<std::uint64_t>(t);
  }
  return r;
}

// Drops less than a unit.
template <int kWords>
[[nodiscard]] inline Fixed<kWords> divide(const Fixed<kWords>& a, std::uint64_t b) {
  Fixed<kWords> r;
  Uint128 rest = 0;
  for (int i = kWords - 1; i >= 0; --i) {
    rest = rest << 64 | a.word[i];
    r.word[i] = static_cast<std::uint64_t>(rest / b);
    rest %= b;
  }
  return r;
}

template <int kWords>
[[nodiscard]] inline Fixed<kWords> shift_left(const Fixed<kWords>& a, std::int64_t by) {  // modulo 2^64
  Fixed<kWords> r;
  const std::int64_t words = by / 64, bits = by % 64;
  for (std::int64_t i = kWords - 1; i >= words; --i) {
    r.word[i] = a.word[i - words] << bits;
    if (bits != 0 && i > words) r.word[i] |= a.word[i - words - 1] >> (64 - bits);
  }
  return r;
}

// Drops less than a unit.
template <int kWords>
[[nodiscard]] inline Fixed<kWords> shift_right(const Fixed<kWords>& a, std::int64_t by) {
  Fixed<kWords> r;
  const std::int64_t words = by / 64, bits = by % 64;
  for (std::int64_t i = 0; i + words < kWords; ++i) {
    r.word[i] = a.word[i + words] >> bits;
    if (bits != 0 && i + words + 1 < kWords) r.word[i] |= a.word[i + words + 1] << (64 - bits);
  }
  return r;
}

// a / b for a < 2^63 b and b < 2^62; drops less than a unit. Bit by bit: slow, and plain to see.
template <int kWords>
[[nodiscard]] inline Fixed<kWords> divide(const Fixed<kWords>& a, const Fixed<kWords>& b) {
  Fixed<kWords> quotient, rest = a;
  int position = highest_bit(a) - highest_bit(b);  // of the quotient's highest bit, or one above it
  for (Fixed<kWords> scaled = shift_left(b, position > 0 ? position : 0); position > 0; --position) {
    if (!less(rest, scaled)) {
      rest = subtract(rest, scaled);
      quotient.word[kWords - 1] |= 1ull << position;
    }
    scaled = shift_right(scaled, 1);
  }
  for (int i = Fixed<kWords>::kBits; i >= 0; --i) {  // here rest < 2 b
    if (!less(rest, b)) {
      rest = subtract(rest, b);
      quotient.word[i / 64] |= 1ull << (i % 64);
    }
    rest = shift_left(rest, 1);
  }
  return quotient;
}

// integer * 2^exponent, without what lies below a unit.
template <int kWords>
[[nodiscard]] inline Fixed<kWords> fixed(std::uint64_t integer, std::int64_t exponent) {
  const Fixed<kWords> r = whole<kWords>(integer);
  return exponent >= 0 ? shift_left(r, exponent) : shift_right(r, -exponent);
}

// value * 2^exponent, where the true number lies within 2^error_bits units of value. False if not all of those round
// alike.
template <int kWords>
[[nodiscard]] inline bool round_fixed(const Fixed<kWords>& value, int error_bits, std::int64_t exponent, double& out) {
  if (error_bits >= Fixed<kWords>::kBits) return false;
  Fixed<kWords> error;
  error.word[error_bits / 64] = 1ull << (error_bits % 64);
  if (less(value, error)) return false;
  const std::int64_t unit = exponent - Fixed<kWords>::kBits;
  out = round_words(add(value, error).word, kWords, unit);
  return out == round_words(subtract(value, error).word, kWords, unit);
}

}  // namespace host

ISOBIT_CONTRACT_END
