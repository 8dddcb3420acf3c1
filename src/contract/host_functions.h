// Correctly rounded binary64 functions of host scalars (contract, section 1): what Python's ** and math.* are in
// optimizers, learning-rate schedules and initial weights while the switch is on.
//
// The bits are those of the exact value rounded once to nearest even, on every machine. Where quick_pairs.h's first
// phase proves them (all but some in ten thousand numbers of everyday size), it takes 12 to 50 ns; else, and for the
// functions that have none, only integers compute (host_series.h). How: a series in fixed point of 256 fraction bits
// with a stated error; where all numbers within the error round alike the result is proven, else 512 and 1024 bits
// (Ziv, as in host_scalars.h). Before that, arguments whose exact value is a binary64 number, or a midpoint of two, are
// found: there no width would decide. Where 1024 bits did not decide, the result would be the nearest of their value;
// chance 2^-900.
//
// Special values are C's (Annex F). Integers take 3 to 70 microseconds a call; the first of some compute constants (a
// millisecond). Host only; thread-safe.
#pragma once

#include <bit>
#include <cstdint>

#include "contract/host_fixed.h"
#include "contract/host_scalars.h"
#include "contract/host_series.h"
#include "contract/platform.h"
#include "contract/quick_angle.h"
#include "contract/quick_exponential.h"

ISOBIT_CONTRACT_BEGIN

// ---- exponentials

[[nodiscard]] inline double exp_rounded(double x) {
  if (host::is_nan(x)) return host::kNotANumber;
  const bool negative = host::is_negative(x);
  const double size = host::magnitude(x);
  if (size < 0x1p-54) return 1.0;
  if (size > 746) return negative ? 0.0 : host::kInfinite;
  double quick = 0;
  if (host::quick::attempt<host::quick::Exponential>(quick, x)) return quick;
  return host::decided([&]<int kWords>(double& out) {
    const auto e = host::exponential(host::fixed_of<kWords>(size), negative);
    return host::round_fixed(e.value, 17, e.exponent, out);
  });
}

[[nodiscard]] inline double exp2_rounded(double x) {
  if (host::is_nan(x)) return host::kNotANumber;
  const bool negative = host::is_negative(x);
  const double size = host::magnitude(x);
  if (size < 0x1p-54) return 1.0;
  if (size > 1075) return negative ? 0.0 : host::kInfinite;
  double quick = 0;
  if (host::quick::attempt<host::quick::ExponentialOfTwo>(quick, x)) return quick;
  return host::decided([&]<int kWords>(double& out) {
    host::Fixed<kWords> fraction = host::fixed_of<kWords>(size);
    auto n = static_cast<std::int64_t>(fraction.word[kWords - 1]);
    fraction.word[kWords - 1] = 0;
    if (host::highest_bit(fraction) < 0) {  // exact
      constexpr std::uint64_t kOne = 1;
      out = host::round_words(&kOne, 1, negative ? -n : n);
      return true;
    }
    if (negative) {
      fraction = host::subtract(host::whole<kWords>(1), fraction);
      n = -n - 1;
    }
    return host::round_fixed(host::exponential_series(host::multiply(fraction, host::ln2<kWords>())), 14, n, out);
  });
}

// e^x - 1
[[nodiscard]] inline double expm1_rounded(double x) {
  if (host::is_nan(x)) return host::kNotANumber;
  const bool negative = host::is_negative(x);
  const double size = host::magnitude(x);
  if (size < 0x1p-54) return x;
  if (negative ? size > 100 : size > 746) return negative ? -1.0 : host::kInfinite;
  const double result = host::decided([&]<int kWords>(double& out) {
    const host::Fixed<kWords> one = host::whole<kWords>(1);
    const auto e = host::exponential(host::fixed_of<kWords>(size), negative);
    if (negative) return host::round_fixed(host::subtract(one, host::shift_right(e.value, -e.exponent)), 18, 0, out);
    return host::round_fixed(host::subtract(e.value, host::shift_right(one, e.exponent)), 18, e.exponent, out);
  });
  return host::with_sign(result, negative);
}

namespace host {

// e^t = value * 2^exponent and e^-t = inverse * 2^exponent; errors below 2^18 units.
template <int kWords>
struct ExponentialPair {
  Fixed<kWords> value, inverse;
  std::int64_t exponent = 0;
};
template <int kWords>
[[nodiscard]] inline ExponentialPair<kWords> exponential_pair(double t) {
  const auto e = exponential(fixed_of<kWords>(t), false);
  return {e.value, shift_right(divide(whole<kWords>(1), e.value), 2 * e.exponent), e.exponent};
}

}  // namespace host

[[nodiscard]] inline double sinh_rounded(double x) {
  if (host::is_nan(x)) return host::kNotANumber;
  const double size = host::magnitude(x);
  if (size < 0x1p-27) return x;
  if (size > 711) return host::with_sign(host::kInfinite, host::is_negative(x));
  double quick = 0;
  if (host::quick::attempt<host::quick::HyperbolicSine>(quick, size))
    return host::with_sign(quick, host::is_negative(x));
  const double result = host::decided([&]<int kWords>(double& out) {
    const auto e = host::exponential_pair<kWords>(size);
    return host::round_fixed(host::subtract(e.value, e.inverse), 19, e.exponent - 1, out);
  });
  return host::with_sign(result, host::is_negative(x));
}

