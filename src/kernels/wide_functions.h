// Element-wise functions that need not be fast: by binary64 formulas rounded once (contract/functions_wide.h), or exact
// (remainders, quotients, selections; contract, section 10).
//
// y may be one of the inputs. Thread-safe; uses the pool.
#pragma once

#include <cstdint>

namespace isobit::kernels {

enum class WideUnary {
  log2, log10, exp2, sinh, cosh, tan, asin, acos, atan, asinh, acosh, atanh, erfc,
  logit,    // ln(x / (1 - x))
  sinc,     // x = 0 ? 1 : sinpi(x) / RN(pi x)
  entropy,  // NaN ? NaN : x > 0 ? -x * log(x) : x = 0 ? +0 : -inf
};
void wide_unary(WideUnary op, const float* x, float* y, std::int64_t n);

enum class WideBinary {
  atan2, hypot, logaddexp, logaddexp2,
  fmod,          // exact, x's sign
  remainder,     // r = fmod(a, b); r + b where r is not 0 and of the other sign than b
  floor_divide,  // PyTorch's: docs/contract.md, section 10
  trunc_divide,  // trunc(a / b)
  copysign,      // b's sign; of a NaN plus
  fmaximum, fminimum,  // section 1's, but of a number and NaN the number
  heaviside,     // a NaN ? NaN : a < 0 ? 0 : a > 0 ? 1 : b
  xlog1py,       // a = 0 and b not NaN ? +0 : a * log1p(b)
  nextafter,
  logit_backward,  // (dy, x): x in [0, 1] ? dy / (x * (1 - x)) : NaN
};
void wide_binary(WideBinary op, const float* a, const float* b, float* y, std::int64_t n);

}  // namespace isobit::kernels
