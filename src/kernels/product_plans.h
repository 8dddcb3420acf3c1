// For measurements: the tile and the split of k that products on a device take, instead of the planned ones
// (cuda/product_plan.h, cuda/exact_plan.h). Neither decides a bit; scripts/gpu-check --part tiles fits the plan's rates
// by them.
#pragma once

#include <cstdint>

namespace isobit::kernels {

struct ForcedPlan {
  int tile = -1;                  // of the kernel's tiles, from the largest; -1: as planned
  std::int64_t chunk_leaves = 0;  // exact products: ranges of k
};

// Throws std::invalid_argument unless tile is -1 to 3 and chunk_leaves a power of two up to 2^21 (any with tile -1).
// Not thread-safe: while no product runs. A kernel that lacks the tile takes its last one.
void force_product_plan(ForcedPlan plan);
[[nodiscard]] const ForcedPlan& forced_product_plan();

}  // namespace isobit::kernels
