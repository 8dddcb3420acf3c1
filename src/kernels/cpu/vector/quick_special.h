// Quicker ways to the bits of functions_normal.h and functions_bessel.h, as quick_functions.h.
#pragma once

#include "contract/functions_bessel.h"
#include "contract/functions_normal.h"
#include "kernels/cpu/vector/quick_functions.h"

namespace isobit::kernels::ISOBIT_ISA::quick {

// (1 + 2 a) erfcx(a) for a >= 0, a polynomial of (a - 3) / (a + 3) to 2^-44 of it: see erfc in quick_functions.h.
inline double erfcx_of(double a) {
  const double u = (a - 3.0) / (a + 3.0);
  const double p =
      horner(u, 0x1.a8c3800d59b42p-25, -0x1.d0c8ac352f907p-26, -0x1.149b02e6469d8p-21, 0x1.6d473627294b1p-23,
             0x1.c2d0b7cd4c7adp-19, -0x1.229a449d8a7edp-21, -0x1.4feab25e6e304p-16, 0x1.43d6dc0638061p-18,
             0x1.06480c65b8064p-13, -0x1.b8db29db3c048p-14, -0x1.98da1dab3d854p-11, 0x1.ef1af910067b8p-10,
             0x1.4b88428c04b98p-9, -0x1.8574c1e8089abp-6, 0x1.17ca287f39807p-4, -0x1.e88b8044d0853p-4,
             0x1.098366a598421p-3, -0x1.85a15c5808650p-5, -0x1.15c084bb9e6b2p-3, 0x1.40c522d7e4920p+0);
  return p / plus(2.0, a, 1.0);
}
inline Near erfcx(float x) {
  const double t = static_cast<double>(x), a = __builtin_fabs(t), e = erfcx_of(a);
  return relative(t < 0.0 ? 2.0 * exp_of(t * t) - e : e, 0x1p-39);
}
// Below 0 ln(erfcx(a) / 2) - t^2 / 2, a = -t sqrt(1/2), two terms of one sign; from there on ln(1 - y) with
// y = erfc(a) / 2 <= 1/2, as -2 artanh(y / (2 - y)). Where the contract's erfc is +0, so is the result.
inline Near log_ndtr(float x) {
  const double t = static_cast<double>(x), a = __builtin_fabs(t) * contract::kRootHalf, half = 0.5 * (t * t);
  const double e = 0.5 * erfcx_of(a), y = exp_of(-half) * e;
  const double s = y / (2.0 - y), q = s * s;
  const double p = horner(q, 0x1.802ed5a89f869p-4, 0x1.e10f08eb77329p-5, 0x1.3ee3af3382273p-4, 0x1.741b9bce7c49ep-4,
                          0x1.c71f007db2364p-4, 0x1.24924200051a6p-3, 0x1.999999ad82fe0p-3, 0x1.555555554aaddp-2,
                          0x1.0000000000007p+0);
  const double above = a > 27.0 ? 0.0 : -2.0 * s * p, below = logarithm_of(e).value() - half;
  return relative(t < 0.0 ? below : above, 0x1p-39);
}

// erfinv and the normal quantile by the contract's quotients of polynomials (functions_normal.h), one division for
// both of them.
struct Quotient {
  double above, below;
};
inline Quotient quantile_middle(double q) {
  const double r = plus(-q, q, 0.180625);
  return {q * horner(r, 2509.0809287301226727, 33430.575583588128105, 67265.770927008700853, 45921.953931549871457,
                     13731.693765509461125, 1971.5909503065514427, 133.14166789178437745, 3.3871328727963666080),
          horner(r, 5226.4952788528545610, 28729.085735721942674, 39307.895800092710610, 21213.794301586595867,
                 5394.1960214247511077, 687.18700749205790830, 42.313330701600911252, 1.0)};
}
inline Quotient quantile_tail(double p) {  // of a probability from e^-25 on, at most e^-2.56
  const double s = __builtin_sqrt(-logarithm_of(p).value()) - 1.6;
  return {
      horner(s, 7.74545014278341407640e-4, 2.27238449892691845833e-2, 2.41780725177450611770e-1, 1.27045825245236838258,
             3.64784832476320460504, 5.76949722146069140550, 4.63033784615654529590, 1.42343711074968357734),
      horner(s, 1.05075007164441684324e-9, 5.47593808499534494600e-4, 1.51986665636164571966e-2,
             1.48103976427480074590e-1, 6.89767334985100004550e-1, 1.67638483018380384940, 2.05319162663775882187,
             1.0)};
}
inline double quantile(double q, double tail_probability, bool tail) {
  const Quotient middle = quantile_middle(q), outer = quantile_tail(tail ? tail_probability : 0.03125);
  const double above = tail ? (q < 0.0 ? -outer.above : outer.above) : middle.above;
  return above / (tail ? outer.below : middle.below);
}
// x times a polynomial of w = -ln(1 - x^2), to 2^-47 of it up to w = 5 (after Giles, "Approximating the erfinv
// function", GPU Computing Gems 2, 2011).
inline constexpr double kErfinvNear = 0.99609375;
inline Near erfinv_near(float x) {
  const double t = static_cast<double>(x), v = -2.5 - logarithm_of(plus(-t, t, 1.0)).value();
  const double p = horner(v, 0x1.5fd4a83d5303fp-50, -0x1.5e000937c6c94p-48, -0x1.3486ce29f408ap-44,
                          0x1.36f2275161becp-41, 0x1.e6955551ae613p-41, -0x1.125970aba3e2dp-35, 0x1.076589ace3f1fp-33,
                          0x1.f2f386a32e165p-31, -0x1.753319c66b634p-27, 0x1.ccfa7d94832cdp-27, 0x1.01038def53e43p-21,
                          -0x1.ca9222168d42ep-19, -0x1.4f47ffa444a2ap-18, 0x1.c9b437dfc2ae8p-13, -0x1.4863cdfb19fa7p-10,
                          -0x1.11c3c302c7399p-8, 0x1.f91e8993f0cbcp-3, 0x1.805c5cfcedee6p+0);
  return relative(p * t, 0x1p-42);
}
inline Near erfinv(float x) {
  const double t = static_cast<double>(x), a = __builtin_fabs(t);
  const double z = quantile(0.5 * t, (1.0 - a) * 0.5, a > 0.85);
  return relative(if_between(-1.0, t, 1.0, z * contract::kRootHalf), 0x1p-42);
}
// The contract's third quotient serves probabilities below e^-25.
inline Near ndtri(float x) {
  const double p = static_cast<double>(x), q = p - 0.5, outside = q < 0.0 ? p : 1.0 - p;
  return relative(if_between(0x1.e9p-37, p, 1.0, quantile(q, outside, __builtin_fabs(q) > 0.425)), 0x1p-42);
}

// I0(a) and I1(a) / a up to 10, polynomials of a^2; sqrt(a) e^-a I(a) from there on, polynomials of 1 / a; to 2^-44.
inline constexpr double kBesselNear = 10.0;
inline double bessel_near(double a, int order) {
  const double z = a * a;
  return order == 0
             ? horner(z, 0x1.87ae5bc5180a5p-110, 0x1.2d3c4b7ee5aacp-102, 0x1.192ec3b93e103p-91, 0x1.3691ead2cc553p-82,
                      0x1.6c0aa0afe4b86p-73, 0x1.55acecf4be112p-64, 0x1.0b3a4581ac967p-55, 0x1.5228d74630cc5p-47,
                      0x1.522a6d8762383p-39, 0x1.02e858a881d10p-31, 0x1.234567ea7d925p-24, 0x1.c71c71b8e2e23p-18,
                      0x1.c71c71c85fa67p-12, 0x1.ffffffffe1e58p-7, 0x1.00000000011b9p-2, 0x1.ffffffffffe45p-1)
             : horner(z, 0x1.76cbb9b902276p-115, 0x1.744a7a7cad8c0p-107, 0x1.38ab0e02f8f3cp-96, 0x1.81c541cb9c36bp-87,
                      0x1.e46f59502ca68p-78, 0x1.f129b49bba687p-69, 0x1.ab8a2846b0180p-60, 0x1.2c96b3508448dp-51,
                      0x1.522a56d2f5bafp-43, 0x1.27e4f9ef89e26p-35, 0x1.845c8a38cf160p-28, 0x1.6c16c168dd086p-21,
                      0x1.c71c71c765b93p-15, 0x1.5555555551ebcp-9, 0x1.0000000000202p-4, 0x1.fffffffffffe7p-2);
}
inline double bessel_far(double a, int order) {
  const double w = 1.0 / a;
  const double p =
      order == 0 ? horner(w, -0x1.052b8ed1eee94p+19, 0x1.14473b9a9cf95p+18, -0x1.f480497606ba6p+15,
                          0x1.03942ab4638a5p+13, -0x1.52765f15b2fc8p+9, 0x1.2b58efbd1f8bbp+5, -0x1.18db1c0fb3bbep+0,
                          0x1.f432bd787b128p-4, 0x1.6aa257126b8cdp-5, 0x1.deccd04e11bc5p-6, 0x1.cb94c8c588538p-6,
                          0x1.988453420fb78p-5, 0x1.9884533d43596p-2)
                 : horner(w, 0x1.149ffb38f6dfbp+19, -0x1.2562ae52017ccp+18, 0x1.0a4ce8deed734p+16,
                          -0x1.14c6ba911195bp+13, 0x1.6967798fb3295p+9, -0x1.40a8ebd7061eap+5, 0x1.2657a09c536b2p+0,
                          -0x1.27ffe5c71bbfdp-3, -0x1.d31232c0f1c12p-5, -0x1.4f2613e1eb663p-5, -0x1.7efc02d271e8ep-5,
                          -0x1.32633e6f3c9fcp-3, 0x1.9884533d43719p-2);
  return p * __builtin_sqrt(w);
}
// Of t = abs(x), without and with the factor e^-t; all: not only up to kBesselNear.
template <int order, bool scaled, bool all>
inline Near bessel(float x) {
  const double t = static_cast<double>(x), a = __builtin_fabs(t);
  const double e = all || scaled ? exp_of(scaled ? -a : a) : 1.0;
  double near = bessel_near(a, order);
  if (scaled) near = near * e;
  if (order == 1) near = near * t;
  if (!all) return relative(near, 0x1p-39);
  double far = bessel_far(a > kBesselNear ? a : kBesselNear, order);
  if (!scaled) far = a > 700.0 ? contract::kInfinityWide : far * e;
  if (order == 1) far = __builtin_copysign(far, t);
  return relative(a > kBesselNear ? far : a == a ? near : t, 0x1p-39);
}
inline Near i0(float x) { return bessel<0, false, true>(x); }
inline Near i0e(float x) { return bessel<0, true, true>(x); }
inline Near i1(float x) { return bessel<1, false, true>(x); }
inline Near i1e(float x) { return bessel<1, true, true>(x); }

}  // namespace isobit::kernels::ISOBIT_ISA::quick
