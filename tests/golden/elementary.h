// The elementary functions with a binary64 oracle each, and the meter that compares them.
//
// The oracles use the C library's binary64 functions (their error, a few units in the 53rd place, is 1e-8 ulp
// of binary32); prove_functions checks each worst case against MPFR.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <string>
#include <string_view>
#include <vector>

#include "golden/golden_file.h"
#include "kernels/fingerprint.h"
#include "kernels/pointwise.h"
#include "kernels/pointwise_list.h"

namespace isobit::golden {

enum class Symmetry { none, odd, even };

struct Elementary {
  const char* name;
  kernels::Unary op;
  double (*oracle)(double);
  Symmetry symmetry;
};

// sin(pi x) for any x: C23's rules for integers, exact reduction.
inline double oracle_sinpi(double x) {
  if (!std::isfinite(x)) return std::numeric_limits<double>::quiet_NaN();
  const double z = std::fmod(std::fabs(x), 2.0);
  const double folded = z <= 0.5 ? z : z <= 1.5 ? 1.0 - z : z - 2.0;
  return std::copysign(1.0, x) * (folded == 0.0 ? 0.0 : std::sin(3.14159265358979323846 * folded));
}
inline double oracle_cospi(double x) {
  if (!std::isfinite(x)) return std::numeric_limits<double>::quiet_NaN();
  const double z = std::fmod(std::fabs(x), 2.0);
  const double from_zero = 0.5 - (z <= 1.0 ? z : 2.0 - z);
  return from_zero == 0.0 ? 0.0 : std::sin(3.14159265358979323846 * from_zero);
}
inline double oracle_sigmoid(double x) { return x < -50.0 ? std::exp(x) : 1.0 / (1.0 + std::exp(-x)); }

inline constexpr Elementary kElementary[] = {
    {"exp", kernels::Unary::exp, [](double x) { return std::exp(x); }, Symmetry::none},
    {"expm1", kernels::Unary::expm1, [](double x) { return std::expm1(x); }, Symmetry::none},
    {"log", kernels::Unary::log, [](double x) { return std::log(x); }, Symmetry::none},
    {"log1p", kernels::Unary::log1p, [](double x) { return std::log1p(x); }, Symmetry::none},
    {"tanh", kernels::Unary::tanh, [](double x) { return std::tanh(x); }, Symmetry::odd},
    {"sigmoid", kernels::Unary::sigmoid, oracle_sigmoid, Symmetry::none},
    {"erf", kernels::Unary::erf, [](double x) { return std::erf(x); }, Symmetry::odd},
    {"sin", kernels::Unary::sin, [](double x) { return std::sin(x); }, Symmetry::odd},
    {"cos", kernels::Unary::cos, [](double x) { return std::cos(x); }, Symmetry::even},
    {"sinpi", kernels::Unary::sinpi, oracle_sinpi, Symmetry::odd},
    {"cospi", kernels::Unary::cospi, oracle_cospi, Symmetry::even},
    {"rsqrt", kernels::Unary::rsqrt, [](double x) { return 1.0 / std::sqrt(x); }, Symmetry::none},
};

// A function of its own in the list of kernels has a proof: with a new line there, this does not compile before it has
// a line here.
namespace detail {
struct Listed {
  kernels::Unary op;
  std::string_view section;
};
inline constexpr std::string_view function = "a function of its own";  // that column's word
#define ISOBIT_LISTED(name, formula, operator_name, overloads, section) Listed{kernels::Unary::name, section},
inline constexpr Listed kListed[] = {ISOBIT_UNARY(ISOBIT_LISTED)};
#undef ISOBIT_LISTED

constexpr bool every_function_is_elementary() {
  for (const Listed& listed : kListed) {
    bool found = listed.section != function;
    for (const Elementary& elementary : kElementary) found = found || elementary.op == listed.op;
    if (!found) return false;
  }
  return true;
}
static_assert(every_function_is_elementary(), "kElementary lacks a function of pointwise_list.h");
}  // namespace detail

// |got - exact| in units of exact's binade (2^-149 below 2^-126), an infinity standing for 2^128; 0 or
// infinite where exact is NaN, infinite, or beyond 2^128. A zero must be a zero.
inline double error_in_ulps(float got, double exact) {
  constexpr double kWrong = std::numeric_limits<double>::infinity();
  if (std::isnan(exact) || std::isnan(got)) return std::isnan(exact) && std::isnan(got) ? 0.0 : kWrong;
  const double size = std::fabs(exact);
  if (size >= 0x1p128) return std::isinf(got) && std::signbit(got) == std::signbit(exact) ? 0.0 : kWrong;
  if (size == 0.0) return got == 0.0f ? 0.0 : kWrong;
  const double value = std::isinf(got) ? std::copysign(0x1p128, got) : static_cast<double>(got);
  const double difference = std::fabs(value - exact);
  if (difference == 0.0) return 0.0;
  return difference / (size < 0x1p-126 ? 0x1p-149 : std::ldexp(1.0, std::ilogb(size) - 23));
}

// Of the results for every 4093rd bit pattern, by the active implementation.
inline kernels::Fingerprint fingerprint_of_sample(kernels::Unary op) {
  std::vector<float> x;
  for (std::uint64_t pattern = 0; pattern < 1ull << 32; pattern += 4093) {
    x.push_back(std::bit_cast<float>(static_cast<std::uint32_t>(pattern)));
  }
  const auto n = static_cast<std::int64_t>(x.size());
  kernels::unary(op, x.data(), x.data(), n);
  return kernels::element_sums(x.data(), 0, n);
}

}  // namespace isobit::golden
