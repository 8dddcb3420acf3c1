// A register's worth of floats: ISOBIT_LANES of them, 8 or 16.
//
// Kernels are written once over FloatLanes, IntLanes and MaskLanes and compiled per instruction set. Every
// operation is the IEEE one per lane, so a kernel gives the bits of the scalar formula by construction. The
// contract's formula templates find these overloads (fma, select, as_int, ...) by argument.
// Include only from cpu/vector/*.cpp and their headers; everything is inlined, nothing has state.
#pragma once

#include <immintrin.h>

#include <cstdint>
#include <cstring>

#if !defined(ISOBIT_LANES) || !defined(ISOBIT_ISA)
#error "vector sources are compiled once per instruction set, with ISOBIT_LANES and ISOBIT_ISA given"
#endif
#define ISOBIT_INLINE inline __attribute__((always_inline))

namespace isobit::kernels::ISOBIT_ISA {

inline constexpr int kLanes = ISOBIT_LANES;

struct IntLanes {
  typedef std::int32_t Raw __attribute__((vector_size(4 * ISOBIT_LANES)));
  Raw v;
  ISOBIT_INLINE IntLanes() = default;
  ISOBIT_INLINE IntLanes(Raw raw) : v(raw) {}
  ISOBIT_INLINE IntLanes(std::int32_t value) : v(Raw{} + value) {}
};

struct MaskLanes {  // -1 where true, 0 where false
  IntLanes::Raw v;
};

struct FloatLanes {
  typedef float Raw __attribute__((vector_size(4 * ISOBIT_LANES)));
  Raw v;
  ISOBIT_INLINE FloatLanes() = default;
  ISOBIT_INLINE FloatLanes(Raw raw) : v(raw) {}
  // Broadcast. Not Raw{} + value: that would turn -0 into +0.
  ISOBIT_INLINE FloatLanes(float value) {
#if ISOBIT_LANES == 16 && defined(__AVX512F__)
    v = (Raw)_mm512_set1_ps(value);
#elif ISOBIT_LANES == 8
    v = (Raw)_mm256_set1_ps(value);
#else
    for (int i = 0; i < ISOBIT_LANES; ++i) v[i] = value;
#endif
  }
};

ISOBIT_INLINE FloatLanes load(const float* p) {
  FloatLanes r;
  std::memcpy(&r.v, p, sizeof r.v);
  return r;
}
ISOBIT_INLINE IntLanes load(const std::int32_t* p) {
  IntLanes r;
  std::memcpy(&r.v, p, sizeof r.v);
  return r;
}
ISOBIT_INLINE void read(const float* p, FloatLanes& x) { x = load(p); }  // by type, for templates
ISOBIT_INLINE void store(float* p, FloatLanes x) { std::memcpy(p, &x.v, sizeof x.v); }
ISOBIT_INLINE void store(std::int32_t* p, IntLanes x) { std::memcpy(p, &x.v, sizeof x.v); }

// 0, 1, 2, ... kLanes - 1.
ISOBIT_INLINE IntLanes lane_index() {
#if ISOBIT_LANES == 16
  return IntLanes(IntLanes::Raw{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15});
#else
  return IntLanes(IntLanes::Raw{0, 1, 2, 3, 4, 5, 6, 7});
#endif
}

// The first count lanes (0 <= count <= kLanes) from memory, `fill` in the rest; memory past them untouched.
ISOBIT_INLINE FloatLanes load_first(const float* p, std::int64_t count, float fill = 0.0f) {
#if ISOBIT_LANES == 16 && defined(__AVX512F__)
  return (FloatLanes::Raw)_mm512_mask_loadu_ps(_mm512_set1_ps(fill), (__mmask16)((1u << count) - 1u), p);
#elif ISOBIT_LANES == 8
  const auto keep = _mm256_cmpgt_epi32(_mm256_set1_epi32((int)count), _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
  return (FloatLanes::Raw)_mm256_blendv_ps(_mm256_set1_ps(fill), _mm256_maskload_ps(p, keep),
                                           _mm256_castsi256_ps(keep));
#else
  FloatLanes r(fill);
  for (std::int64_t i = 0; i < count; ++i) r.v[i] = p[i];
  return r;
#endif
}
// The first count (1 to 8) lanes. Not a masked store: those are slow on some processors.
ISOBIT_INLINE void store_some(float* to, __m256 value, std::int64_t count) {
  if (count >= 8) return _mm256_storeu_ps(to, value);
  __m128 part = _mm256_castps256_ps128(value);
  if (count & 4) {
    _mm_storeu_ps(to, part);
    part = _mm256_extractf128_ps(value, 1);
    to += 4;
  }
  if (count & 2) {
    _mm_storel_pi(reinterpret_cast<__m64*>(to), part);
    part = _mm_movehl_ps(part, part);
    to += 2;
  }
  if (count & 1) _mm_store_ss(to, part);
}

ISOBIT_INLINE void store_first(float* p, FloatLanes x, std::int64_t count) {
#if ISOBIT_LANES == 16 && defined(__AVX512F__)
  _mm512_mask_storeu_ps(p, (__mmask16)((1u << count) - 1u), (__m512)x.v);
#elif ISOBIT_LANES == 8
  store_some(p, (__m256)x.v, count);
#else
  for (std::int64_t i = 0; i < count; ++i) p[i] = x.v[i];
#endif
}

ISOBIT_INLINE FloatLanes operator+(FloatLanes a, FloatLanes b) { return a.v + b.v; }
ISOBIT_INLINE FloatLanes operator-(FloatLanes a, FloatLanes b) { return a.v - b.v; }
ISOBIT_INLINE FloatLanes operator*(FloatLanes a, FloatLanes b) { return a.v * b.v; }
ISOBIT_INLINE FloatLanes operator/(FloatLanes a, FloatLanes b) { return a.v / b.v; }
ISOBIT_INLINE FloatLanes operator-(FloatLanes a) { return -a.v; }

ISOBIT_INLINE FloatLanes fma(FloatLanes a, FloatLanes b, FloatLanes c) {
#if ISOBIT_LANES == 16 && defined(__AVX512F__)
  return (FloatLanes::Raw)_mm512_fmadd_ps((__m512)a.v, (__m512)b.v, (__m512)c.v);
#elif ISOBIT_LANES == 8
  return (FloatLanes::Raw)_mm256_fmadd_ps((__m256)a.v, (__m256)b.v, (__m256)c.v);
#else
  FloatLanes r;
  for (int half = 0; half < 2; ++half) {
    __m256 x, y, z;
    std::memcpy(&x, (const char*)&a.v + 32 * half, 32);
    std::memcpy(&y, (const char*)&b.v + 32 * half, 32);
    std::memcpy(&z, (const char*)&c.v + 32 * half, 32);
    x = _mm256_fmadd_ps(x, y, z);
    std::memcpy((char*)&r.v + 32 * half, &x, 32);
  }
  return r;
#endif
}

ISOBIT_INLINE FloatLanes sqrt(FloatLanes a) {
#if ISOBIT_LANES == 16 && defined(__AVX512F__)
  return (FloatLanes::Raw)_mm512_maskz_sqrt_ps(0xffff, (__m512)a.v);
#elif ISOBIT_LANES == 8
  return (FloatLanes::Raw)_mm256_sqrt_ps((__m256)a.v);
#else
  FloatLanes r;
  for (int half = 0; half < 2; ++half) {
    __m256 x;
    std::memcpy(&x, (const char*)&a.v + 32 * half, 32);
    x = _mm256_sqrt_ps(x);
    std::memcpy((char*)&r.v + 32 * half, &x, 32);
  }
  return r;
#endif
}

// Ordered comparisons: false where either side is NaN (but !=, true there).
ISOBIT_INLINE MaskLanes operator<(FloatLanes a, FloatLanes b) { return {a.v < b.v}; }
ISOBIT_INLINE MaskLanes operator<=(FloatLanes a, FloatLanes b) { return {a.v <= b.v}; }
ISOBIT_INLINE MaskLanes operator>(FloatLanes a, FloatLanes b) { return {a.v > b.v}; }
ISOBIT_INLINE MaskLanes operator>=(FloatLanes a, FloatLanes b) { return {a.v >= b.v}; }
ISOBIT_INLINE MaskLanes operator==(FloatLanes a, FloatLanes b) { return {a.v == b.v}; }
ISOBIT_INLINE MaskLanes operator!=(FloatLanes a, FloatLanes b) { return {a.v != b.v}; }
ISOBIT_INLINE MaskLanes operator<(IntLanes a, IntLanes b) { return {a.v < b.v}; }
ISOBIT_INLINE MaskLanes operator>(IntLanes a, IntLanes b) { return {a.v > b.v}; }
ISOBIT_INLINE MaskLanes operator==(IntLanes a, IntLanes b) { return {a.v == b.v}; }
ISOBIT_INLINE MaskLanes operator!=(IntLanes a, IntLanes b) { return {a.v != b.v}; }

ISOBIT_INLINE MaskLanes operator&(MaskLanes a, MaskLanes b) { return {a.v & b.v}; }
ISOBIT_INLINE MaskLanes operator|(MaskLanes a, MaskLanes b) { return {a.v | b.v}; }
ISOBIT_INLINE MaskLanes operator!(MaskLanes a) { return {~a.v}; }

ISOBIT_INLINE FloatLanes select(MaskLanes m, FloatLanes a, FloatLanes b) { return m.v ? a.v : b.v; }
ISOBIT_INLINE IntLanes select(MaskLanes m, IntLanes a, IntLanes b) { return m.v ? a.v : b.v; }
ISOBIT_INLINE bool any(MaskLanes m) {
#if ISOBIT_LANES == 16 && defined(__AVX512F__)
  return _mm512_movepi32_mask((__m512i)m.v) != 0;
#elif ISOBIT_LANES == 8
  return _mm256_movemask_ps((__m256)m.v) != 0;
#else
  for (int i = 0; i < ISOBIT_LANES; ++i)
    if (m.v[i]) return true;
  return false;
#endif
}

// contract::at_most and at_least: MINPS and MAXPS give the second operand where one is NaN.
#if ISOBIT_LANES == 16 && defined(__AVX512F__)
ISOBIT_INLINE FloatLanes at_most(FloatLanes x, FloatLanes limit) {
  return (FloatLanes::Raw)_mm512_maskz_min_ps(0xffff, (__m512)limit.v, (__m512)x.v);
}
ISOBIT_INLINE FloatLanes at_least(FloatLanes x, FloatLanes limit) {
  return (FloatLanes::Raw)_mm512_maskz_max_ps(0xffff, (__m512)limit.v, (__m512)x.v);
}
// contract::scale: VSCALEFPS rounds once, and so do the two products, of which one is exact. Results of +0 are written
// down: an Intel Xeon takes some 200 cycles to compute one (functions_exp.h).
ISOBIT_INLINE FloatLanes scale(FloatLanes y, IntLanes, FloatLanes whole) {
  const __mmask16 some = _mm512_cmp_ps_mask((__m512)whole.v, _mm512_set1_ps(-151.0f), _CMP_NLE_UQ);
  return (FloatLanes::Raw)_mm512_maskz_scalef_ps(some, (__m512)y.v, (__m512)whole.v);
}
ISOBIT_INLINE FloatLanes scale_normal(FloatLanes y, IntLanes, FloatLanes whole) {
  return (FloatLanes::Raw)_mm512_maskz_scalef_ps(0xffff, (__m512)y.v, (__m512)whole.v);
}
#elif ISOBIT_LANES == 8
ISOBIT_INLINE FloatLanes at_most(FloatLanes x, FloatLanes limit) {
  return (FloatLanes::Raw)_mm256_min_ps((__m256)limit.v, (__m256)x.v);
}
ISOBIT_INLINE FloatLanes at_least(FloatLanes x, FloatLanes limit) {
  return (FloatLanes::Raw)_mm256_max_ps((__m256)limit.v, (__m256)x.v);
}
#endif

// Whether a lane is not 0.
ISOBIT_INLINE bool any_bit(IntLanes a) {
#if ISOBIT_LANES == 16 && defined(__AVX512F__)
  return _mm512_test_epi32_mask((__m512i)a.v, (__m512i)a.v) != 0;
#elif ISOBIT_LANES == 8
  return _mm256_testz_si256((__m256i)a.v, (__m256i)a.v) == 0;
#else
  return any(a != IntLanes(0));
#endif
}

ISOBIT_INLINE IntLanes as_int(FloatLanes a) { return (IntLanes::Raw)a.v; }
ISOBIT_INLINE FloatLanes as_float(IntLanes a) { return (FloatLanes::Raw)a.v; }
// Exact for |a| < 2^24.
ISOBIT_INLINE FloatLanes to_float(IntLanes a) { return __builtin_convertvector(a.v, FloatLanes::Raw); }

ISOBIT_INLINE IntLanes operator+(IntLanes a, IntLanes b) {  // wraps
  typedef std::uint32_t U __attribute__((vector_size(4 * ISOBIT_LANES)));
  return (IntLanes::Raw)((U)a.v + (U)b.v);
}
ISOBIT_INLINE IntLanes operator-(IntLanes a, IntLanes b) {  // wraps
  typedef std::uint32_t U __attribute__((vector_size(4 * ISOBIT_LANES)));
  return (IntLanes::Raw)((U)a.v - (U)b.v);
}
ISOBIT_INLINE IntLanes subtract_wrapping(IntLanes a, IntLanes b) { return a - b; }
ISOBIT_INLINE IntLanes operator*(IntLanes a, IntLanes b) {  // wraps
  typedef std::uint32_t U __attribute__((vector_size(4 * ISOBIT_LANES)));
  return (IntLanes::Raw)((U)a.v * (U)b.v);
}
ISOBIT_INLINE IntLanes operator&(IntLanes a, IntLanes b) { return a.v & b.v; }
ISOBIT_INLINE IntLanes operator|(IntLanes a, IntLanes b) { return a.v | b.v; }
ISOBIT_INLINE IntLanes operator^(IntLanes a, IntLanes b) { return a.v ^ b.v; }
ISOBIT_INLINE IntLanes operator~(IntLanes a) { return ~a.v; }
ISOBIT_INLINE IntLanes shift_left(IntLanes a, int bits) {
  typedef std::uint32_t U __attribute__((vector_size(4 * ISOBIT_LANES)));
  return (IntLanes::Raw)((U)a.v << bits);
}
ISOBIT_INLINE IntLanes shift_right(IntLanes a, int bits) { return a.v >> bits; }  // keeps the sign
ISOBIT_INLINE IntLanes shift_right_logical(IntLanes a, int bits) {
  typedef std::uint32_t U __attribute__((vector_size(4 * ISOBIT_LANES)));
  return (IntLanes::Raw)((U)a.v >> bits);
}

// high:low = a * m, all of them unsigned.
ISOBIT_INLINE void multiply_wide(IntLanes a, std::uint32_t m, IntLanes& high, IntLanes& low) {
#if ISOBIT_LANES == 16 && defined(__AVX512F__)
  const __m512i x = (__m512i)a.v, f = _mm512_set1_epi64(m);
  const __m512i even = _mm512_mul_epu32(x, f), odd = _mm512_mul_epu32(_mm512_srli_epi64(x, 32), f);
  high = (IntLanes::Raw)_mm512_mask_blend_epi32(0xAAAA, _mm512_srli_epi64(even, 32), odd);
  low = (IntLanes::Raw)_mm512_mask_blend_epi32(0xAAAA, even, _mm512_slli_epi64(odd, 32));
#else
  for (int part = 0; part < ISOBIT_LANES / 8; ++part) {
    __m256i x;
    std::memcpy(&x, (const char*)&a.v + 32 * part, 32);
    const __m256i f = _mm256_set1_epi64x(m);
    const __m256i even = _mm256_mul_epu32(x, f), odd = _mm256_mul_epu32(_mm256_srli_epi64(x, 32), f);
    const __m256i h = _mm256_blend_epi32(_mm256_srli_epi64(even, 32), odd, 0xAA);
    const __m256i l = _mm256_blend_epi32(even, _mm256_slli_epi64(odd, 32), 0xAA);
    std::memcpy((char*)&high.v + 32 * part, &h, 32);
    std::memcpy((char*)&low.v + 32 * part, &l, 32);
  }
#endif
}

// a0 b0 a1 b1 ...: the first half of both into low, the second into high.
ISOBIT_INLINE void interleave(FloatLanes a, FloatLanes b, FloatLanes& low, FloatLanes& high) {
#if ISOBIT_LANES == 16
  low = __builtin_shufflevector(a.v, b.v, 0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23);
  high = __builtin_shufflevector(a.v, b.v, 8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31);
#else
  low = __builtin_shufflevector(a.v, b.v, 0, 8, 1, 9, 2, 10, 3, 11);
  high = __builtin_shufflevector(a.v, b.v, 4, 12, 5, 13, 6, 14, 7, 15);
#endif
}

// The other way: of a0 a1 ... b0 b1 ... those at even places, and those at odd ones.
ISOBIT_INLINE void split_pairs(FloatLanes a, FloatLanes b, FloatLanes& even, FloatLanes& odd) {
#if ISOBIT_LANES == 16
  even = __builtin_shufflevector(a.v, b.v, 0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30);
  odd = __builtin_shufflevector(a.v, b.v, 1, 3, 5, 7, 9, 11, 13, 15, 17, 19, 21, 23, 25, 27, 29, 31);
#else
  even = __builtin_shufflevector(a.v, b.v, 0, 2, 4, 6, 8, 10, 12, 14);
  odd = __builtin_shufflevector(a.v, b.v, 1, 3, 5, 7, 9, 11, 13, 15);
#endif
}

// table[index mod 16] of each lane; the table 64-byte aligned.
ISOBIT_INLINE FloatLanes look_up(const float* table, IntLanes index) {
#if ISOBIT_LANES == 16 && defined(__AVX512F__)
  return (FloatLanes::Raw)_mm512_maskz_permutexvar_ps(0xffff, (__m512i)index.v, _mm512_load_ps(table));
#elif ISOBIT_LANES == 8
  const __m256i i = (__m256i)index.v;
  const __m256 low = _mm256_permutevar8x32_ps(_mm256_load_ps(table), i);
  const __m256 high = _mm256_permutevar8x32_ps(_mm256_load_ps(table + 8), i);
  return (FloatLanes::Raw)_mm256_blendv_ps(low, high, _mm256_castsi256_ps(_mm256_slli_epi32(i, 28)));
#else
  FloatLanes r;
  for (int i = 0; i < ISOBIT_LANES; ++i) r.v[i] = table[index.v[i] & 15];
  return r;
#endif
}

// Work that goes lane by lane.
ISOBIT_INLINE float lane(FloatLanes a, int i) { return a.v[i]; }
ISOBIT_INLINE void set_lane(FloatLanes& a, int i, float value) { a.v[i] = value; }
ISOBIT_INLINE void set_lane(IntLanes& a, int i, std::int32_t value) { a.v[i] = value; }
// function(i) for every lane i whose mask is set.
template <class Function>
ISOBIT_INLINE void each_lane(MaskLanes m, Function&& function) {
  for (int i = 0; i < ISOBIT_LANES; ++i) {
    if (m.v[i]) function(i);
  }
}

}  // namespace isobit::kernels::ISOBIT_ISA
