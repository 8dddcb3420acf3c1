// Fingerprint sums, a register of 64-bit states at a time. Sums modulo 2^64 commute, so blocks, lanes and
// threads may be added in any order.
#include "contract/fingerprint.h"

#include "kernels/dispatch/kernel_table.h"
#include "kernels/cpu/vector/wide_lanes.h"
#include "kernels/threads.h"

namespace isobit::kernels::ISOBIT_ISA {
namespace {

constexpr std::int64_t kSmallest = 1 << 13;  // elements a thread should at least have: 2 to 4 us

// As many states side by side as keep a processor's units busy, each step of all of them before the next: what waits
// for another step takes a place among the instructions that a processor looks at.
constexpr int kStates = 4;
struct States {
  WideInt of[kStates];
};
template <class Step>
ISOBIT_INLINE void each_state(States& z, Step step) {
#pragma GCC unroll 4
  for (WideInt& one : z.of) one = step(one);
  asm("" : "+v"(z.of[0]), "+v"(z.of[1]), "+v"(z.of[2]), "+v"(z.of[3]));  // in this order
}
ISOBIT_INLINE void multiply_step(States& z, std::uint32_t factor) {
  const WideInt f = wide_set(factor);
  States product = z;
  each_state(
      product, [f](WideInt x) __attribute__((always_inline)) { return wide_multiply_low32(x, f); });
#pragma GCC unroll 4
  for (int i = 0; i < kStates; ++i) z.of[i] = wide_add(z.of[i], product.of[i]);
}
ISOBIT_INLINE void shift_step(States& z) {
  States shifted = z;
  each_state(
      shifted, [](WideInt x) __attribute__((always_inline)) { return wide_shift_right(x, 32); });
#pragma GCC unroll 4
  for (int i = 0; i < kStates; ++i) z.of[i] = wide_xor(z.of[i], shifted.of[i]);
}
ISOBIT_INLINE void rotate_step(States& z) {
  each_state(
      z, [](WideInt x) __attribute__((always_inline)) { return wide_rotate_right24(x); });
}

struct WideSums {
  WideInt high[2] = {wide_set(0), wide_set(0)}, low[2] = {wide_set(0), wide_set(0)};
  static ISOBIT_INLINE void add(WideInt (&sums)[2], const States& z) {
    for (int i = 0; i < kStates; ++i) sums[i % 2] = wide_add(sums[i % 2], z.of[i]);
  }
};

// contract::mix on every lane of z = key xor bits, key = (index + 1) * kMixIndex.
ISOBIT_INLINE void add_mixed(WideSums& sums, States z) {
  multiply_step(z, contract::kMixFactor0);
  shift_step(z);
  multiply_step(z, contract::kMixFactor1);
  rotate_step(z);
  shift_step(z);
  multiply_step(z, contract::kMixFactor2);
  rotate_step(z);
  WideSums::add(sums.high, z);
  shift_step(z);
  multiply_step(z, contract::kMixFactor3);
  rotate_step(z);
  WideSums::add(sums.low, z);
}

// 2 * kWideLanes 32-bit patterns of an element type.
ISOBIT_INLINE WideInt load_patterns(const float* p) {
#if defined(__AVX512F__)
  const __m512 x = _mm512_loadu_ps(p);
  return _mm512_mask_mov_epi32(_mm512_castps_si512(x), _mm512_cmp_ps_mask(x, x, _CMP_UNORD_Q),
                               _mm512_set1_epi32(0x7fc00000));
#else
  const __m256 x = _mm256_loadu_ps(p);
  const __m256 canonical = _mm256_castsi256_ps(_mm256_set1_epi32(0x7fc00000));
  return _mm256_castps_si256(_mm256_blendv_ps(x, canonical, _mm256_cmp_ps(x, x, _CMP_UNORD_Q)));
#endif
}
ISOBIT_INLINE WideInt load_patterns(const std::uint8_t* p) {
#if defined(__AVX512F__)
  return _mm512_cvtepu8_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)));
#else
  return _mm256_cvtepu8_epi32(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(p)));
#endif
}

