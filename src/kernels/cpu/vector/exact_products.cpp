// Products of the exact tier on int16 digits: the two upper digits of a side as one number d12 = 2^8 d1 + d2, so that
//
//   T = 2^8 (a12 b1) + (a12 b2 + a1 b3 + a3 b1)
//
// takes four products of pairs (vpmaddwd) and not six. |a12| <= 32640 and |b1| <= 127: 510 terms fit an int32.
#include "kernels/cpu/exact/problems.h"
#include "kernels/cpu/vector/lanes.h"

namespace isobit::kernels::ISOBIT_ISA {
namespace {

// kLanes sums of two products of int16 each.
struct PairLanes {
#if ISOBIT_LANES == 16 && defined(__AVX512BW__)
  __m512i v;
  static ISOBIT_INLINE PairLanes load(const std::int32_t* p) { return {_mm512_loadu_si512(p)}; }
  static ISOBIT_INLINE PairLanes broadcast(std::int32_t x) { return {_mm512_set1_epi32(x)}; }
  ISOBIT_INLINE void store(std::int32_t* p) const { _mm512_storeu_si512(p, v); }
#else
  __m256i v[ISOBIT_LANES / 8];
  static ISOBIT_INLINE PairLanes load(const std::int32_t* p) {
    PairLanes r;
    for (int i = 0; i < ISOBIT_LANES / 8; ++i) r.v[i] = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p) + i);
    return r;
  }
  static ISOBIT_INLINE PairLanes broadcast(std::int32_t x) {
    PairLanes r;
    for (int i = 0; i < ISOBIT_LANES / 8; ++i) r.v[i] = _mm256_set1_epi32(x);
    return r;
  }
  ISOBIT_INLINE void store(std::int32_t* p) const {
    for (int i = 0; i < ISOBIT_LANES / 8; ++i) _mm256_storeu_si256(reinterpret_cast<__m256i*>(p) + i, v[i]);
  }
#endif
};

#if ISOBIT_LANES == 16 && defined(__AVX512BW__)
ISOBIT_INLINE PairLanes operator+(PairLanes a, PairLanes b) { return {_mm512_add_epi32(a.v, b.v)}; }
ISOBIT_INLINE PairLanes multiply_pairs(PairLanes a, PairLanes b) { return {_mm512_madd_epi16(a.v, b.v)}; }
constexpr int kTileRows = 5, kTileVectors = 2;
#else
ISOBIT_INLINE PairLanes operator+(PairLanes a, PairLanes b) {
  for (int i = 0; i < ISOBIT_LANES / 8; ++i) a.v[i] = _mm256_add_epi32(a.v[i], b.v[i]);
  return a;
}
ISOBIT_INLINE PairLanes multiply_pairs(PairLanes a, PairLanes b) {
  for (int i = 0; i < ISOBIT_LANES / 8; ++i) a.v[i] = _mm256_madd_epi16(a.v[i], b.v[i]);
  return a;
}
constexpr int kTileRows = 2, kTileVectors = 16 / ISOBIT_LANES;
#endif

ISOBIT_INLINE std::int32_t low_byte(std::int32_t v) {
  return static_cast<std::int32_t>(static_cast<std::uint32_t>(v) << 24) >> 24;
}
ISOBIT_INLINE std::int32_t pair(std::int32_t even, std::int32_t odd) {
  return static_cast<std::int32_t>((static_cast<std::uint32_t>(even) & 0xffff) | static_cast<std::uint32_t>(odd) << 16);
}

struct MaddEngine {
  static constexpr int kRows = kTileRows, kColumns = kTileVectors * kLanes;
  static constexpr std::int64_t kStep = 2, kBlock = 256, kPacked = kBlock;
  static constexpr bool kPacksAlong = false, kResumes = false, kPacksFloats = false;
  static constexpr int kParts = 2;
  static constexpr std::int32_t kWeights[kParts] = {256, 1};

  struct Session {
    Session() {}
  };

  static constexpr std::int64_t left_bytes(std::int64_t terms) { return terms / 2 * 3 * kRows * 4; }
  static constexpr std::int64_t right_bytes(std::int64_t terms) { return terms / 2 * 3 * kColumns * 4; }

