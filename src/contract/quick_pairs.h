// Unevaluated sums of two binary64 numbers ("double-double"): the first phase of correctly rounded functions (Ziv's
// strategy). quick_exponential.h, quick_power.h and quick_angle.h compute a value with some twenty bits more than
// binary64 and a stated error; where all numbers within the error round alike the result is proven, else integers
// decide (host_functions.h). So the bits are the same with and without this phase, and on every machine.
//
// Error-free transformations are Knuth's and Dekker's (Muller et al., "Handbook of Floating-Point Arithmetic", 2nd ed.,
// sections 4.3 and 4.4; for pairs Joldes, Muller, Popescu, "Tight and rigorous error bounds for basic building blocks
// of double-word arithmetic", 2017). They hold where the machine rounds to nearest and nothing underflows: attempt()
// tests the first, each task's domain excludes the second; so flush-to-zero does not matter. Host only; no state.
#pragma once

#include <bit>
#include <cstdint>

#include "contract/host_series.h"
#include "contract/platform.h"

ISOBIT_CONTRACT_BEGIN

namespace host::quick {

// The number high + low; normalised: high is the sum rounded.
struct Pair {
  double high = 0, low = 0;
};

// a + b exactly.
[[nodiscard]] inline Pair sum(double a, double b) {
  const double s = a + b, back = s - a;
  return {s, (a - (s - back)) + (b - back)};
}
// The same where abs(a) >= abs(b), or a = 0.
[[nodiscard]] inline Pair ordered_sum(double a, double b) {
  const double s = a + b;
  return {s, b - (s - a)};
}

// a * b exactly, by either of two ways with the same bits. Fused: wherever fma is one instruction.
struct FusedProducts {
  [[nodiscard]] static double rest(double a, double b, double p) { return __builtin_fma(a, b, -p); }
};
// Veltkamp's halves of 26 bits; factors below 2^996.
struct SplitProducts {
  [[nodiscard]] static double head(double a) {
    const double c = a * 0x1.0000002p27;
    return c - (c - a);
  }
  [[nodiscard]] static double rest(double a, double b, double p) {
    const double ah = head(a), al = a - ah, bh = head(b), bl = b - bh;
    return ((ah * bh - p) + ah * bl + al * bh) + al * bl;
  }
};
template <class Products>
[[nodiscard]] inline Pair product(double a, double b) {
  const double p = a * b;
  return {p, Products::rest(a, b, p)};
}

// Relative error below 2^-100, for factors whose low parts are below 2^-51 of the high ones.
template <class Products>
[[nodiscard]] inline Pair product(const Pair& a, const Pair& b) {
  const Pair p = product<Products>(a.high, b.high);
  return ordered_sum(p.high, p.low + (a.high * b.low + a.low * b.high));
}
// Relative error below 2^-100. The first remainder is exact; the second quotient has the size of a last bit.
template <class Products>
[[nodiscard]] inline Pair quotient(const Pair& a, const Pair& b) {
  const double q = a.high / b.high;
  const Pair back = product<Products>(q, b.high);
  return ordered_sum(q, (((a.high - back.high) - back.low) + a.low - q * b.low) / b.high);
}
// a (1 + f) for abs(f) < 2^-6 with an error below 2^-104 of a and the one of f. f's low part may be 2^-16: its
// product adds an error of 2^-53 of it.
template <class Products>
[[nodiscard]] inline Pair enlarged(const Pair& a, const Pair& f) {
  const Pair change = product<Products>(a.high, f.high);
  const Pair s = ordered_sum(a.high, change.high);
  return ordered_sum(s.high, s.low + (a.low + (change.low + (a.high * f.low + a.low * f.high))));
}

// a + b for abs(a) >= abs(b), or a = 0; error below 2^-104 of the larger.
[[nodiscard]] inline Pair joined(const Pair& a, const Pair& b) {
  const Pair s = ordered_sum(a.high, b.high);
  return ordered_sum(s.high, s.low + (a.low + b.low));
}
// s (1 + share z / 3 + rest) for a share of 1, -1 or 1/2, z = s^2 < 2^-7: error below 2^-99 of s and the one of rest.
inline constexpr Pair kThird{0x1.5555555555555p-2, 0x1.5555555555555p-56};
template <class Products>
[[nodiscard]] inline Pair with_series(const Pair& s, const Pair& z, double share, double rest) {
  const Pair third = product<Products>(z, kThird);
  return enlarged<Products>(s, {share * third.high, share * third.low + rest});
}

// The nearest integer to abs(x) < 2^51, ties to even.
[[nodiscard]] inline double nearest(double x) {
  const double shifted = x + 0x1.8p52;
  return shifted - 0x1.8p52;
}

// For tables: a positive number and what its nearest binary64 number lacks; error below 2^-106 of it.
[[nodiscard]] inline Pair pair_of(const Fixed<5>& x) {
  constexpr std::int64_t kUnit = -Fixed<5>::kBits;
  const double high = round_words(x.word, 5, kUnit);
  if (is_zero(high)) return {};
  const Decoded decoded = decode(high);
  const Fixed<5> back = fixed<5>(decoded.integer, decoded.exponent);
  if (less(x, back)) return {high, -round_words(subtract(back, x).word, 5, kUnit)};
  return {high, round_words(subtract(x, back).word, 5, kUnit)};
}

// Whether all numbers within error of a pair round to one, out. The pair need not be normalised: each of the sums is
// one rounding of high + (low +- error), and rounding is monotone. error's own slack holds the rounding of low +-
// error.
[[nodiscard]] inline bool round_pair(const Pair& x, double error, double& out) {
  out = x.high + (x.low + error);
  return out == x.high + (x.low - error);
}

// Whether the machine rounds to nearest. volatile, so that no compiler computes it.
[[nodiscard]] inline bool rounds_to_nearest() {
  const volatile double kOne = 1.0;
  const double one = kOne;
  return one + 0x1p-60 == one && one - 0x1p-60 == one;
}

// Task::run of the arguments, true where it decided out. A machine whose baseline has no fma asks the CPU once more.
#if defined(__x86_64__) && !defined(__FMA__)
template <class Task, class... Arguments>
[[nodiscard]] __attribute__((target("fma"), flatten, noinline)) bool run_fused(double& out, Arguments... arguments) {
  return Task::template run<FusedProducts>(out, arguments...);
}
template <class Task, class... Arguments>
[[nodiscard]] inline bool attempt(double& out, Arguments... arguments) {
  if (!rounds_to_nearest()) return false;
  if (__builtin_cpu_supports("fma")) return run_fused<Task>(out, arguments...);
  return Task::template run<SplitProducts>(out, arguments...);
}
#else
#if defined(__FMA__) || defined(__FP_FAST_FMA) || defined(__aarch64__)
using Products = FusedProducts;
#else
using Products = SplitProducts;
#endif
template <class Task, class... Arguments>
[[nodiscard]] inline bool attempt(double& out, Arguments... arguments) {
  return rounds_to_nearest() && Task::template run<Products>(out, arguments...);
}
#endif

}  // namespace host::quick

ISOBIT_CONTRACT_END
