// Fingerprint sums, a register of 64-bit states at a time. Sums modulo 2^64 commute, so blocks, lanes and
// threads may be added in any order.
#include "contract/fingerprint.h"

#include "kernels/dispatch/kernel_table.h"
#include "kernels/cpu/vector/wide_lanes.h"
#include "kernels/threads.h"

namespace isobit::kernels::ISOBIT_ISA {
namespace {

constexpr std::int64_t kSmallest = 1 << 13;  // elements a thread should at least have: 2 to 4 us

struct WideSums {
  WideInt high = wide_set(0), low = wide_set(0);
};

ISOBIT_INLINE WideInt multiply_step(WideInt z, std::uint32_t factor) {
  return wide_add(z, wide_multiply_low32(z, wide_set(factor)));
}
ISOBIT_INLINE WideInt shift_step(WideInt z) { return wide_xor(z, wide_shift_right(z, 32)); }

// contract::mix on every lane; key = (index + 1) * kMixIndex.
ISOBIT_INLINE void add_mixed(WideSums& sums, WideInt key, WideInt bits) {
  WideInt z = wide_xor(key, bits);
  z = shift_step(multiply_step(z, contract::kMixFactor0));
  z = shift_step(wide_rotate_right24(multiply_step(z, contract::kMixFactor1)));
  z = wide_rotate_right24(multiply_step(z, contract::kMixFactor2));
  sums.high = wide_add(sums.high, z);
  z = wide_rotate_right24(multiply_step(shift_step(z), contract::kMixFactor3));
  sums.low = wide_add(sums.low, z);
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

template <class T>
Fingerprint range_sums(const T* x, std::int64_t first, std::int64_t b, std::int64_t e) {
  constexpr std::int64_t kStep = 2 * kWideLanes;
  std::uint64_t key[kWideLanes];
  for (int j = 0; j < kWideLanes; ++j) key[j] = key_of(first + b + 4 * (j / 2) + j % 2);
  WideInt key_first = wide_load(key);
  WideInt key_second = wide_add(key_first, wide_set(2 * contract::kMixIndex));
  const WideInt step = wide_set(kStep * contract::kMixIndex);
  WideSums even, odd;  // two chains of additions
  std::int64_t i = b;
  for (; i + kStep <= e; i += kStep) {
    const WideInt patterns = load_patterns(x + i);
    add_mixed(even, key_first, unpack_first(patterns));
    add_mixed(odd, key_second, unpack_second(patterns));
    key_first = wide_add(key_first, step);
    key_second = wide_add(key_second, step);
  }
  Fingerprint sums = tail_sums(x, first, i, e);
  sums.high += wide_sum(even.high) + wide_sum(odd.high);
  sums.low += wide_sum(even.low) + wide_sum(odd.low);
  return sums;
}

Fingerprint range_sums(const std::int64_t* x, std::int64_t first, std::int64_t b, std::int64_t e) {
  std::uint64_t key[kWideLanes];
  for (int j = 0; j < kWideLanes; ++j) key[j] = key_of(first + b + j);
  WideInt keys = wide_load(key);
  const WideInt step = wide_set(kWideLanes * contract::kMixIndex);
  WideSums wide;
  std::int64_t i = b;
  for (; i + kWideLanes <= e; i += kWideLanes) {
    add_mixed(wide, keys, wide_load(x + i));
    keys = wide_add(keys, step);
  }
  Fingerprint sums = tail_sums(x, first, i, e);
  sums.high += wide_sum(wide.high);
  sums.low += wide_sum(wide.low);
  return sums;
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
