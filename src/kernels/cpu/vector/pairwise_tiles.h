// The pairwise tree of section 3 over whole tiles: a binary counter whose digits are tiles of partial sums.
//
// Leaves of one tile arrive left to right. Leaf j (0-based) is added to the partial sums that become complete
// with it, one per trailing one bit of j; the last leaf, to all that are left. See contract::PairwiseTree.
#pragma once

#include "kernels/cpu/vector/gemm_microkernel.h"

namespace isobit::kernels::ISOBIT_ISA {
namespace {

// Partial sums kept at once for that many leaves.
ISOBIT_INLINE int tree_levels(std::int64_t leaves) {
  int levels = 0;
  while ((std::int64_t{1} << levels) < leaves) ++levels;
  return levels;
}

// tile = left + tile for each complete left neighbour; then parks it. Returns true when tile is the tree's
// root. partial: this tile's slot at level 0; level l lies l * level_stride further. size: floats of a tile,
// a multiple of kLanes.
ISOBIT_INLINE bool add_leaf(float* tile, float* partial, std::int64_t level_stride, std::int64_t leaf,
                            std::int64_t leaves, std::int64_t size = kTileSize) {
  const bool last = leaf == leaves - 1;
  std::int64_t mask = last ? leaf : leaf & ~(leaf + 1);
  for (; mask != 0; mask &= mask - 1) {
    const float* left = partial + __builtin_ctzll(static_cast<unsigned long long>(mask)) * level_stride;
    for (std::int64_t i = 0; i < size; i += kLanes) store(tile + i, load(left + i) + load(tile + i));
  }
  if (last) return true;
  float* slot = partial + __builtin_ctzll(static_cast<unsigned long long>(leaf + 1)) * level_stride;
  for (std::int64_t i = 0; i < size; i += kLanes) store(slot + i, load(tile + i));
  return false;
}

}  // namespace
}  // namespace isobit::kernels::ISOBIT_ISA