[[nodiscard]] inline double cosh_rounded(double x) {
  if (host::is_nan(x)) return host::kNotANumber;
  const double size = host::magnitude(x);
  if (size < 0x1p-28) return 1.0;
  if (size > 711) return host::kInfinite;
  double quick = 0;
  if (host::quick::attempt<host::quick::HyperbolicCosine>(quick, size)) return quick;
  return host::decided([&]<int kWords>(double& out) {
    const auto e = host::exponential_pair<kWords>(size);
    return host::round_fixed(host::add(e.value, e.inverse), 19, e.exponent - 1, out);
  });
}

[[nodiscard]] inline double tanh_rounded(double x) {
  if (host::is_nan(x)) return host::kNotANumber;
  const double size = host::magnitude(x);
  if (size < 0x1p-27) return x;
  if (size > 20) return host::with_sign(1.0, host::is_negative(x));
  const double result = host::decided([&]<int kWords>(double& out) {
    const auto e = host::exponential_pair<kWords>(size);
    return host::round_fixed(host::divide(host::subtract(e.value, e.inverse), host::add(e.value, e.inverse)), 21, 0,
                             out);
  });
  return host::with_sign(result, host::is_negative(x));
}

// ---- logarithms

namespace host {

// Whether x decides a logarithm without a series: NaN, zeros, negative numbers, infinity, 1.
[[nodiscard]] inline bool logarithm_is_special(double x, double& out) {
  if (is_zero(x)) {
    out = -kInfinite;
  } else if (is_nan(x) || is_negative(x)) {
    out = kNotANumber;
  } else if (x == kInfinite) {
    out = kInfinite;
  } else if (x == 1) {
    out = 0.0;
  } else {
    return false;
  }
  return true;
}

template <int kWords>
[[nodiscard]] inline bool round_logarithm(const Logarithm<kWords>& x, int error_bits, double& out) {
  const bool settled = round_fixed(x.value, error_bits, 0, out);
  out = with_sign(out, x.negative);
  return settled;
}

// Over ln 2 or ln 10, of an error below 64 units: quotients below 1100, so 2^17 units hold all errors.
template <int kWords>
[[nodiscard]] inline Logarithm<kWords> in_base(const Logarithm<kWords>& x, const Fixed<kWords>& ln_base) {
  return {divide(x.value, ln_base), x.negative};
}

}  // namespace host

[[nodiscard]] inline double log_rounded(double x) {
  double special = 0;
  if (host::logarithm_is_special(x, special)) return special;
  double quick = 0;
  if (host::quick::attempt<host::quick::NaturalLogarithm>(quick, x)) return quick;
  return host::decided(
      [&]<int kWords>(double& out) { return host::round_logarithm(host::logarithm_of<kWords>(x), 15, out); });
}

[[nodiscard]] inline double log2_rounded(double x) {
  double special = 0;
  if (host::logarithm_is_special(x, special)) return special;
  const host::Decoded exact = host::decode(x);
  if (exact.integer == 1) return static_cast<double>(exact.exponent);
  double quick = 0;
  if (host::quick::attempt<host::quick::LogarithmOf<host::quick::Two>>(quick, x)) return quick;
  return host::decided([&]<int kWords>(double& out) {
    return host::round_logarithm(host::in_base(host::logarithm_of<kWords>(x), host::ln2<kWords>()), 17, out);
  });
}

[[nodiscard]] inline double log10_rounded(double x) {
  double special = 0;
  if (host::logarithm_is_special(x, special)) return special;
  double quick = 0;
  if (host::quick::attempt<host::quick::LogarithmOf<host::quick::Ten>>(quick, x)) return quick;
  double power = 1;  // exact up to 10^22; higher ones are no binary64 numbers
  for (int n = 0; n <= 22; ++n, power *= 10) {
    if (x == power) return n;
  }
  return host::decided([&]<int kWords>(double& out) {
    static const host::Fixed<kWords> kLn10 = host::logarithm(host::whole<kWords>(10), 0).value;
    return host::round_logarithm(host::in_base(host::logarithm_of<kWords>(x), kLn10), 17, out);
  });
}

// log(1 + x)
[[nodiscard]] inline double log1p_rounded(double x) {
  if (host::is_nan(x) || x < -1) return host::kNotANumber;
  if (x == -1) return -host::kInfinite;
  if (x == host::kInfinite || host::magnitude(x) < 0x1p-54) return x;
  const host::Decoded exact = host::decode(x);
  const std::int64_t scale = x > 1 ? host::binade(exact) : 0;  // 1 + x = number * 2^scale, within a unit
  return host::decided([&]<int kWords>(double& out) {
    const auto size = host::fixed<kWords>(exact.integer, exact.exponent - scale);
    const auto one = host::shift_right(host::whole<kWords>(1), scale);
    const auto number = host::is_negative(x) ? host::subtract(one, size) : host::add(one, size);
    return host::round_logarithm(host::logarithm(number, scale), 16, out);
  });
}

