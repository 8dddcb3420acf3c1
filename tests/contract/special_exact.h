// What MPFR has no function for, at some 300 bits, with MPFR's signature: inverses by Newton's steps from a double's
// accuracy, Bessel functions by their power series, trigamma by recurrence and asymptotic series.
#pragma once

#include <mpfr.h>

#include <cmath>

#include "contract/functions_normal.h"

namespace isobit::contract {

// Numbers that live as long as the scope.
template <int kCount>
struct Numbers {
  mpfr_t n[kCount];
  explicit Numbers(mpfr_prec_t bits = 400) {
    for (auto& each : n) mpfr_init2(each, bits);
  }
  ~Numbers() {
    for (auto& each : n) mpfr_clear(each);
  }
  Numbers(const Numbers&) = delete;
  Numbers& operator=(const Numbers&) = delete;
};
inline constexpr mpfr_rnd_t kNear = MPFR_RNDN;

// Newton's steps for erf(y) = x; a start of too few digits would not get there.
inline int exact_erfinv(mpfr_t y, const mpfr_t x, mpfr_rnd_t round) {
  const float at = mpfr_get_flt(x, kNear);
  mpfr_set_flt(y, erfinv(at), round);
  if (!(std::fabs(at) < 1.0f) || at == 0.0f) return 0;
  Numbers<4> t;
  auto& [value, slope, root_pi, z] = t.n;
  mpfr_const_pi(root_pi, kNear);
  mpfr_sqrt(root_pi, root_pi, kNear);
  mpfr_set(z, y, kNear);
  for (int step = 0; step < 4; ++step) {
    mpfr_erf(value, z, kNear);
    mpfr_sub(value, value, x, kNear);
    mpfr_sqr(slope, z, kNear);
    mpfr_exp(slope, slope, kNear);
    mpfr_mul(slope, slope, root_pi, kNear);
    mpfr_mul(value, value, slope, kNear);
    mpfr_div_2ui(value, value, 1, kNear);
    mpfr_sub(z, z, value, kNear);
  }
  return mpfr_set(y, z, round);
}
// The same for erfc(-z / sqrt(2)) / 2 = p.
inline int exact_ndtri(mpfr_t y, const mpfr_t p, mpfr_rnd_t round) {
  const float at = mpfr_get_flt(p, kNear);
  mpfr_set_flt(y, ndtri(at), round);
  if (!(at > 0.0f && at < 1.0f) || at == 0.5f) return 0;
  Numbers<5> t;
  auto& [value, slope, root, z, scaled] = t.n;
  mpfr_const_pi(root, kNear);
  mpfr_mul_2ui(root, root, 1, kNear);
  mpfr_sqrt(root, root, kNear);
  mpfr_set(z, y, kNear);
  for (int step = 0; step < 5; ++step) {
    mpfr_sqrt_ui(scaled, 2, kNear);
    mpfr_div(scaled, z, scaled, kNear);
    mpfr_neg(scaled, scaled, kNear);
    mpfr_erfc(value, scaled, kNear);
    mpfr_div_2ui(value, value, 1, kNear);
    mpfr_sub(value, value, p, kNear);
    mpfr_sqr(slope, scaled, kNear);
    mpfr_exp(slope, slope, kNear);
    mpfr_mul(slope, slope, root, kNear);
    mpfr_mul(value, value, slope, kNear);
    mpfr_sub(z, z, value, kNear);
  }
  return mpfr_set(y, z, round);
}
inline int exact_erfcx(mpfr_t y, const mpfr_t x, mpfr_rnd_t round) {
  Numbers<2> t;
  auto& [square, value] = t.n;
  if (mpfr_inf_p(x)) {
    mpfr_set_inf(y, 1);
    return mpfr_sgn(x) > 0 ? mpfr_set_zero(y, 1), 0 : 0;
  }
  mpfr_sqr(square, x, kNear);
  if (mpfr_cmp_ui(x, 1000) > 0) {  // 1 / (x sqrt(pi)) (1 - 1 / (2 x^2) + 3 / (4 x^4) - 15 / (8 x^6) + 105 / (16 x^8))
    mpfr_ui_div(square, 1, square, kNear);
    mpfr_set_d(value, 105.0 / 16, kNear);
    for (const double c : {-15.0 / 8, 3.0 / 4, -0.5, 1.0}) {
      mpfr_mul(value, value, square, kNear);
      mpfr_add_d(value, value, c, kNear);
    }
    mpfr_const_pi(square, kNear);
    mpfr_sqrt(square, square, kNear);
    mpfr_mul(square, square, x, kNear);
    return mpfr_div(y, value, square, round);
  }
  mpfr_exp(square, square, kNear);
  mpfr_erfc(value, x, kNear);
  return mpfr_mul(y, square, value, round);
}
inline int exact_log_ndtr(mpfr_t y, const mpfr_t x, mpfr_rnd_t round) {
  Numbers<2> t;
  auto& [scaled, value] = t.n;
  if (mpfr_inf_p(x)) {
    mpfr_set_inf(y, -1);
    return mpfr_sgn(x) > 0 ? mpfr_set_zero(y, 1), 0 : 0;
  }
  mpfr_sqrt_ui(scaled, 2, kNear);
  mpfr_div(scaled, x, scaled, kNear);
  if (mpfr_cmp_si(x, -100) < 0) {  // ln(erfcx(-x / sqrt(2)) / 2) - x^2 / 2
    mpfr_neg(scaled, scaled, kNear);
    exact_erfcx(value, scaled, kNear);
    mpfr_div_2ui(value, value, 1, kNear);
    mpfr_log(value, value, kNear);
    mpfr_sqr(scaled, scaled, kNear);
    return mpfr_sub(y, value, scaled, round);
  }
  const bool above = mpfr_sgn(x) > 0;
  if (!above) mpfr_neg(scaled, scaled, kNear);
  mpfr_erfc(value, scaled, kNear);
  mpfr_div_2ui(value, value, 1, kNear);
  if (!above) return mpfr_log(y, value, round);
  mpfr_neg(value, value, kNear);
  return mpfr_log1p(y, value, round);
}

// The power series; beyond 400 the asymptotic one of e^-x I(x), to fourteen terms.
inline int exact_bessel(mpfr_t y, const mpfr_t x, unsigned order, bool scaled, mpfr_rnd_t round) {
  Numbers<4> t(300);
  auto& [a, square, term, sum] = t.n;
  mpfr_abs(a, x, kNear);
  const int sign = order == 1 && mpfr_signbit(x) != 0 ? -1 : 1;
  if (mpfr_inf_p(x)) {
    if (scaled) {
      mpfr_set_zero(y, sign);
    } else {
      mpfr_set_inf(y, sign);
    }
    return 0;
  }
  if (mpfr_cmp_ui(a, 400) > 0) {
    if (!scaled) {
      mpfr_set_inf(y, sign);
      return 0;
    }
    mpfr_set_ui(term, 1, kNear), mpfr_set_ui(sum, 1, kNear);
    for (unsigned k = 1; k <= 14; ++k) {
      mpfr_mul_si(term, term, static_cast<long>((2 * k - 1) * (2 * k - 1)) - static_cast<long>(4 * order), kNear);
      mpfr_div_ui(term, term, 8 * k, kNear);
      mpfr_div(term, term, a, kNear);
      mpfr_add(sum, sum, term, kNear);
    }
    mpfr_const_pi(square, kNear);
    mpfr_mul(square, square, a, kNear);
    mpfr_mul_2ui(square, square, 1, kNear);
    mpfr_sqrt(square, square, kNear);
    mpfr_div(sum, sum, square, kNear);
    return mpfr_mul_si(y, sum, sign, round);
  }
  mpfr_sqr(square, a, kNear);
  mpfr_div_2ui(square, square, 2, kNear);
  mpfr_set_ui(term, 1, kNear);
  if (order == 1) mpfr_div_2ui(term, a, 1, kNear);
  mpfr_set(sum, term, kNear);
  for (unsigned k = 1; k < 1500; ++k) {
    mpfr_mul(term, term, square, kNear);
    mpfr_div_ui(term, term, k * (k + order), kNear);
    mpfr_add(sum, sum, term, kNear);
    if (mpfr_zero_p(term) != 0 || mpfr_get_exp(term) < mpfr_get_exp(sum) - 200) break;
  }
  if (scaled) {
    mpfr_neg(square, a, kNear);
    mpfr_exp(square, square, kNear);
    mpfr_mul(sum, sum, square, kNear);
  }
  return mpfr_mul_si(y, sum, sign, round);
}
inline int exact_i0(mpfr_t y, const mpfr_t x, mpfr_rnd_t round) { return exact_bessel(y, x, 0, false, round); }
inline int exact_i0e(mpfr_t y, const mpfr_t x, mpfr_rnd_t round) { return exact_bessel(y, x, 0, true, round); }
inline int exact_i1(mpfr_t y, const mpfr_t x, mpfr_rnd_t round) { return exact_bessel(y, x, 1, false, round); }
inline int exact_i1e(mpfr_t y, const mpfr_t x, mpfr_rnd_t round) { return exact_bessel(y, x, 1, true, round); }

// (psi(x + h) - psi(x - h)) / 2h with MPFR's digamma, h = 2^-150 of x or of the distance to the next pole, at 450 bits.
inline int exact_trigamma(mpfr_t y, const mpfr_t x, mpfr_rnd_t round) {
  Numbers<4> t(450);
  auto& [step, above, below, at] = t.n;
  if (mpfr_inf_p(x) || mpfr_zero_p(x) || (mpfr_sgn(x) < 0 && mpfr_integer_p(x))) {
    mpfr_set_inf(y, 1);
    if (mpfr_inf_p(x) && mpfr_sgn(x) > 0) mpfr_set_zero(y, 1);
    return 0;
  }
  mpfr_set(step, x, kNear);
  if (mpfr_cmp_si(x, -1) < 0) {
    mpfr_rint(step, x, kNear);
    mpfr_sub(step, x, step, kNear);
  }
  mpfr_abs(step, step, kNear);
  mpfr_div_2ui(step, step, 150, kNear);
  mpfr_add(at, x, step, kNear);
  mpfr_digamma(above, at, kNear);
  mpfr_sub(at, x, step, kNear);
  mpfr_digamma(below, at, kNear);
  mpfr_sub(above, above, below, kNear);
  mpfr_mul_2ui(step, step, 1, kNear);
  return mpfr_div(y, above, step, round);
}

}  // namespace isobit::contract
