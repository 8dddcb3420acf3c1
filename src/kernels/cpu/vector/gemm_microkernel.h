// The innermost loop of matrix products and convolutions: one leaf of one tile of outputs, in registers.
//
//   tile[r][c] = chain over k of fma(a[k][r], b[k][c], .), + (+0)        r < kTileRows, c < kTileColumns
//
// Rows are broadcast, columns are lanes, so every output is its own chain: the contract's leaf by construction. Where
// the factors lie is a policy of each side:
//
//   PackedRows     a[k * kTileRows + r]        PackedColumns    b[k * kTileColumns + c]
//   StridedRows    a[k * step + r]             StridedColumns   b[k * step + c]
//   RowsAlongK     a[r * step + k]             PackingColumns   b[k * step + c], copied to a panel on the way
//   GatheredRows   rows[r][offsets[k]]         SkippingColumns, ScatteredColumns   b[offsets[k] + c]
//   SkippingRows   a[offsets[k] + r]           PackingPixels    rows of an image, copied likewise (pixel_columns.h)
//                                              PanelColumns     packed; the sums of leaves to the left are added
//                                              PackingPanelColumns   both
//
// "Skipping" sides leave out terms, those with a zero factor: the contract (section 3) allows it where the other factor
// is finite; who builds the offsets has made sure.
//
// Tile sizes fill the register file: 6 x 2 accumulators of 16 registers (AVX2), 14 x 2 of 32 (AVX-512), two
// left for a row of b and one for the broadcast.
#pragma once

#include <immintrin.h>

#include <type_traits>

#include "kernels/cpu/vector/lanes.h"

