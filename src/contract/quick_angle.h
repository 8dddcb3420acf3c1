// Tangent and angles in pairs of binary64 numbers: the first phase of host_functions.h's tan and host_inverse.h's atan
// and atan2 (quick_pairs.h says how). 30 to 50 ns where fma is an instruction. Host only; thread-safe: the tables are
// made at first use, by integers.
//
// Both functions add up: tan(a + s) and atan(b) + atan((q - b) / (1 + q b)) with a table of steps of 1/64, so that
// abs(s), abs(t) < 2^-6.9 remain for Taylor's series. Errors are counted below and stated with room to spare.
#pragma once

#include <bit>
#include <cstdint>

#include "contract/host_series.h"
#include "contract/platform.h"
#include "contract/quick_pairs.h"

ISOBIT_CONTRACT_BEGIN

namespace host::quick {

struct AngleTables {
  Pair tangent[52];          // of j / 64, up to pi / 4 and a step
  Pair inverse_tangent[65];  // of j / 64
};
[[nodiscard]] __attribute__((noinline)) inline AngleTables make_angle_tables() {
  AngleTables t;
  for (std::uint64_t j = 1; j <= 64; ++j) {
    const Fixed<5> angle = divide(whole<5>(j), 64);
    t.inverse_tangent[j] = pair_of(host::inverse_tan(angle));
    if (j >= 52) continue;
    Fixed<5> sine, cosine;
    sine_and_cosine(angle, sine, cosine);
    t.tangent[j] = pair_of(divide(sine, cosine));
  }
  return t;
}
[[nodiscard]] inline const AngleTables& angle_tables() {
  static const AngleTables tables = make_angle_tables();
  return tables;
}

// x - n pi/2 for 0 <= x < 2^20, with an error below 2^-130 and 2^-100 of it.
//
// pi/2 in parts of 33, 33, 33 and 53 bits: n has 20 bits, so the first three products are exact, and the sums until low
// parts are added: those are below 2^-53 of r, or exact where the high parts cancel.
struct Turn {
  Pair r;
  std::int64_t n;
};
[[nodiscard]] inline Turn turn_of(double x) {
  const double n = nearest(x * 0x1.45f306dc9c883p-1);
  const Pair first = sum(x - n * 0x1.921fb544p+0, -(n * 0x1.0b4611a6p-34));  // the difference is exact
  const Pair second = sum(first.high, -(n * 0x1.3198a2ep-69));
  return {sum(second.high, (first.low + second.low) - n * 0x1.b839a252049c1p-104), static_cast<std::int64_t>(n)};
}

// tan r, or 1 / tan r, for 0 < r < pi/4 and little more: relative error below 2^-78 and twice that of r.
//
// The series' rest, z^2 (2/15 + ...) to s^10's, is below 2^-30.5: its roundings are below 2^-81, the terms left out
// 2^-80, both in units of s. Sum, product and quotient of pairs are exact to 2^-99, the table to 2^-105.
template <class Products>
[[nodiscard]] inline Pair tangent(const Pair& r, bool reciprocal) {
  const auto j = static_cast<std::int32_t>(nearest(r.high * 64));
  const Pair distance = sum(r.high, -(static_cast<double>(j) * 0x1p-6)), s = sum(distance.high, distance.low + r.low);
  const Pair z = product<Products>(s, s);
  const double v = z.high;
  const double rest = (v * v) * (2.0 / 15 + v * (17.0 / 315 + v * (62.0 / 2835 + v * (1382.0 / 155925))));
  const Pair u = with_series<Products>(s, z, 1, rest), a = angle_tables().tangent[j];
  const Pair above = joined(a, u), both = product<Products>(a, u);
  const Pair under = joined({1, 0}, {-both.high, -both.low});
  return reciprocal ? quotient<Products>(under, above) : quotient<Products>(above, under);
}

// tan x, 2^-27 <= x < 2^20, unless x is next to a multiple of pi/2.
struct Tangent {
  static constexpr double kError = 0x1p-70;  // relative; what is counted is below 2^-73
  template <class Products>
  [[nodiscard]] static bool run(double& out, double x) {
    if (!(x >= 0x1p-27 && x < 0x1p20)) return false;
    const Turn turn = turn_of(x);
    const bool below = turn.r.high < 0, odd = (turn.n & 1) != 0;
    const Pair r = below ? Pair{-turn.r.high, -turn.r.low} : turn.r;
    if (r.high < 0x1p-55) return false;  // above, turn_of's error is below 2^-75 of r
    const Pair t = tangent<Products>(r, odd);
    if (!round_pair(t, kError * t.high, out)) return false;
    out = with_sign(out, below != odd);
    return true;
  }
};

// atan(u / v), 2^-62 v < u <= v, v in [1/2, 2]: relative error below 2^-79.
//
// b = j / 64 nearest to u / v; t = (u - b v) / (v + b u): of pairs exact to 2^-99 of u and v (and where j = 0, of t).
// The series' rest, z^2 (1/5 - ...) to t^10's, is below 2^-29.9: its roundings are below 2^-81, the terms left out
// 2^-85, both in units of t; the table is exact to 2^-106.
template <class Products>
[[nodiscard]] inline Pair inverse_tangent(const Pair& u, const Pair& v) {
  const auto j = static_cast<std::int32_t>(nearest(u.high / v.high * 64));
  const double b = static_cast<double>(j) * 0x1p-6;
  const Pair less = product<Products>(b, v.high), more = product<Products>(b, u.high);
  const Pair difference = sum(u.high, -less.high), total = ordered_sum(v.high, more.high);
  const Pair t = quotient<Products>(sum(difference.high, difference.low + ((u.low - less.low) - b * v.low)),
                                    ordered_sum(total.high, total.low + (v.low + (more.low + b * u.low))));
  const Pair z = product<Products>(t, t);
  const double w = z.high;
  const double rest = (w * w) * (1.0 / 5 - w * (1.0 / 7 - w * (1.0 / 9 - w * (1.0 / 11))));
  return joined(angle_tables().inverse_tangent[j], with_series<Products>(t, z, -1, rest));
}

// The angle of (v, u), u <= v, to that of (u, v) where steep, to that of (-v, u) or (-u, v) where behind: pi/2 or pi
// with or without it, which cancels nothing.
[[nodiscard]] inline Pair turned(const Pair& angle, bool steep, bool behind) {
  if (!steep && !behind) return angle;
  constexpr Pair kQuarter{0x1.921fb54442d18p+0, 0x1.1a62633145c07p-54}, kHalf{2 * kQuarter.high, 2 * kQuarter.low};
  const Pair change = steep && behind ? angle : Pair{-angle.high, -angle.low};
  return joined(steep ? kQuarter : kHalf, change);
}

// The angle of (across, up), both positive, or of (-across, up) where behind. Not decided: subnormal numbers, and those
// of 2^62 times the other's size.
struct Angle {
  static constexpr double kError = 0x1p-70;  // relative; what is counted is below 2^-78
  template <class Products>
  [[nodiscard]] static bool run(double& out, double up, double across, bool behind) {
    std::uint64_t small = std::bit_cast<std::uint64_t>(up), large = std::bit_cast<std::uint64_t>(across);
    const bool steep = small > large;
    if (steep) small = std::bit_cast<std::uint64_t>(across), large = std::bit_cast<std::uint64_t>(up);
    if (small < 1ull << 52 || large >= 2047ull << 52 || large - small > 62ull << 52) return false;
    const std::uint64_t scale = ((large >> 52) - 1023) << 52;  // the larger into [1, 2)
    const Pair u{std::bit_cast<double>(small - scale), 0}, v{std::bit_cast<double>(large - scale), 0};
    const Pair angle = turned(inverse_tangent<Products>(u, v), steep, behind);
    return round_pair(angle, kError * angle.high, out);
  }
};

// sqrt((1 - x) (1 + x)), 2^-62 <= x < 1: relative error below 2^-99. The remainder of a root is exact.
template <class Products>
[[nodiscard]] inline Pair cathetus(double x) {
  const Pair square = product<Products>(ordered_sum(1, -x), ordered_sum(1, x));
  const double root = __builtin_sqrt(square.high);
  const Pair back = product<Products>(root, root);
  return ordered_sum(root, (((square.high - back.high) - back.low) + square.low) / (2 * root));
}

// asin x, and acos of x, or of -x where behind; 2^-62 <= x < 1.
struct InverseSine {
  template <class Products>
  [[nodiscard]] static bool run(double& out, double x) {
    if (!(x >= 0x1p-62 && x < 1)) return false;
    const Pair across = cathetus<Products>(x), up{x, 0};
    const bool steep = x > across.high;
    const Pair angle = turned(inverse_tangent<Products>(steep ? across : up, steep ? up : across), steep, false);
    return round_pair(angle, Angle::kError * angle.high, out);
  }
};
struct InverseCosine {
  template <class Products>
  [[nodiscard]] static bool run(double& out, double x, bool behind) {
    if (!(x >= 0x1p-62 && x < 1)) return false;
    const Pair up = cathetus<Products>(x), across{x, 0};
    const bool steep = up.high > x;
    const Pair angle = turned(inverse_tangent<Products>(steep ? across : up, steep ? up : across), steep, behind);
    return round_pair(angle, Angle::kError * angle.high, out);
  }
};

}  // namespace host::quick

ISOBIT_CONTRACT_END
