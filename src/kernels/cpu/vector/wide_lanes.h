// A register's worth of 64-bit lanes: 8 with AVX-512, else 4, for kernels on int64 and binary64.
//
// Widths follow the registers, not ISOBIT_LANES: lowered 512-bit integer code would be scalar.
// Include only from cpu/vector/*.cpp; everything is inlined, nothing has state.
#pragma once

#include <immintrin.h>

#include <cstdint>

#include "kernels/cpu/vector/lanes.h"

namespace isobit::kernels::ISOBIT_ISA {

#if defined(__AVX512F__)
inline constexpr int kWideLanes = 8;
using WideInt = __m512i;
using WideDouble = __m512d;

ISOBIT_INLINE WideInt wide_set(std::uint64_t x) { return _mm512_set1_epi64(static_cast<long long>(x)); }
ISOBIT_INLINE WideInt wide_load(const void* p) { return _mm512_loadu_si512(p); }
ISOBIT_INLINE void wide_store(void* p, WideInt x) { _mm512_storeu_si512(p, x); }
ISOBIT_INLINE WideInt wide_add(WideInt a, WideInt b) { return _mm512_add_epi64(a, b); }
ISOBIT_INLINE WideInt wide_subtract(WideInt a, WideInt b) { return _mm512_sub_epi64(a, b); }
ISOBIT_INLINE WideInt wide_xor(WideInt a, WideInt b) { return _mm512_xor_si512(a, b); }
ISOBIT_INLINE WideInt wide_shift_right(WideInt a, int bits) { return _mm512_srli_epi64(a, bits); }
ISOBIT_INLINE WideInt wide_multiply_low32(WideInt a, WideInt b) { return _mm512_mul_epu32(a, b); }
ISOBIT_INLINE WideInt wide_rotate_right24(WideInt a) { return _mm512_ror_epi64(a, 24); }
ISOBIT_INLINE WideDouble wide_double(double x) { return _mm512_set1_pd(x); }
ISOBIT_INLINE WideDouble wide_from_floats(const float* p) { return _mm512_cvtps_pd(_mm256_loadu_ps(p)); }
// Rounded to binary32; a zero is +0.
ISOBIT_INLINE void wide_to_floats(float* p, WideDouble x) {
  _mm256_storeu_ps(p, _mm256_add_ps(_mm512_cvtpd_ps(x), _mm256_setzero_ps()));
}
ISOBIT_INLINE WideDouble wide_magnitude(WideDouble x) { return _mm512_abs_pd(x); }
ISOBIT_INLINE WideDouble wide_larger(WideDouble x, WideDouble y) { return _mm512_max_pd(x, y); }  // y where one is NaN
// To an integer, to nearest even, whatever its size.
ISOBIT_INLINE WideDouble wide_round(WideDouble x) {
  return _mm512_roundscale_pd(x, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
}
ISOBIT_INLINE WideInt wide_bits(WideDouble x) { return _mm512_castpd_si512(x); }
ISOBIT_INLINE WideDouble wide_as_double(WideInt x) { return _mm512_castsi512_pd(x); }
ISOBIT_INLINE bool wide_any(WideInt x) { return _mm512_test_epi64_mask(x, x) != 0; }
// All ones where x is zero or -0, else 0.
ISOBIT_INLINE WideInt wide_where_zero(WideDouble x) {
  return _mm512_movm_epi64(_mm512_cmp_pd_mask(x, _mm512_setzero_pd(), _CMP_EQ_OQ));
}
ISOBIT_INLINE WideInt wide_and(WideInt a, WideInt b) { return _mm512_and_si512(a, b); }
ISOBIT_INLINE WideInt wide_and_not(WideInt without, WideInt a) { return _mm512_maskz_andnot_epi64(0xff, without, a); }
ISOBIT_INLINE WideInt wide_or(WideInt a, WideInt b) { return _mm512_or_si512(a, b); }
ISOBIT_INLINE WideInt wide_shift_left(WideInt a, int bits) { return _mm512_maskz_slli_epi64(0xff, a, bits); }
ISOBIT_INLINE WideDouble wide_within(WideDouble x, double limit) {  // [-limit, limit]; x is a number
  return _mm512_max_pd(_mm512_min_pd(x, _mm512_set1_pd(limit)), _mm512_set1_pd(-limit));
}
// Toward zero, to 32 bits; those as binary64, and as 64 bits.
ISOBIT_INLINE __m256i wide_truncated(WideDouble x) { return _mm512_cvttpd_epi32(x); }
ISOBIT_INLINE WideDouble wide_from_integers(__m256i n) { return _mm512_cvtepi32_pd(n); }
ISOBIT_INLINE WideInt wide_integers(__m256i n) { return _mm512_cvtepi32_epi64(n); }
#else
inline constexpr int kWideLanes = 4;
using WideInt = __m256i;
using WideDouble = __m256d;

ISOBIT_INLINE WideInt wide_set(std::uint64_t x) { return _mm256_set1_epi64x(static_cast<long long>(x)); }
ISOBIT_INLINE WideInt wide_load(const void* p) { return _mm256_loadu_si256(static_cast<const __m256i*>(p)); }
ISOBIT_INLINE void wide_store(void* p, WideInt x) { _mm256_storeu_si256(static_cast<__m256i*>(p), x); }
ISOBIT_INLINE WideInt wide_add(WideInt a, WideInt b) { return _mm256_add_epi64(a, b); }
ISOBIT_INLINE WideInt wide_subtract(WideInt a, WideInt b) { return _mm256_sub_epi64(a, b); }
ISOBIT_INLINE WideInt wide_xor(WideInt a, WideInt b) { return _mm256_xor_si256(a, b); }
ISOBIT_INLINE WideInt wide_shift_right(WideInt a, int bits) { return _mm256_srli_epi64(a, bits); }
ISOBIT_INLINE WideInt wide_multiply_low32(WideInt a, WideInt b) { return _mm256_mul_epu32(a, b); }
ISOBIT_INLINE WideInt wide_rotate_right24(WideInt a) {  // byte j of the result is byte j + 3 mod 8
  return _mm256_shuffle_epi8(a, _mm256_set_epi8(10, 9, 8, 15, 14, 13, 12, 11, 2, 1, 0, 7, 6, 5, 4, 3,  //
                                                10, 9, 8, 15, 14, 13, 12, 11, 2, 1, 0, 7, 6, 5, 4, 3));
}
ISOBIT_INLINE WideDouble wide_double(double x) { return _mm256_set1_pd(x); }
ISOBIT_INLINE WideDouble wide_from_floats(const float* p) { return _mm256_cvtps_pd(_mm_loadu_ps(p)); }
// Rounded to binary32; a zero is +0.
ISOBIT_INLINE void wide_to_floats(float* p, WideDouble x) {
  _mm_storeu_ps(p, _mm_add_ps(_mm256_cvtpd_ps(x), _mm_setzero_ps()));
}
ISOBIT_INLINE WideDouble wide_magnitude(WideDouble x) { return _mm256_andnot_pd(_mm256_set1_pd(-0.0), x); }
ISOBIT_INLINE WideDouble wide_larger(WideDouble x, WideDouble y) { return _mm256_max_pd(x, y); }  // y where one is NaN
// To an integer, to nearest even, whatever its size.
ISOBIT_INLINE WideDouble wide_round(WideDouble x) {
  return _mm256_round_pd(x, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
}
ISOBIT_INLINE WideInt wide_bits(WideDouble x) { return _mm256_castpd_si256(x); }
ISOBIT_INLINE WideDouble wide_as_double(WideInt x) { return _mm256_castsi256_pd(x); }
ISOBIT_INLINE bool wide_any(WideInt x) { return _mm256_testz_si256(x, x) == 0; }
// All ones where x is zero or -0, else 0.
ISOBIT_INLINE WideInt wide_where_zero(WideDouble x) {
  return _mm256_castpd_si256(_mm256_cmp_pd(x, _mm256_setzero_pd(), _CMP_EQ_OQ));
}
ISOBIT_INLINE WideInt wide_and(WideInt a, WideInt b) { return _mm256_and_si256(a, b); }
ISOBIT_INLINE WideInt wide_and_not(WideInt without, WideInt a) { return _mm256_andnot_si256(without, a); }
ISOBIT_INLINE WideInt wide_or(WideInt a, WideInt b) { return _mm256_or_si256(a, b); }
ISOBIT_INLINE WideInt wide_shift_left(WideInt a, int bits) { return _mm256_slli_epi64(a, bits); }
ISOBIT_INLINE WideDouble wide_within(WideDouble x, double limit) {
  return _mm256_max_pd(_mm256_min_pd(x, _mm256_set1_pd(limit)), _mm256_set1_pd(-limit));
}
ISOBIT_INLINE __m128i wide_truncated(WideDouble x) { return _mm256_cvttpd_epi32(x); }
ISOBIT_INLINE WideDouble wide_from_integers(__m128i n) { return _mm256_cvtepi32_pd(n); }
ISOBIT_INLINE WideInt wide_integers(__m128i n) { return _mm256_cvtepi32_epi64(n); }
#endif

// Modulo 2^64.
ISOBIT_INLINE std::uint64_t wide_sum(WideInt x) {
  std::uint64_t lane[kWideLanes], sum = 0;
  wide_store(lane, x);
  for (int i = 0; i < kWideLanes; ++i) sum += lane[i];
  return sum;
}

}  // namespace isobit::kernels::ISOBIT_ISA
