// A channel through the taps of grid_sample, a register of outputs at a time: where two taps of every output lie side
// by side in memory, as all but those at an edge do, both come with one load of 64 bits.
//
// Include only from cpu/vector/*.cpp.
#pragma once

#include "kernels/formulas/grid_sample_kernels.h"
#include "kernels/cpu/vector/lanes.h"

namespace isobit::kernels::ISOBIT_ISA {
namespace {

struct LanePair {
  FloatLanes first, second;
};

#if ISOBIT_LANES == 16 && defined(__AVX512F__)
// x[place] and x[place + 1] of each lane.
ISOBIT_INLINE LanePair gather_pairs(const float* x, const std::int32_t* place) {
  const __m512i places = _mm512_loadu_si512(place);
  const __m512 low = _mm512_castpd_ps(_mm512_i32gather_pd(_mm512_castsi512_si256(places), x, 4));
  const __m512 high = _mm512_castpd_ps(_mm512_i32gather_pd(_mm512_extracti64x4_epi64(places, 1), x, 4));
  const __m512i even = _mm512_setr_epi32(0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30);
  const __m512i odd = _mm512_add_epi32(even, _mm512_set1_epi32(1));
  return {(FloatLanes::Raw)_mm512_permutex2var_ps(low, even, high),
          (FloatLanes::Raw)_mm512_permutex2var_ps(low, odd, high)};
}
// x[place] where the place is inside, else 0; memory outside is not read.
ISOBIT_INLINE FloatLanes gather_inside(const float* x, const std::int32_t* place) {
  const __m512i places = _mm512_loadu_si512(place);
  const __mmask16 inside = _mm512_cmpge_epi32_mask(places, _mm512_setzero_si512());
  return (FloatLanes::Raw)_mm512_mask_i32gather_ps(_mm512_setzero_ps(), inside, places, x, 4);
}
#else
struct EightPairs {
  __m256 first, second;
};
ISOBIT_INLINE EightPairs gather_eight(const float* x, const std::int32_t* place) {
  const auto four = [&](int i) {
    const __m128i places = _mm_loadu_si128(reinterpret_cast<const __m128i*>(place + i));
    return _mm256_castpd_ps(_mm256_i32gather_pd(reinterpret_cast<const double*>(x), places, 4));
  };
  const __m256 low = four(0), high = four(4);
  const auto in_order = [](__m256 v) { return _mm256_castpd_ps(_mm256_permute4x64_pd(_mm256_castps_pd(v), 0xd8)); };
  return {in_order(_mm256_shuffle_ps(low, high, 0x88)), in_order(_mm256_shuffle_ps(low, high, 0xdd))};
}
ISOBIT_INLINE LanePair gather_pairs(const float* x, const std::int32_t* place) {
  LanePair pair;
  for (int i = 0; i < kLanes; i += 8) {
    const EightPairs eight = gather_eight(x, place + i);
    std::memcpy(reinterpret_cast<float*>(&pair.first.v) + i, &eight.first, sizeof eight.first);
    std::memcpy(reinterpret_cast<float*>(&pair.second.v) + i, &eight.second, sizeof eight.second);
  }
  return pair;
}
ISOBIT_INLINE FloatLanes gather_inside(const float* x, const std::int32_t* place) {
  FloatLanes all;
  for (int i = 0; i < kLanes; i += 8) {
    const __m256i places = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(place + i));
    const __m256 inside = _mm256_castsi256_ps(_mm256_cmpgt_epi32(places, _mm256_set1_epi32(-1)));
    const __m256 eight = _mm256_mask_i32gather_ps(_mm256_setzero_ps(), x, places, inside, 4);
    std::memcpy(reinterpret_cast<float*>(&all.v) + i, &eight, sizeof eight);
  }
  return all;
}
#endif

struct PairedTaps {
  // One note per full register of outputs: 1 where taps 0 and 1, 2 and 3, .. of all of them lie inside, side by side.
  static void prepare(GridTaps& taps, Workspace& workspace) {
    const std::int64_t groups = taps.width / kLanes;
    std::int32_t* const paired = workspace.ints(groups);
    for (std::int64_t g = 0; g < groups; ++g) {
      std::int32_t all = taps.count > 1;
      for (int k = 0; k + 1 < taps.count; k += 2) {
        const std::int32_t* const place = taps.place + k * taps.width + g * kLanes;
        for (int i = 0; i < kLanes; ++i) all &= (place[i] >= 0) & (place[taps.width + i] == place[i] + 1);
      }
      paired[g] = all;
    }
    taps.paired = paired;
  }

  static void sample(const GridTaps& taps, bool copy, const float* x, float* y) {
    std::int64_t o = 0;
    for (; o + kLanes <= taps.width; o += kLanes) {
      FloatLanes sum(0.0f);
      if (taps.paired[o / kLanes] == 0) {
        for (std::int64_t at = o; at < taps.count * taps.width; at += taps.width) {
          const FloatLanes value = gather_inside(x, taps.place + at),
                           next = copy ? value : fma(load(taps.weight + at), value, sum);
          sum = select(load(taps.place + at) > IntLanes(-1), next, sum);
        }
        store(y + o, sum);
        continue;
      }
      for (std::int64_t at = o; at < taps.count * taps.width; at += 2 * taps.width) {
        const LanePair pair = gather_pairs(x, taps.place + at);
        sum = fma(load(taps.weight + at), pair.first, sum);
        sum = fma(load(taps.weight + at + taps.width), pair.second, sum);
      }
      store(y + o, sum);
    }
    PlainTaps::sample(taps, copy, o, taps.width, x, y);
  }

  static void add_products(const GridTaps& taps, const float* x, const float* dy, float* dots) {
    std::int64_t o = 0;
    for (; o + kLanes <= taps.width; o += kLanes) {
      const FloatLanes gradient = load(dy + o);
      if (taps.paired[o / kLanes] == 0) {
        for (std::int64_t at = o; at < taps.count * taps.width; at += taps.width) {
          const FloatLanes sum = load(dots + at), next = fma(gather_inside(x, taps.place + at), gradient, sum);
          store(dots + at, select(load(taps.place + at) > IntLanes(-1), next, sum));
        }
        continue;
      }
      for (std::int64_t at = o; at < taps.count * taps.width; at += 2 * taps.width) {
        const LanePair pair = gather_pairs(x, taps.place + at);
        store(dots + at, fma(pair.first, gradient, load(dots + at)));
        store(dots + at + taps.width, fma(pair.second, gradient, load(dots + at + taps.width)));
      }
    }
    PlainTaps::add_products(taps, o, taps.width, x, dy, dots);
  }
};

}  // namespace
}  // namespace isobit::kernels::ISOBIT_ISA
