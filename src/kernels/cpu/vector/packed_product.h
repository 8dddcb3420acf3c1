// A tile of outputs from whole packed operands: every leaf of it and their tree, in one go.
#pragma once

#include "contract/platform.h"
#include "kernels/cpu/vector/packing.h"
#include "kernels/cpu/vector/pairwise_tiles.h"

namespace isobit::kernels::ISOBIT_ISA {
namespace {

constexpr int kPackedLevels = 24;  // leaves up to 2^24: 2^33 terms

// tile[r][c] = the ordered product of row r of a, packed [terms][kTileRows], and column c of b, packed
// [terms][kTileColumns]. partial: tree_levels(leaves) tiles of scratch.
ISOBIT_INLINE void packed_product(const float* a, const float* b, std::int64_t terms, std::int64_t rows,
                                  std::int64_t columns, float* tile, float* partial) {
  if (terms <= contract::kLeaf) return multiply_tile(rows, columns, PackedRows{a}, PackedColumns{b}, terms, tile);
  const std::int64_t leaves = (terms + contract::kLeaf - 1) / contract::kLeaf;
  for (std::int64_t leaf = 0; leaf < leaves; ++leaf) {
    const std::int64_t k = leaf * contract::kLeaf;
    const std::int64_t count = terms - k < contract::kLeaf ? terms - k : contract::kLeaf;
    multiply_tile(rows, columns, PackedRows{a + k * kTileRows}, PackedColumns{b + k * kTileColumns}, count, tile);
    (void)add_leaf(tile, partial, kTileSize, leaf, leaves);
  }
}
ISOBIT_INLINE std::int64_t packed_product_scratch(std::int64_t terms) {
  const std::int64_t leaves = terms <= contract::kLeaf ? 1 : (terms + contract::kLeaf - 1) / contract::kLeaf;
  return tree_levels(leaves) * kTileSize;
}

}  // namespace
}  // namespace isobit::kernels::ISOBIT_ISA