namespace isobit::kernels::ISOBIT_ISA {

// The 16-lane build lowered to AVX2 has no registers for its tile: unrolling it would only cost compile time.
#if ISOBIT_LANES == 16 && !defined(__AVX512F__)
#define ISOBIT_UNROLL(pragma) _Pragma("GCC unroll 1")
#else
#define ISOBIT_UNROLL(pragma) _Pragma(#pragma)
#endif

inline constexpr int kTileVectors = 2;
inline constexpr int kTileRows = ISOBIT_LANES == 16 ? 14 : 6;
inline constexpr int kTileColumns = kTileVectors * kLanes;
inline constexpr int kTileSize = kTileRows * kTileColumns;

namespace {

struct PackedRows {
  const float* a;
};
struct StridedRows {
  const float* a;
  std::int64_t stride;
};
struct SkippingRows {
  const float* a;
  const std::int32_t* offsets;
};
struct RowsAlongK {
  const float* a;
  std::int64_t stride;
};
constexpr int kAhead = 12;      // terms from the one at work to the one that is fetched
constexpr int kPackAhead = 24;  // of columns that are packed on the way: they may lie in the third level of the cache
// So that a convolution's taps are read where they are.
struct GatheredRows {
  const float* const* rows;
  const std::int32_t* offsets;
};
// The same from further away, fetched ahead: kAhead more offsets than terms are read, of any value (what lies past a
// workspace's block).
struct DistantRows : GatheredRows {};

struct PackedColumns {
  const float* b;
};
// Sums of leaves of one tile, [kTileRows][kTileColumns] for each level of the tree: the first `near_levels` side by
// side, the others far_stride apart.
struct LevelSums {
  float *near, *far;
  std::int64_t far_stride;
  int near_levels;
  [[nodiscard]] ISOBIT_INLINE float* of(int level) const {
    return level < near_levels ? near + level * kTileSize : far + (level - near_levels) * far_stride;
  }
};
// Packed, of a product of several leaves: the tile becomes left + tile for each set bit of `levels`, the lowest first,
// where left are the sums of that level (contract, section 3). Meanwhile what lies at next + *ahead, one of `ahead` a
// term, is fetched into the second level of the cache.
struct PanelColumns {
  const float *b, *next;
  const std::int32_t* ahead;
  LevelSums sums;
  std::uint64_t levels;
};
// The same, of columns that are not packed yet, whose panel is written on the way.
struct PackingPanelColumns {
  const float* b;
  std::int64_t stride;
  float* panel;
  LevelSums sums;
  std::uint64_t levels;
};
struct StridedColumns {  // of what the first level of the cache holds
  const float* b;
  std::int64_t stride;
};
// Whole panels, for the tiles that follow: the copy costs next to nothing while products are computed. As for packed
// columns, what comes is fetched; past the last term that is memory of no meaning, which fetching may name.
struct PackingColumns {
  const float* b;
  std::int64_t stride;
  float* panel;
};
struct SkippingColumns {  // of a panel that is packed
  const float* b;
  const std::int32_t* offsets;
};
// kAhead more offsets than terms are read.
struct ScatteredColumns {
  const float* b;
  const std::int32_t* offsets;
};

// A side goes from term to term: begin(k), read, step. (Sides are given in registers; what a walk keeps is its own.)
template <class Rows, int kRows>
struct RowsWalk;
template <int kRows>
struct RowsWalk<PackedRows, kRows> : PackedRows {
  static constexpr int kUnroll = 4;
  ISOBIT_INLINE void begin(std::int64_t /*k*/) {}
  [[nodiscard]] ISOBIT_INLINE float factor(int r) const { return a[r]; }
  ISOBIT_INLINE void step() { a += kTileRows; }
};
template <int kRows>
struct RowsWalk<StridedRows, kRows> : StridedRows {
  static constexpr int kUnroll = 2;
  ISOBIT_INLINE void begin(std::int64_t /*k*/) {}
  [[nodiscard]] ISOBIT_INLINE float factor(int r) const { return a[r]; }
  ISOBIT_INLINE void step() {
    __builtin_prefetch(a + 8 * stride);
    if constexpr (kRows > 8) __builtin_prefetch(a + 8 * stride + kRows - 1);
    a += stride;
  }
};
template <int kRows>
struct RowsWalk<SkippingRows, kRows> : SkippingRows {
  static constexpr int kUnroll = 2;
  const float* term = nullptr;
  ISOBIT_INLINE void begin(std::int64_t k) { term = a + offsets[k]; }
  [[nodiscard]] ISOBIT_INLINE float factor(int r) const { return term[r]; }
  ISOBIT_INLINE void step() {}
};
// Three rows a pointer: as many pointers as there are rows would not stay in registers.
template <int kRows>
struct RowsWalk<RowsAlongK, kRows> {
  static constexpr int kUnroll = 4, kThrees = (kRows + 2) / 3;
  const float* three[kThrees];
  std::int64_t stride;
  explicit ISOBIT_INLINE RowsWalk(RowsAlongK from) : stride(from.stride) {
    ISOBIT_UNROLL(GCC unroll 8)
    for (int i = 0; i < kThrees; ++i) three[i] = from.a + 3 * i * stride;
  }
  ISOBIT_INLINE void begin(std::int64_t /*k*/) {}
  [[nodiscard]] ISOBIT_INLINE float factor(int r) const { return three[r / 3][r % 3 * stride]; }
  ISOBIT_INLINE void step() {
    ISOBIT_UNROLL(GCC unroll 8)
    for (int i = 0; i < kThrees; ++i) ++three[i];
  }
};
template <int kRows>
struct RowsWalk<GatheredRows, kRows> {
  static constexpr int kUnroll = 2;
  const float* row[kRows];
  const std::int32_t* offsets;
  std::int64_t offset = 0;
  explicit ISOBIT_INLINE RowsWalk(GatheredRows from) : offsets(from.offsets) {
    ISOBIT_UNROLL(GCC unroll 16)
    for (int r = 0; r < kRows; ++r) row[r] = from.rows[r];
  }
  ISOBIT_INLINE void begin(std::int64_t k) { offset = offsets[k]; }
  [[nodiscard]] ISOBIT_INLINE float factor(int r) const { return row[r][offset]; }
  ISOBIT_INLINE void step() {}
};
template <int kRows>
struct RowsWalk<DistantRows, kRows> : RowsWalk<GatheredRows, kRows> {
  explicit ISOBIT_INLINE RowsWalk(DistantRows from) : RowsWalk<GatheredRows, kRows>(from) {}
  ISOBIT_INLINE void begin(std::int64_t k) {
    RowsWalk<GatheredRows, kRows>::begin(k);
    const std::int64_t ahead = this->offsets[k + kAhead];
    ISOBIT_UNROLL(GCC unroll 4)
    for (int r = 0; r < kRows; r += 4) __builtin_prefetch(this->row[r] + ahead);
  }
};

template <class Columns>
struct ColumnsWalk;
template <>
struct ColumnsWalk<PackedColumns> : PackedColumns {
  ISOBIT_INLINE void begin(std::int64_t /*k*/) {}
  [[nodiscard]] ISOBIT_INLINE const float* at() const { return b; }
  ISOBIT_INLINE void fetch_ahead() const { __builtin_prefetch(b + 16 * kTileColumns); }
  ISOBIT_INLINE void step() { b += kTileColumns; }
};
template <>
struct ColumnsWalk<PanelColumns> : PanelColumns {
  ISOBIT_INLINE void begin(std::int64_t /*k*/) {}
  [[nodiscard]] ISOBIT_INLINE const float* at() const { return b; }
  ISOBIT_INLINE void fetch_ahead() const { __builtin_prefetch(next + *ahead, 0, 2); }
  ISOBIT_INLINE void step() { b += kTileColumns, ++ahead; }
};
template <class Columns>
struct PackingWalk : Columns {
  ISOBIT_INLINE void begin(std::int64_t /*k*/) {}
  [[nodiscard]] ISOBIT_INLINE const float* at() const { return this->b; }
  ISOBIT_INLINE void fetch_ahead() const {
    __builtin_prefetch(this->b + kPackAhead * this->stride);
    __builtin_prefetch(this->b + kPackAhead * this->stride + kTileColumns - 1);
  }
  ISOBIT_INLINE void step() { this->b += this->stride, this->panel += kTileColumns; }
};
template <>
struct ColumnsWalk<PackingColumns> : PackingWalk<PackingColumns> {};
template <>
struct ColumnsWalk<PackingPanelColumns> : PackingWalk<PackingPanelColumns> {};
template <>
struct ColumnsWalk<StridedColumns> : StridedColumns {
  ISOBIT_INLINE void begin(std::int64_t /*k*/) {}
  [[nodiscard]] ISOBIT_INLINE const float* at() const { return b; }
  ISOBIT_INLINE void fetch_ahead() const {}
  ISOBIT_INLINE void step() { b += stride; }
};
template <>
struct ColumnsWalk<SkippingColumns> : SkippingColumns {
  const float* term = nullptr;
  ISOBIT_INLINE void begin(std::int64_t k) { term = b + offsets[k]; }
  [[nodiscard]] ISOBIT_INLINE const float* at() const { return term; }
  ISOBIT_INLINE void fetch_ahead() const { __builtin_prefetch(term + 16 * kTileColumns); }
  ISOBIT_INLINE void step() {}
};
template <>
struct ColumnsWalk<ScatteredColumns> : ScatteredColumns {
  const float *term = nullptr, *ahead = nullptr;
  ISOBIT_INLINE void begin(std::int64_t k) { term = b + offsets[k], ahead = b + offsets[k + kAhead]; }
  [[nodiscard]] ISOBIT_INLINE const float* at() const { return term; }
  ISOBIT_INLINE void fetch_ahead() const {
    ISOBIT_UNROLL(GCC unroll 2)
    for (int v = 0; v < kTileVectors; v += 16 / kLanes) __builtin_prefetch(ahead + v * kLanes);
  }
  ISOBIT_INLINE void step() {}
};

// Eight lanes of a tile that has no more columns: half as many as a vector of 16, in half the time on processors that
// have one unit for those and two for these.
struct HalfLanes {
  __m256 v;
  HalfLanes() = default;
  ISOBIT_INLINE HalfLanes(__m256 raw) : v(raw) {}
  explicit ISOBIT_INLINE HalfLanes(float value) : v(_mm256_set1_ps(value)) {}
};
ISOBIT_INLINE HalfLanes fma(HalfLanes a, HalfLanes b, HalfLanes c) { return _mm256_fmadd_ps(a.v, b.v, c.v); }
ISOBIT_INLINE HalfLanes operator+(HalfLanes a, HalfLanes b) { return _mm256_add_ps(a.v, b.v); }
ISOBIT_INLINE void store(float* p, HalfLanes x) { _mm256_storeu_ps(p, x.v); }
ISOBIT_INLINE void read(const float* p, HalfLanes& x) { x.v = _mm256_loadu_ps(p); }

// Lanes of a tile of so many columns that are computed, and so read and written.
ISOBIT_INLINE constexpr std::int64_t lanes_of(std::int64_t columns) {
  return columns > kLanes ? kTileColumns : columns > 8 ? kLanes : 8;
}

// Not inlined: register allocation then depends on nothing but this loop.
template <class Rows, class Columns, class Lanes, int kRows, int kVectors>
__attribute__((noinline)) void tile_leaf(Rows a, Columns b, std::int64_t terms, float* out, std::int64_t out_stride) {
  Lanes t[kRows][kVectors];
  using Walk = RowsWalk<Rows, kRows>;
  Walk rows{a};
  ColumnsWalk<Columns> columns{b};
  ISOBIT_UNROLL(GCC unroll 16)
  for (int r = 0; r < kRows; ++r) {
    ISOBIT_UNROLL(GCC unroll 4)
    for (int v = 0; v < kVectors; ++v) t[r][v] = Lanes(0.0f);
  }
  const auto term = [&](std::int64_t k) __attribute__((always_inline)) {
    rows.begin(k);
    columns.begin(k);
    Lanes column[kVectors];
    ISOBIT_UNROLL(GCC unroll 4)
    for (int v = 0; v < kVectors; ++v) {
      if constexpr (requires { columns.vector(v); })
        column[v] = columns.vector(v);
      else
        read(columns.at() + v * kLanes, column[v]);
    }
    if constexpr (requires { columns.panel; }) {
      ISOBIT_UNROLL(GCC unroll 4)
      for (int v = 0; v < kVectors; ++v) store(columns.panel + v * kLanes, column[v]);
    }
    columns.fetch_ahead();
    ISOBIT_UNROLL(GCC unroll 16)
    for (int r = 0; r < kRows; ++r) {
      const Lanes factor(rows.factor(r));
      ISOBIT_UNROLL(GCC unroll 4)
      for (int v = 0; v < kVectors; ++v) t[r][v] = fma(factor, column[v], t[r][v]);
    }
    rows.step();
    columns.step();
  };
  // Twice, since a pragma's number is no constant of a template.
  if constexpr (Walk::kUnroll == 4) {
    ISOBIT_UNROLL(GCC unroll 4)
    for (std::int64_t k = 0; k < terms; ++k) term(k);
  } else {
    ISOBIT_UNROLL(GCC unroll 2)
    for (std::int64_t k = 0; k < terms; ++k) term(k);
  }
  ISOBIT_UNROLL(GCC unroll 16)
  for (int r = 0; r < kRows; ++r) {
    ISOBIT_UNROLL(GCC unroll 4)
    for (int v = 0; v < kVectors; ++v) t[r][v] = t[r][v] + Lanes(0.0f);
  }
  if constexpr (requires { b.levels; }) {
    for (std::uint64_t levels = b.levels; levels != 0; levels &= levels - 1) {
      const float* left = b.sums.of(__builtin_ctzll(levels));
      ISOBIT_UNROLL(GCC unroll 16)
      for (int r = 0; r < kRows; ++r) {
        ISOBIT_UNROLL(GCC unroll 4)
        for (int v = 0; v < kVectors; ++v) {
          Lanes sum;
          read(left + r * kTileColumns + v * kLanes, sum);
          t[r][v] = sum + t[r][v];
        }
      }
    }
  }
  ISOBIT_UNROLL(GCC unroll 16)
  for (int r = 0; r < kRows; ++r) {
    ISOBIT_UNROLL(GCC unroll 4)
    for (int v = 0; v < kVectors; ++v) store(out + r * out_stride + v * kLanes, t[r][v]);
  }
}

// tile_leaf for a tile of so many real rows and columns: less work at the borders.
template <class Rows, class Columns>
class TileFunctions {
 public:
  using Function = void (*)(Rows a, Columns b, std::int64_t terms, float* out, std::int64_t out_stride);
  constexpr TileFunctions() { fill<kTileRows>(); }
  [[nodiscard]] ISOBIT_INLINE Function operator()(std::int64_t rows, std::int64_t columns) const {
    return by_size_[rows][columns > kLanes ? 2 : columns > 8 ? 1 : 0];
  }

 private:
  template <int kRows>
  constexpr void fill() {
    by_size_[kRows][0] = tile_leaf<Rows, Columns, std::conditional_t<kLanes == 8, FloatLanes, HalfLanes>, kRows, 1>;
    by_size_[kRows][1] = tile_leaf<Rows, Columns, FloatLanes, kRows, 1>;
    by_size_[kRows][2] = tile_leaf<Rows, Columns, FloatLanes, kRows, 2>;
    if constexpr (kRows > 1) fill<kRows - 1>();
  }
  Function by_size_[kTileRows + 1][kTileVectors + 1] = {};
};

template <class Rows, class Columns>
constexpr TileFunctions<Rows, Columns> kTileFunctions;

// tile[r * stride + c], the first `rows` of it, and lanes_of(columns).
template <class Rows, class Columns>
ISOBIT_INLINE void multiply_tile(std::int64_t rows, std::int64_t columns, Rows a, Columns b, std::int64_t terms,
                                 float* tile, std::int64_t stride = kTileColumns) {
  kTileFunctions<Rows, Columns>(rows, columns)(a, b, terms, tile, stride);
}

}  // namespace
}  // namespace isobit::kernels::ISOBIT_ISA
