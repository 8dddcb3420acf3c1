// Powers in pairs of binary64 numbers: the first phase of host_power.h, x^y = e^(y ln x) (quick_pairs.h and
// quick_exponential.h say how). 45 ns where fma is an instruction. Host only; thread-safe.
#pragma once

#include <bit>
#include <cstdint>

#include "contract/platform.h"
#include "contract/quick_exponential.h"
#include "contract/quick_pairs.h"

ISOBIT_CONTRACT_BEGIN

namespace host::quick {

// x^y of a positive normal x. Not decided: results that are subnormal or close to the largest number, exponents beyond
// 2^64 or below 2^-100, and midpoints.
struct Power {
  template <class Products>
  [[nodiscard]] static bool run(double& out, double x, double y) {
    const std::uint64_t size = std::bit_cast<std::uint64_t>(y) >> 52 & 2047;
    if (!is_positive_and_normal(x) || size < 1023 - 100 || size > 1023 + 64) return false;
    const Pair ln = logarithm<Products>(x);
    const Pair t = product<Products>({y, 0}, ln);  // its relative error is the logarithm's and 2^-100
    if (t.high > 710 || t.high < -746) {           // ln of the largest number is 709.8, of half the smallest -745.2
      out = t.high > 0 ? kInfinite : 0.0;
      return true;
    }
    const double distance = magnitude(t.high);
    return distance < 708 && round_exponential<Products>(out, t, distance * kLogarithmError);
  }
};

}  // namespace host::quick

ISOBIT_CONTRACT_END
