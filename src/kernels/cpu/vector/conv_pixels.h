// A convolution by pixels as lanes, and its input gradient: images of a slab at a time, multiplied by whichever kernel
// is faster.
#pragma once

#include "kernels/cpu/vector/conv_split.h"
#include "kernels/cpu/vector/direct_pixels.h"
#include "kernels/cpu/vector/gathered_product.h"
#include "kernels/tuning.h"

namespace isobit::kernels::ISOBIT_ISA {
namespace {

// As many as stay in the cache; more where that leaves fewer lanes empty (positions: of an image, or of a phase of it),
// for then a few large panels cost more than pixels from further away.
std::int64_t images_per_slab(const Slab& slab, std::int64_t images, std::int64_t positions) {
  const auto panels = [&](std::int64_t n) { return column_panels(n * positions); };
  const Tuning sizes = tuning();
  const std::int64_t near = at_least(1, at_most(images, sizes.slab_floats / at_least(1, slab.image)));
  const std::int64_t most = at_least(near, at_most(images, sizes.large_slab_floats / at_least(1, slab.image)));
  std::int64_t best = near, fewest = images / near * panels(near) + panels(images % near);
  for (std::int64_t n = near + 1; n <= most; ++n) {
    const std::int64_t all = images / n * panels(n) + panels(images % n);
    if (all < fewest) best = n, fewest = all;
  }
  return best;
}

// Packed weights are read faster; packing many of them for few positions takes longer still.
ISOBIT_INLINE bool packing_pays(std::int64_t positions, std::int64_t rows) {
  return positions >= tuning().pack_positions || rows <= 4 * kTileRows;
}

void multiply(const GatheredProduct& p, const float* slab, std::int64_t images, std::int64_t tile0,
              std::int64_t tile1) {
  if (direct_is_faster(p)) {
    multiply_pixels_directly(p, slab, images, tile0, tile1);
  } else {
    multiply_pixels(p, slab, images, tile0, tile1);
  }
}

}  // namespace
}  // namespace isobit::kernels::ISOBIT_ISA
