// Tiles of digits from floats, without integers in memory between: 64 terms of 16 lines, digits of V (contract, section
// 17) as signed bytes.
//
// For sides whose scale is one factor and whose rows are finite; `first` as Scale has it (exact/sides.h). The layouts
// are those of AmxEngine::pack_left and pack_right.
#pragma once

#include <cstdint>
#include <cstring>
#include <utility>

#include "kernels/cpu/exact/digits.h"
#include "kernels/cpu/exact/sides.h"

#if !defined(ISOBIT_EMULATED)
#include <immintrin.h>
#endif

namespace isobit::kernels::ISOBIT_ISA {
namespace {

#define ISOBIT_INLINE inline __attribute__((always_inline))

constexpr int kTileLines = 16, kTileTerms = 64;
constexpr std::int64_t kDigitTileBytes = 1024;  // [16][64]

using Floats16 = float __attribute__((vector_size(64)));
using Words16 = std::uint32_t __attribute__((vector_size(64)));
using Bytes64 = std::uint8_t __attribute__((vector_size(64)));
using Quads8 = std::uint64_t __attribute__((vector_size(64)));

// Raised: V + 0x808080, whose bytes 2, 1 and 0 are the digits, each raised by 128.
ISOBIT_INLINE void raise(Floats16 values, const Floats16& scale, Words16& to) {
  values = values * scale;
#if defined(ISOBIT_EMULATED)
  for (int i = 0; i < 16; ++i)
    to[i] = static_cast<std::uint32_t>(static_cast<std::int32_t>(__builtin_rintf(values[i]))) + exact::kRaise;
#else
  to = (Words16)_mm512_cvtps_epi32((__m512)values) + exact::kRaise;
#endif
}

ISOBIT_INLINE Floats16 sixteen(const float* x) {
  Floats16 values;
  std::memcpy(&values, x, sizeof values);
  return values;
}
// The first `count` of them, and 0; nothing past them is read.
ISOBIT_INLINE Floats16 first_of(const float* x, std::int64_t count) {
  if (count >= 16) return sixteen(x);
#if defined(ISOBIT_EMULATED)
  Floats16 values = {};
  for (std::int64_t i = 0; i < count; ++i) values[i] = x[i];
  return values;
#else
  return (Floats16)_mm512_maskz_loadu_ps(count > 0 ? static_cast<__mmask16>((1u << count) - 1u) : __mmask16{0}, x);
#endif
}

template <class Index, int... kI>
ISOBIT_INLINE void pick(const Words16& a, const Words16& b, Words16& to, std::integer_sequence<int, kI...>) {
  to = (Words16)__builtin_shufflevector((Bytes64)a, (Bytes64)b, Index::of(kI)...);
}
template <class Index>
ISOBIT_INLINE void pick(const Words16& a, const Words16& b, Words16& to) {
  pick<Index>(a, b, to, std::make_integer_sequence<int, 64>{});
}
// Bytes of 32 words of two vectors: the first digits of all, then the second; the third, twice.
struct UpperDigits {
  static constexpr int of(int i) { return i < 32 ? 4 * i + 2 : 4 * (i - 32) + 1; }
};
struct LowerDigits {
  static constexpr int of(int i) { return 4 * (i % 32); }
};
// Of each column c of two terms: both first digits, both second ones; both third ones, twice.
struct UpperPairs {
  static constexpr int of(int i) { return i % 2 * 64 + i / 4 * 4 + (i % 4 < 2 ? 2 : 1); }
};
struct LowerPairs {
  static constexpr int of(int i) { return i % 2 * 64 + i / 4 * 4; }
};

// Up to 64 terms of one line, side by side, the rest 0: digit d to to[d * step ...], 64 bytes.
template <bool kWhole>
ISOBIT_INLINE void line_tiles(const float* x, std::int64_t terms, float first, std::int64_t step, std::uint8_t* to) {
  const Floats16 scale = Floats16{} + first;
  Words16 v[4], upper[2], lower[2];
  for (int i = 0; i < 4; ++i) raise(kWhole ? sixteen(x + 16 * i) : first_of(x + 16 * i, terms - 16 * i), scale, v[i]);
  for (int i = 0; i < 2; ++i) {
    pick<UpperDigits>(v[2 * i], v[2 * i + 1], upper[i]);
    pick<LowerDigits>(v[2 * i], v[2 * i + 1], lower[i]);
  }
  const Words16 digits[3] = {
      (Words16)__builtin_shufflevector((Quads8)upper[0], (Quads8)upper[1], 0, 1, 2, 3, 8, 9, 10, 11) ^ exact::kSigned,
      (Words16)__builtin_shufflevector((Quads8)upper[0], (Quads8)upper[1], 4, 5, 6, 7, 12, 13, 14, 15) ^ exact::kSigned,
      (Words16)__builtin_shufflevector((Quads8)lower[0], (Quads8)lower[1], 0, 1, 2, 3, 8, 9, 10, 11) ^ exact::kSigned};
  for (int d = 0; d < 3; ++d) std::memcpy(to + d * step, &digits[d], sizeof digits[d]);
}

// Four terms of 16 columns that lie side by side, to four bytes a column: digit d to to[d * kDigitTileBytes ...].
struct Lines {
  const float* at[4];
};
ISOBIT_INLINE void group_tiles(const Lines& x, const Floats16& scale, std::uint8_t* to) {
  Words16 v[4], upper[2], lower[2];
  for (int i = 0; i < 4; ++i) raise(sixteen(x.at[i]), scale, v[i]);
  for (int i = 0; i < 2; ++i) {
    pick<UpperPairs>(v[2 * i], v[2 * i + 1], upper[i]);
    pick<LowerPairs>(v[2 * i], v[2 * i + 1], lower[i]);
  }
  const Words16 digits[3] = {((upper[0] & 0xffff) | (upper[1] << 16)) ^ exact::kSigned,
                             ((upper[0] >> 16) | (upper[1] & 0xffff0000)) ^ exact::kSigned,
                             ((lower[0] & 0xffff) | (lower[1] & 0xffff0000)) ^ exact::kSigned};
  for (int d = 0; d < 3; ++d) std::memcpy(to + d * kDigitTileBytes, &digits[d], sizeof digits[d]);
}

using Words = std::uint32_t __attribute__((vector_size(16)));

// 4 x 4 words of four rows, transposed, in each quarter of a vector.
template <class Vector>
ISOBIT_INLINE void turn_quarters(Vector (&row)[4]) {
  using W = Words16;
  const W low = __builtin_shufflevector((W)row[0], (W)row[1], 0, 16, 1, 17, 4, 20, 5, 21, 8, 24, 9, 25, 12, 28, 13, 29);
  const W high =
      __builtin_shufflevector((W)row[0], (W)row[1], 2, 18, 3, 19, 6, 22, 7, 23, 10, 26, 11, 27, 14, 30, 15, 31);
  const W low2 =
      __builtin_shufflevector((W)row[2], (W)row[3], 0, 16, 1, 17, 4, 20, 5, 21, 8, 24, 9, 25, 12, 28, 13, 29);
  const W high2 =
      __builtin_shufflevector((W)row[2], (W)row[3], 2, 18, 3, 19, 6, 22, 7, 23, 10, 26, 11, 27, 14, 30, 15, 31);
  row[0] = (Vector)__builtin_shufflevector((Quads8)low, (Quads8)low2, 0, 8, 2, 10, 4, 12, 6, 14);
  row[1] = (Vector)__builtin_shufflevector((Quads8)low, (Quads8)low2, 1, 9, 3, 11, 5, 13, 7, 15);
  row[2] = (Vector)__builtin_shufflevector((Quads8)high, (Quads8)high2, 0, 8, 2, 10, 4, 12, 6, 14);
  row[3] = (Vector)__builtin_shufflevector((Quads8)high, (Quads8)high2, 1, 9, 3, 11, 5, 13, 7, 15);
}

// 16 x 16 words transposed.
inline void turn(const std::uint32_t (&words)[16][16], std::uint8_t* to) {
  for (int c = 0; c < 16; c += 4) {
    Words16 row[4];  // quarter l of row i: words [4 l + i][c ...]
    for (int i = 0; i < 4; ++i) {
#if defined(ISOBIT_EMULATED)
      for (int l = 0; l < 4; ++l)
        for (int j = 0; j < 4; ++j) row[i][4 * l + j] = words[4 * l + i][c + j];
#else
      const auto quarter = [&](int l) {
        return _mm_load_si128(reinterpret_cast<const __m128i*>(&words[4 * l + i][c]));
      };
      __m512i all = _mm512_castsi128_si512(quarter(0));
      all = _mm512_inserti32x4(all, quarter(1), 1);
      all = _mm512_inserti32x4(all, quarter(2), 2);
      row[i] = (Words16)_mm512_inserti32x4(all, quarter(3), 3);
#endif
    }
    turn_quarters(row);
    for (int j = 0; j < 4; ++j) std::memcpy(to + (c + j) * 64, &row[j], sizeof row[j]);
  }
}

// Rows whose terms follow each other: row r at x + r * stride, its scale first[r]. Lines of a left tile.
inline void left_tiles(const float* x, std::int64_t stride, const float* first, std::int64_t rows, std::int64_t terms,
                       std::uint8_t* to) {
  constexpr std::int64_t kStepBytes = 6 * kDigitTileBytes;  // three digits of two tiles
  const std::int64_t whole = terms / kTileTerms * kTileTerms;
  for (std::int64_t r = 0; r < rows; ++r) {
    const float* line = x + r * stride;
    std::uint8_t* at = to + r / kTileLines * kDigitTileBytes + r % kTileLines * 64;
    std::int64_t k = 0;
    for (; k < whole; k += kTileTerms, at += kStepBytes)
      line_tiles<true>(line + k, kTileTerms, first[r], 2 * kDigitTileBytes, at);
    if (k < terms) line_tiles<false>(line + k, terms - k, first[r], 2 * kDigitTileBytes, at);
  }
}

// The same of a right panel, at most 16 rows (its columns).
inline void right_tiles_along(const float* x, std::int64_t stride, const float* first, std::int64_t rows,
                              std::int64_t terms, std::uint8_t* to) {
  alignas(64) std::uint32_t words[3][kTileLines][kTileLines];
  if (rows < kTileLines) std::memset(words, 0, sizeof words);
  for (std::int64_t k = 0; k < terms; k += kTileTerms, to += 3 * kDigitTileBytes) {
    for (std::int64_t r = 0; r < rows; ++r) {
      const float* line = x + r * stride + k;
      auto* at = reinterpret_cast<std::uint8_t*>(words[0][r]);
      if (terms - k >= kTileTerms)
        line_tiles<true>(line, kTileTerms, first[r], kDigitTileBytes, at);
      else
        line_tiles<false>(line, terms - k, first[r], kDigitTileBytes, at);
    }
    for (int d = 0; d < 3; ++d) turn(words[d], to + d * kDigitTileBytes);
  }
}

// group_tiles of a panel with fewer columns: the others' digits are 0.
inline void border_tiles(const Lines& x, const float* first, std::int64_t columns, std::uint8_t* to) {
  alignas(64) float line[4][kTileLines] = {}, scale[kTileLines] = {};
  const auto bytes = static_cast<std::size_t>(columns) * sizeof(float);
  std::memcpy(scale, first, bytes);
  for (int i = 0; i < 4; ++i) std::memcpy(line[i], x.at[i], bytes);
  Floats16 factors;
  std::memcpy(&factors, scale, sizeof factors);
  group_tiles({{line[0], line[1], line[2], line[3]}}, factors, to);
}

// Right panels whose columns lie side by side: `columns` of them, 16 a panel, `slot` bytes apart. Term t's begin at
// x + term[t] - term[0]; first[c] is column c's scale. A few panels' terms together, so that memory is read as it lies.
inline void right_tiles_across(const float* x, const std::int64_t* term, const float* first, std::int64_t columns,
                               std::int64_t terms, std::int64_t slot, std::uint8_t* to) {
  alignas(64) static constexpr float kZeros[kTileLines] = {};
  const std::int64_t padded = (terms + kTileTerms - 1) / kTileTerms * kTileTerms;
  const std::int64_t whole = columns / kTileLines * kTileLines;
  for (std::int64_t k = 0; k < padded; k += 4) {
    std::uint8_t* at = to + k / kTileTerms * 3 * kDigitTileBytes + k % kTileTerms / 4 * 64;
    const float* line[4];
    std::int64_t step[4];  // none past the last term
    for (int i = 0; i < 4; ++i) {
      line[i] = k + i < terms ? x + term[k + i] - term[0] : kZeros;
      step[i] = k + i < terms ? 1 : 0;
    }
    for (std::int64_t c = 0; c < whole; c += kTileLines, at += slot) {
      Floats16 scale;
      std::memcpy(&scale, first + c, sizeof scale);
      group_tiles({{line[0] + c * step[0], line[1] + c * step[1], line[2] + c * step[2], line[3] + c * step[3]}}, scale,
                  at);
    }
    if (whole == columns) continue;
    border_tiles(
        {{line[0] + whole * step[0], line[1] + whole * step[1], line[2] + whole * step[2], line[3] + whole * step[3]}},
        first + whole, columns - whole, at);
  }
}

// Left tiles of rows that lie side by side, at most 32: words of four terms a row, transposed.
inline void left_tiles_across(const float* x, const std::int64_t* term, const float* first, std::int64_t rows,
                              std::int64_t terms, std::uint8_t* to) {
  alignas(64) std::uint32_t words[2][3][kTileLines][kTileLines];
  if (rows <= kTileLines) std::memset(words[1], 0, sizeof words[1]);
  for (std::int64_t k = 0; k < terms; k += kTileTerms) {
    const std::int64_t n = terms - k < kTileTerms ? terms - k : kTileTerms;
    right_tiles_across(x + term[k] - term[0], term + k, first, rows, n, sizeof words[0],
                       reinterpret_cast<std::uint8_t*>(words[0]));
    for (int d = 0; d < 3; ++d)
      for (int half = 0; half < 2; ++half, to += kDigitTileBytes) turn(words[half][d], to);
  }
}

// Rows [begin, end) of a tile's three parts [3][32][16], rounded to floats: row r's go to c + offset[r], after addition
// to addend + r * addend_stride where there is one. powers of rows and of columns: Scale::power. T is exact in
// binary64. Where `past` is set, whole lines of memory are written past the caches, and the caller orders them
// (complete_writes). A function of its own, so that its registers are not its callers'.
__attribute__((noinline)) inline void round_tile_rows(const std::int32_t* parts, const double* row_power,
                                                      const double* column_power, std::int64_t begin, std::int64_t end,
                                                      float* c, const std::int64_t* offset, const float* addend,
                                                      std::int64_t addend_stride, [[maybe_unused]] bool past) {
  constexpr int kPart = 32 * kTileLines;
  parts += begin * kTileLines;
  for (std::int64_t r = begin; r < end; ++r, parts += kTileLines) {
    Floats16 values;
#if defined(ISOBIT_EMULATED)
    for (int l = 0; l < kTileLines; ++l) {
      const double sum = parts[l] * 65536.0 + parts[kPart + l] * 256.0 + parts[2 * kPart + l];
      values[l] = static_cast<float>(sum * row_power[r] * column_power[l]);
    }
#else
    const __m512d power = _mm512_set1_pd(row_power[r]);
    const auto half = [&](int first) {
      const auto part = [&](int p) {
        return _mm512_cvtepi32_pd(
            _mm256_loadu_si256(reinterpret_cast<const __m256i*>(parts + std::ptrdiff_t{p} * kPart + first)));
      };
      __m512d sum = _mm512_fmadd_pd(part(1), _mm512_set1_pd(256.0), part(2));
      sum = _mm512_fmadd_pd(part(0), _mm512_set1_pd(65536.0), sum);
      return _mm512_cvtpd_ps(sum * power * _mm512_loadu_pd(column_power + first));
    };
    values = (Floats16)_mm512_insertf32x8(_mm512_castps256_ps512(half(0)), half(8), 1);
#endif
    values = values + 0.0f;
    if (addend != nullptr) {
      Floats16 added;
      std::memcpy(&added, addend + r * addend_stride, sizeof added);
      values = added + values;
    }
#if !defined(ISOBIT_EMULATED)
    if (past && reinterpret_cast<std::uintptr_t>(c + offset[r]) % sizeof values == 0) {
      _mm512_stream_ps(c + offset[r], (__m512)values);
      continue;
    }
#endif
    std::memcpy(c + offset[r], &values, sizeof values);
  }
}
inline void complete_writes() {
#if !defined(ISOBIT_EMULATED)
  _mm_sfence();
#endif
}

#undef ISOBIT_INLINE

}  // namespace
}  // namespace isobit::kernels::ISOBIT_ISA