// Patterns in both halves of 64-bit lanes. Unpacking works within 128 bits: lane j of the first vector holds
// element 4 (j / 2) + j % 2, of the second two more.
ISOBIT_INLINE WideInt unpack_first(WideInt x) {
#if defined(__AVX512F__)
  return _mm512_unpacklo_epi32(x, x);
#else
  return _mm256_unpacklo_epi32(x, x);
#endif
}
ISOBIT_INLINE WideInt unpack_second(WideInt x) {
#if defined(__AVX512F__)
  return _mm512_unpackhi_epi32(x, x);
#else
  return _mm256_unpackhi_epi32(x, x);
#endif
}

ISOBIT_INLINE std::uint64_t key_of(std::int64_t index) {
  return (static_cast<std::uint64_t>(index) + 1) * contract::kMixIndex;
}

template <class T>
Fingerprint tail_sums(const T* x, std::int64_t first, std::int64_t b, std::int64_t e) {
  Fingerprint sums;
  for (std::int64_t i = b; i < e; ++i) {
    const contract::Mix m = contract::mix(static_cast<std::uint64_t>(first + i), contract::element_bits(x[i]));
    sums.high += m.high;
    sums.low += m.low;
  }
  return sums;
}

Fingerprint total(const WideSums& wide, Fingerprint rest) {
  rest.high += wide_sum(wide.high[0]) + wide_sum(wide.high[1]);
  rest.low += wide_sum(wide.low[0]) + wide_sum(wide.low[1]);
  return rest;
}

template <class T>
Fingerprint range_sums(const T* x, std::int64_t first, std::int64_t b, std::int64_t e) {
  constexpr std::int64_t kPatterns = std::int64_t{2} * kWideLanes, kStep = 2 * kPatterns;
  std::uint64_t key[kWideLanes];
  for (int j = 0; j < kWideLanes; ++j) key[j] = key_of(first + b + 4 * (j / 2) + j % 2);
  WideInt keys = wide_load(key);
  const WideInt step = wide_set(kStep * contract::kMixIndex), two = wide_set(2 * contract::kMixIndex);
  const WideInt half = wide_set(kPatterns * contract::kMixIndex);
  WideSums wide;
  std::int64_t i = b;
  for (; i + kStep <= e; i += kStep) {
    const WideInt patterns = load_patterns(x + i), more = load_patterns(x + i + kPatterns);
    const WideInt further = wide_add(keys, half);
    add_mixed(wide, {{wide_xor(keys, unpack_first(patterns)), wide_xor(wide_add(keys, two), unpack_second(patterns)),
                      wide_xor(further, unpack_first(more)), wide_xor(wide_add(further, two), unpack_second(more))}});
    keys = wide_add(keys, step);
  }
  return total(wide, tail_sums(x, first, i, e));
}

Fingerprint range_sums(const std::int64_t* x, std::int64_t first, std::int64_t b, std::int64_t e) {
  constexpr std::int64_t kStep = std::int64_t{kStates} * kWideLanes;
  std::uint64_t key[kWideLanes];
  for (int j = 0; j < kWideLanes; ++j) key[j] = key_of(first + b + j);
  WideInt keys = wide_load(key);
  const WideInt next = wide_set(kWideLanes * contract::kMixIndex);
  WideSums wide;
  std::int64_t i = b;
  for (; i + kStep <= e; i += kStep) {
    States z;
    for (std::int64_t j = 0; j < kStates; ++j, keys = wide_add(keys, next))
      z.of[j] = wide_xor(keys, wide_load(x + i + j * kWideLanes));
    add_mixed(wide, z);
  }
  return total(wide, tail_sums(x, first, i, e));
}

template <class T>
Fingerprint element_sums(const T* x, std::int64_t first, std::int64_t n) {
  Fingerprint sums;
  parallel_for(0, n, kSmallest, [&](std::int64_t b, std::int64_t e) {
    const Fingerprint part = range_sums(x, first, b, e);
    __atomic_fetch_add(&sums.high, part.high, __ATOMIC_RELAXED);
    __atomic_fetch_add(&sums.low, part.low, __ATOMIC_RELAXED);
  });
  return sums;
}

}  // namespace

void fill_fingerprint(KernelTable& t) {
  t.element_sums_float = element_sums<float>;
  t.element_sums_int64 = element_sums<std::int64_t>;
  t.element_sums_uint8 = element_sums<std::uint8_t>;
}

}  // namespace isobit::kernels::ISOBIT_ISA
