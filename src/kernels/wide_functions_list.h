// The functions of wide_functions.h: a line each makes enum, implementations, certified operators, tests and golden
// values.
//
// Columns:
//   name
//   formula     of x, or of a and b, seen from namespace isobit::kernels::wide (kernels/formulas/wide_formulas.h)
//   build       vectorized: the vector builds take it in blocks; lanes: its formula is a template over lanes; quicker:
//   in
//               blocks by a shorter formula, and by the contract's where the shorter one's error leaves two results
//               (cpu/vector/quick_functions.h); rests: from fmod's results, which they find in blocks; scalar: they
//               leave it to the reference
//   operator    PyTorch's, without aten::
//   overloads   in_place: a new result, out and in place; no_in_place: the first two; by_hand: another signature or
//               integers of its own, written in aten/certified/wide_functions.cpp
//   section     the contract's, in words, or one of the names that aten/certified/wide_functions.cpp has for several
// Where a name does not say it:
//   logit         ln(x / (1 - x)); its gradient (dy, x): NaN for x outside [0, 1]
//   entropy       NaN ? NaN : x > 0 ? -x * log(x) : x = 0 ? +0 : -inf
//   fmod          exact, a's sign
//   remainder     r = fmod(a, b); r + b where r is not 0 and of the other sign than b
//   floor_divide  PyTorch's: docs/contract.md, section 10
//   trigamma      polygamma(1, x); polygamma takes its order as a
//   gamma_slope   d b / d a of a number b of the gamma distribution of shape a at a fixed probability
//   copysign      b's sign; of a NaN plus
//   fmaximum, fminimum   section 1's, but of a number and NaN the number
//   heaviside     a NaN ? NaN : a < 0 ? 0 : a > 0 ? 1 : b
#pragma once

// clang-format off
#define ISOBIT_WIDE_UNARY(f) \
  f(log2,    contract::log2(x),    quicker,     log2,          in_place,     written) \
  f(log10,   contract::log10(x),   quicker,     log10,         in_place,     written) \
  f(exp2,    contract::exp2(x),    quicker,     exp2,          in_place,     written) \
  f(sinh,    contract::sinh(x),    quicker,     sinh,          in_place,     written) \
  f(cosh,    contract::cosh(x),    quicker,     cosh,          in_place,     written) \
  f(tan,     contract::tan(x),     quicker,     tan,           in_place,     written) \
  f(asin,    contract::asin(x),    quicker,     asin,          in_place,     written) \
  f(acos,    contract::acos(x),    quicker,     acos,          in_place,     written) \
  f(atan,    contract::atan(x),    quicker,     atan,          in_place,     written) \
  f(asinh,   contract::asinh(x),   vectorized,  asinh,         in_place,     written) \
  f(acosh,   contract::acosh(x),   vectorized,  acosh,         in_place,     written) \
  f(atanh,   contract::atanh(x),   quicker,     atanh,         in_place,     written) \
  f(erfc,    contract::erfc(x),    quicker,     erfc,          in_place,     written) \
  f(erfinv,  contract::erfinv(x),  quicker,     erfinv,        in_place,     written) \
  f(lgamma,  contract::lgamma(x),  quicker,     lgamma,        in_place,     written) \
  f(digamma, contract::digamma(x), quicker,     digamma,       in_place,     written) \
  f(trigamma, contract::trigamma(x), scalar,    polygamma,     by_hand,      written) \
  f(i0,      contract::i0(x),      quicker,     i0,            in_place,     written) \
  f(i0e,     contract::i0e(x),     quicker,     special_i0e,   no_in_place,  written) \
  f(i1,      contract::i1(x),      quicker,     special_i1,    no_in_place,  written) \
  f(i1e,     contract::i1e(x),     quicker,     special_i1e,   no_in_place,  written) \
  f(ndtri,   contract::ndtri(x),   quicker,     special_ndtri, no_in_place,  written) \
  f(log_ndtr, contract::log_ndtr(x), quicker,   special_log_ndtr, no_in_place, written) \
  f(erfcx,   contract::erfcx(x),   quicker,     special_erfcx, no_in_place,  written) \
  f(logit,   contract::logit(x),   quicker,     logit,         by_hand,      written) \
  f(sinc,    sinc(x),              lanes,       sinc,          in_place,     "10: sinpi(x) / RN(pi x), 1 at 0") \
  f(entropy, entropy(x),           vectorized,  special_entr,  no_in_place,  "10: -x * log(x)")

#define ISOBIT_WIDE_BINARY(f) \
  f(atan2,         contract::atan2(a, b),       quicker,     atan2,           in_place,     written) \
  f(hypot,         contract::hypot(a, b),       vectorized,  hypot,           in_place,     written) \
  f(logaddexp,     contract::logaddexp(a, b),   quicker,     logaddexp,       no_in_place,  written) \
  f(logaddexp2,    contract::logaddexp2(a, b),  quicker,     logaddexp2,      no_in_place,  written) \
  f(fmod,          contract::exact_fmod(a, b),  rests,       fmod,            by_hand,      exact) \
  f(remainder,     remainder(a, b),             rests,       remainder,       by_hand,      exact) \
  f(floor_divide,  floor_divide(a, b),          rests,       floor_divide,    by_hand,      quotient) \
  f(trunc_divide,  ::truncf(a / b),             vectorized,  div,             by_hand,      quotient) \
  f(copysign,      copysign(a, b),              lanes,       copysign,        by_hand,      selection) \
  f(fmaximum,      fmaximum(a, b),              vectorized,  fmax,            by_hand,      selection) \
  f(fminimum,      fminimum(a, b),              vectorized,  fmin,            by_hand,      selection) \
  f(heaviside,     heaviside(a, b),             vectorized,  heaviside,       by_hand,      selection) \
  f(xlog1py,       xlog1py(a, b),               vectorized,  special_xlog1py, no_in_place,  "10: a = 0 ? +0 : a * log1p(b)") \
  f(zeta,          contract::zeta(a, b),        scalar,      special_zeta,    no_in_place,  written) \
  f(polygamma,     contract::polygamma(a, b),   scalar,      polygamma,       by_hand,      written) \
  f(igamma,        contract::igamma(a, b),      scalar,      igamma,          in_place,     written) \
  f(igammac,       contract::igammac(a, b),     scalar,      igammac,         in_place,     written) \
  f(gamma_slope,   contract::gamma_slope(a, b), scalar,      _standard_gamma_grad, by_hand, written) \
  f(nextafter,     contract::next_after(a, b),  lanes,       nextafter,       in_place,     exact) \
  f(logit_backward, logit_backward(a, b),       vectorized,  logit_backward,  by_hand,      "10: dy / (x * (1 - x))")
// clang-format on