  // values[r * terms + k] -> [k / 2][a12, a1, a3][r] pairs of terms.
  static void pack_left(const std::int32_t* values, std::int64_t terms, std::uint8_t* to) {
    auto* out = reinterpret_cast<std::int32_t*>(to);
    for (int r = 0; r < kRows; ++r) {
      const std::int32_t* v = values + r * terms;
      for (std::int64_t k = 0; k < terms; k += 2) {
        const std::int32_t third0 = low_byte(v[k]), third1 = low_byte(v[k + 1]);
        const std::int32_t upper0 = (v[k] - third0) >> 8, upper1 = (v[k + 1] - third1) >> 8;
        std::int32_t* p = out + k / 2 * 3 * kRows + r;
        p[0] = pair(upper0, upper1);
        p[kRows] = pair((upper0 - low_byte(upper0)) >> 8, (upper1 - low_byte(upper1)) >> 8);
        p[2 * kRows] = pair(third0, third1);
      }
    }
  }

  // values[k * kColumns + c] -> [k / 2][b1, b2, b3][c] pairs of terms.
  static void pack_right(const std::int32_t* values, std::int64_t terms, std::uint8_t* to) {
    auto* out = reinterpret_cast<std::int32_t*>(to);
    for (std::int64_t k = 0; k < terms; k += 2, out += 3 * kColumns) {
      const std::int32_t *even = values + k * kColumns, *odd = even + kColumns;
      for (int c = 0; c < kColumns; ++c) {
        const std::int32_t third0 = low_byte(even[c]), third1 = low_byte(odd[c]);
        const std::int32_t upper0 = (even[c] - third0) >> 8, upper1 = (odd[c] - third1) >> 8;
        const std::int32_t second0 = low_byte(upper0), second1 = low_byte(upper1);
        out[c] = pair((upper0 - second0) >> 8, (upper1 - second1) >> 8);
        out[kColumns + c] = pair(second0, second1);
        out[2 * kColumns + c] = pair(third0, third1);
      }
    }
  }

  static void multiply(std::int64_t terms, const std::uint8_t* left, const std::uint8_t* right, std::int32_t* parts) {
    const auto* a = reinterpret_cast<const std::int32_t*>(left);
    const auto* b = reinterpret_cast<const std::int32_t*>(right);
    PairLanes high[kRows][kTileVectors], low[kRows][kTileVectors];
    for (int r = 0; r < kRows; ++r) {
      for (int i = 0; i < kTileVectors; ++i) high[r][i] = low[r][i] = PairLanes::broadcast(0);
    }
    for (std::int64_t k = 0; k < terms; k += 2, a += 3 * kRows, b += 3 * kColumns) {
#pragma GCC unroll 8
      for (int r = 0; r < kRows; ++r) {
        const PairLanes a12 = PairLanes::broadcast(a[r]), a1 = PairLanes::broadcast(a[kRows + r]);
        const PairLanes a3 = PairLanes::broadcast(a[2 * kRows + r]);
#pragma GCC unroll 4
        for (int i = 0; i < kTileVectors; ++i) {
          const std::int32_t* at = b + i * kLanes;
          high[r][i] = high[r][i] + multiply_pairs(a12, PairLanes::load(at));
          low[r][i] = low[r][i] + (multiply_pairs(a12, PairLanes::load(at + kColumns)) +
                                   multiply_pairs(a1, PairLanes::load(at + 2 * kColumns)) +
                                   multiply_pairs(a3, PairLanes::load(at)));
        }
      }
    }
    for (int r = 0; r < kRows; ++r) {
      for (int i = 0; i < kTileVectors; ++i) {
        high[r][i].store(parts + r * kColumns + i * kLanes);
        low[r][i].store(parts + (kRows + r) * kColumns + i * kLanes);
      }
    }
  }
};

}  // namespace

void fill_exact_products(KernelTable& t) { exact::fill<MaddEngine>(t); }

}  // namespace isobit::kernels::ISOBIT_ISA
