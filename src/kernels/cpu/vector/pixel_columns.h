// A panel of pixels where they lie in the slab, packed by the first tile of rows that reads it.
//
// A panel's lanes are consecutive positions of an image, in whatever rows: each of its two vectors comes from up to
// kMostPieces rows of the slab. With AVX-512 a vector is put together by masked loads, which the products beside them
// hide: 28 multiply-adds of 14 rows take 14 cycles a term, 16 to 22 loads 8 to 11. Copied beforehand a panel costs a
// tenth of the time of 64 rows.
#pragma once

#include "kernels/cpu/vector/by_size.h"
#include "kernels/cpu/vector/gemm_microkernel.h"

namespace isobit::kernels::ISOBIT_ISA {
namespace {

#if ISOBIT_LANES == 16 && defined(__AVX512F__)
inline constexpr bool kPacksPixels = true;

// Lanes [first, first + length) of a vector are the floats from `source` + first on, relative to the slab.
struct PixelPieces {
  static constexpr int kMostPieces = 4;
  struct Piece {
    std::int32_t source;
    std::uint32_t mask;
  };
  Piece pieces[kTileVectors][kMostPieces] = {};
  int count[kTileVectors] = {};
  bool fits = true;  // no vector has more

  // Lanes [lane, lane + length) of the panel from `source` on; pieces come in order.
  ISOBIT_INLINE void add(std::int64_t lane, std::int64_t length, std::int64_t source) {
    for (std::int64_t v = lane / kLanes; v * kLanes < lane + length; ++v) {
      const std::int64_t first = lane > v * kLanes ? lane - v * kLanes : 0;
      const std::int64_t end = lane + length - v * kLanes < kLanes ? lane + length - v * kLanes : kLanes;
      if (count[v] == kMostPieces) {
        fits = false;
        return;
      }
      pieces[v][count[v]++] = {static_cast<std::int32_t>(source - lane + v * kLanes),
                               ((1u << end) - 1u) & ~((1u << first) - 1u)};
    }
  }
};

template <int kPieces>
struct PackingPixels {
  const float* slab;
  const std::int32_t* offsets;
  const PixelPieces* from;
  float* panel;
};

template <int kPieces>
struct ColumnsWalk<PackingPixels<kPieces>> {
  const float* slab;
  const std::int32_t* offsets;
  float* panel;
  std::int64_t source[kTileVectors][kPieces];
  __mmask16 mask[kTileVectors][kPieces];
  const float* term = nullptr;
  explicit ISOBIT_INLINE ColumnsWalk(PackingPixels<kPieces> p) : slab(p.slab), offsets(p.offsets), panel(p.panel) {
    ISOBIT_UNROLL(GCC unroll 2)
    for (int v = 0; v < kTileVectors; ++v) {
      ISOBIT_UNROLL(GCC unroll 4)
      for (int i = 0; i < kPieces; ++i) {  // absent pieces have no lanes
        source[v][i] = p.from->pieces[v][i].source;
        mask[v][i] = static_cast<__mmask16>(p.from->pieces[v][i].mask);
      }
    }
  }
  ISOBIT_INLINE void begin(std::int64_t k) { term = slab + offsets[k]; }
  [[nodiscard]] ISOBIT_INLINE FloatLanes vector(int v) const {
    if constexpr (kPieces == 1) return load(term + source[v][0]);  // past a row's end: lanes that are not stored
    __m512 x = _mm512_maskz_loadu_ps(mask[v][0], term + source[v][0]);
    ISOBIT_UNROLL(GCC unroll 4)
    for (int i = 1; i < kPieces; ++i) x = _mm512_mask_loadu_ps(x, mask[v][i], term + source[v][i]);
    return (FloatLanes::Raw)x;
  }
  ISOBIT_INLINE void fetch_ahead() const {}
  ISOBIT_INLINE void step() { panel += kTileColumns; }
};

// tile_leaf of packed rows for tiles of two vectors.
template <int kPieces>
constexpr auto kPixelTileFunctions = by_size<kTileRows>(
    [](auto rows) { return &tile_leaf<PackedRows, PackingPixels<kPieces>, FloatLanes, rows, kTileVectors>; });

// tile[r * kTileColumns + c], and the panel that it is computed from. Precondition: pieces fit.
ISOBIT_INLINE void multiply_tile_of_pixels(std::int64_t rows, const float* a, const float* slab,
                                           const std::int32_t* offsets, const PixelPieces& from, std::int64_t terms,
                                           float* panel, float* tile) {
  const int pieces = from.count[0] > from.count[1] ? from.count[0] : from.count[1];
  if (pieces == 1)
    return kPixelTileFunctions<1>.of[rows]({a}, {slab, offsets, &from, panel}, terms, tile, kTileColumns);
  if (pieces == 2)
    return kPixelTileFunctions<2>.of[rows]({a}, {slab, offsets, &from, panel}, terms, tile, kTileColumns);
  kPixelTileFunctions<4>.of[rows]({a}, {slab, offsets, &from, panel}, terms, tile, kTileColumns);
}
#else
inline constexpr bool kPacksPixels = false;
struct PixelPieces {
  static constexpr bool fits = false;
  ISOBIT_INLINE void add(std::int64_t, std::int64_t, std::int64_t) {}
};
ISOBIT_INLINE void multiply_tile_of_pixels(std::int64_t, const float*, const float*, const std::int32_t*,
                                           const PixelPieces&, std::int64_t, float*, float*) {}
#endif

}  // namespace
}  // namespace isobit::kernels::ISOBIT_ISA
