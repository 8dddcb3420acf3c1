// Registers of binary64 from memory and back, whole or their first lanes.
#pragma once

#include <cstring>

#include "kernels/cpu/vector/wide_lanes.h"

namespace isobit::kernels::ISOBIT_ISA {
namespace {

// The first lanes of a register; all of them where count is kWideLanes.
ISOBIT_INLINE WideDouble wide_load_first(const double* p, std::int64_t count) {
#if defined(__AVX512F__)
  return _mm512_maskz_loadu_pd(static_cast<__mmask8>((1u << count) - 1u), p);
#else
  return _mm256_maskload_pd(p, _mm256_cmpgt_epi64(_mm256_set1_epi64x(count), _mm256_setr_epi64x(0, 1, 2, 3)));
#endif
}
ISOBIT_INLINE void wide_store_first(double* p, WideDouble x, std::int64_t count) {
#if defined(__AVX512F__)
  _mm512_mask_storeu_pd(p, static_cast<__mmask8>((1u << count) - 1u), x);
#else
  _mm256_maskstore_pd(p, _mm256_cmpgt_epi64(_mm256_set1_epi64x(count), _mm256_setr_epi64x(0, 1, 2, 3)), x);
#endif
}
ISOBIT_INLINE WideDouble wide_read(const double* p) {
  WideDouble x;
  std::memcpy(&x, p, sizeof x);
  return x;
}
ISOBIT_INLINE void wide_write(double* p, WideDouble x) { std::memcpy(p, &x, sizeof x); }

}  // namespace
}  // namespace isobit::kernels::ISOBIT_ISA
