// The product of gathered_product.h without the copy of pixels: for few rows, where copying would cost as
// much as multiplying.
//
// A slot is a register's worth of neighbouring positions of one image row; the lanes of a row's last slot
// that lie past its end compute what is not stored. Pixels are loaded from the slab itself.
#pragma once

#include "kernels/cpu/vector/gathered_product.h"

namespace isobit::kernels::ISOBIT_ISA {
namespace {

// Slots at once: enough independent chains to hide the latency of fma.
constexpr int slots_for(int rows) { return rows == 1 ? 8 : rows == 2 ? 4 : 2; }

// out[r][s * kLanes + l] = chain over k of fma(a[k][r], slots[s][offsets[k] + l], .), + (+0)
template <int kRows>
__attribute__((noinline)) void direct_leaf(const float* a, const std::int32_t* offsets, const float* const* slots,
                                           std::int64_t terms, float* out) {
  constexpr int kSlots = slots_for(kRows);
  FloatLanes t[kRows][kSlots];
  const float* slot[kSlots];
  ISOBIT_UNROLL(GCC unroll 8)
  for (int s = 0; s < kSlots; ++s) slot[s] = slots[s];
  ISOBIT_UNROLL(GCC unroll 16)
  for (int r = 0; r < kRows; ++r) {
    ISOBIT_UNROLL(GCC unroll 8)
    for (int s = 0; s < kSlots; ++s) t[r][s] = FloatLanes(0.0f);
  }
  for (std::int64_t k = 0; k < terms; ++k, a += kTileRows) {
    const std::int64_t offset = offsets[k];
    FloatLanes column[kSlots];
    ISOBIT_UNROLL(GCC unroll 8)
    for (int s = 0; s < kSlots; ++s) column[s] = load(slot[s] + offset);
    ISOBIT_UNROLL(GCC unroll 16)
    for (int r = 0; r < kRows; ++r) {
      const FloatLanes factor(a[r]);
      ISOBIT_UNROLL(GCC unroll 8)
      for (int s = 0; s < kSlots; ++s) t[r][s] = fma(factor, column[s], t[r][s]);
    }
  }
  ISOBIT_UNROLL(GCC unroll 16)
  for (int r = 0; r < kRows; ++r) {
    ISOBIT_UNROLL(GCC unroll 8)
    for (int s = 0; s < kSlots; ++s) store(out + (r * kSlots + s) * kLanes, t[r][s] + FloatLanes(0.0f));
  }
}

using DirectFunction = void (*)(const float*, const std::int32_t*, const float* const*, std::int64_t, float*);
struct DirectFunctions {
  DirectFunction by_rows[kTileRows + 1];
};
template <int kRows = kTileRows>
constexpr void fill_direct_functions(DirectFunctions& f) {
  f.by_rows[kRows] = direct_leaf<kRows>;
  if constexpr (kRows > 1) fill_direct_functions<kRows - 1>(f);
}
constexpr DirectFunctions make_direct_functions() {
  DirectFunctions f{};
  fill_direct_functions(f);
  return f;
}
constexpr DirectFunctions kDirectFunctions = make_direct_functions();

// Measured: copying a panel costs about what six rows' products do.
ISOBIT_INLINE bool direct_is_faster(const GatheredProduct& p) {
  const std::int64_t slots = (p.width + kLanes - 1) / kLanes, wasted = slots * kLanes - p.width;
  return p.weights != nullptr && p.rows <= 4 * kTileRows && p.rows * wasted < 6 * p.width;
}

// As multiply_pixels.
void multiply_pixels_directly(const GatheredProduct& p, const float* slab, std::int64_t images, std::int64_t tile0,
                              std::int64_t tile1) {
  using contract::kLeaf;
  Workspace workspace;
  const std::int64_t leaves = p.terms > kLeaf ? (p.terms + kLeaf - 1) / kLeaf : 1;
  const std::int64_t level_stride = (tile1 - tile0) * kTileSize;
  float* partial = workspace.floats(tree_levels(leaves) * level_stride);
  alignas(64) float tile[kTileSize];
  const std::int64_t slots_per_row = (p.width + kLanes - 1) / kLanes, all_slots = images * p.height * slots_per_row;
  const std::int64_t height = tile_height(p.rows), only_rows = p.rows - tile0 * height;  // where there is one tile
  const int most_slots = slots_for(static_cast<int>(tile1 - tile0 > 1 || only_rows > height ? height : only_rows));
  for (std::int64_t first = 0; first < all_slots; first += most_slots) {
    const float* slot[8];
    PixelRun runs[8];
    for (int s = 0; s < most_slots; ++s) {
      const std::int64_t index = first + s < all_slots ? first + s : all_slots - 1;
      const std::int64_t j = index % slots_per_row * kLanes, i = index / slots_per_row % p.height;
      const std::int64_t n = index / slots_per_row / p.height;
      slot[s] = slab + n * p.image + i * p.row_step + j;
      const std::int64_t length = p.width - j < kLanes ? p.width - j : kLanes;
      runs[s] = {s * kLanes, first + s < all_slots ? length : 0, n * p.y_image + i * p.y_row + j * p.y_column};
    }
    for (std::int64_t leaf = 0; leaf < leaves; ++leaf) {
      const std::int64_t k0 = leaf * kLeaf, terms = p.terms - k0 < kLeaf ? p.terms - k0 : kLeaf;
      for (std::int64_t t = tile0; t < tile1; ++t) {
        const std::int64_t rows = p.rows - t * height < height ? p.rows - t * height : height;
        // A last tile of one or two rows keeps the slots of the others: a third row is computed and not
        // stored.
        const std::int64_t computed = most_slots == 2 && rows < 3 ? 3 : rows;
        kDirectFunctions.by_rows[computed](p.weights + (t * p.terms + k0) * kTileRows, p.offsets + k0, slot, terms,
                                           tile);
        if (add_leaf(tile, partial + (t - tile0) * kTileSize, level_stride, leaf, leaves))
          store_runs(p, runs, most_slots, t * height, rows, most_slots * kLanes, tile);
      }
    }
  }
}

}  // namespace
}  // namespace isobit::kernels::ISOBIT_ISA