// ---- trigonometry

[[nodiscard]] inline double sin_rounded(double x) {
  const double size = host::magnitude(x);
  if (!(size < host::kInfinite)) return host::kNotANumber;
  if (size < 0x1p-27) return x;
  bool negative = false;
  const double result = host::decided([&]<int kWords>(double& out) {
    const auto t = host::quarters_of<kWords>(size);
    negative = host::is_negative(x) != (t.quarters >= 2);
    return host::round_fixed((t.quarters % 2 == 1) != t.mirrored ? t.cosine : t.sine, 4, 0, out);
  });
  return host::with_sign(result, negative);
}

[[nodiscard]] inline double cos_rounded(double x) {
  const double size = host::magnitude(x);
  if (!(size < host::kInfinite)) return host::kNotANumber;
  if (size < 0x1p-28) return 1.0;
  bool negative = false;
  const double result = host::decided([&]<int kWords>(double& out) {
    const auto t = host::quarters_of<kWords>(size);
    negative = t.quarters == 1 || t.quarters == 2;
    return host::round_fixed((t.quarters % 2 == 1) != t.mirrored ? t.sine : t.cosine, 4, 0, out);
  });
  return host::with_sign(result, negative);
}

namespace host {

[[nodiscard]] inline double tan_by_integers(double x) {  // 2^-27 <= x
  bool negative = false;
  const double result = decided([&]<int kWords>(double& out) {
    const auto t = quarters_of<kWords>(x);
    negative = t.quarters % 2 == 1;
    const bool swapped = negative != t.mirrored;
    const auto& below = swapped ? t.sine : t.cosine;
    // The divisor is at least 2^-small (2^-62 for the nearest of all arguments), the quotient at most 2^small.
    const int small = Fixed<kWords>::kBits - highest_bit(below);
    if (small > 62) return false;
    return round_fixed(divide(swapped ? t.cosine : t.sine, below), 6 + 2 * small, 0, out);
  });
  return with_sign(result, negative);
}

}  // namespace host

[[nodiscard]] inline double tan_rounded(double x) {
  const double size = host::magnitude(x);
  if (!(size < host::kInfinite)) return host::kNotANumber;
  if (size < 0x1p-27) return x;
  double result = 0;
  if (!host::quick::attempt<host::quick::Tangent>(result, size)) result = host::tan_by_integers(size);
  return host::with_sign(host::magnitude(result), host::is_negative(result) != host::is_negative(x));
}

// ---- error function

namespace host {

// 2 / sqrt(pi), by Newton from 54 bits, which five steps make more than 1024; error below 2^6 units.
template <int kWords>
[[nodiscard]] inline const Fixed<kWords>& two_over_root_pi() {
  static const Fixed<kWords> value = [] {
    const Fixed<kWords> one = whole<kWords>(1), pi = shift_left(leading_words<kWords>(pi_constants().half_pi), 1);
    Fixed<kWords> y = fixed_of<kWords>(0.5641895835477563);
    for (int i = 0; i < 5; ++i) {
      const Fixed<kWords> square = multiply(pi, multiply(y, y));
      const bool above = less(one, square);
      const Fixed<kWords> change = shift_right(multiply(y, above ? subtract(square, one) : subtract(one, square)), 1);
      y = above ? subtract(y, change) : add(y, change);
    }
    return shift_left(y, 1);
  }();
  return value;
}

}  // namespace host

// 2 / sqrt(pi) x e^-z (1 + 2z/3 (1 + 2z/5 (1 + ...))), z = x^2. The sum is below 2^50 for x < 6; an error of z of 3
// units changes it by less than 2^4 times its size, so that 2^60 units hold all errors.
[[nodiscard]] inline double erf_rounded(double x) {
  if (host::is_nan(x)) return host::kNotANumber;
  const double size = host::magnitude(x);
  if (host::is_zero(x)) return x;
  if (size >= 6) return host::with_sign(1.0, host::is_negative(x));  // 1 - erf(6) < 2^-55
  const host::Decoded exact = host::decode(size);
  const std::int64_t scale = host::binade(exact);
  const double result = host::decided([&]<int kWords>(double& out) {
    const auto one = host::whole<kWords>(1), argument = host::fixed<kWords>(exact.integer, exact.exponent);
    const auto z = host::multiply(argument, argument), twice = host::shift_left(z, 1);
    auto sum = one;
    for (std::uint64_t i = host::Fixed<kWords>::kBits; i >= 1; --i) {
      sum = host::add(one, host::divide(host::multiply(twice, sum), 2 * i + 1));
    }
    const auto e = host::exponential(z, true);
    const auto bracket = host::multiply(sum, host::shift_right(e.value, -e.exponent));
    const auto mantissa = host::fixed<kWords>(exact.integer, exact.exponent - scale);
    const auto product = host::multiply(host::multiply(bracket, host::two_over_root_pi<kWords>()), mantissa);
    return host::round_fixed(product, 60, scale, out);
  });
  return host::with_sign(result, host::is_negative(x));
}

ISOBIT_CONTRACT_END
