// Floats as words of three digits, for exact products (exact_tile.h). Private to this folder.
//
// An element's digits are the bytes of a word, the first digit lowest. A slab (exact_slabs.h) that is not finite has
// zeros: its outputs are NaN whatever they are.
#pragma once

#include <algorithm>

#include "kernels/cuda/exact_slabs.h"

namespace isobit::kernels::ISOBIT_CUDA {

static ISOBIT_KERNEL void words_kernel(SlabWalk walk, const float* x, const std::uint32_t* largest,
                                       std::uint32_t* words) {
  walk.each([&](std::int64_t slab, std::int64_t offset) {
    std::uint32_t word = 0;
    if (const std::uint32_t most = largest[slab]; most < 0x7f800000) {
      const contract::ExactDigits d =
          contract::exact_digits(contract::exact_integer(contract::bits_of(x[offset]), contract::exact_exponent(most)));
      word = static_cast<std::uint32_t>(d.first & 0xff) | static_cast<std::uint32_t>(d.second & 0xff) << 8 |
             static_cast<std::uint32_t>(d.third & 0xff) << 16;
    }
    words[offset] = word;
  });
}

// The words of a tensor, in its own layout (dense, so that the slabs' elements are all that there are), and the largest
// magnitudes of its slabs, in scratch memory.
class ExactWords {
 public:
  ExactWords(const Slabs& slabs, const float* x)
      : largest_(slabs.outer * slabs.inner * 4), words_(slabs.outer * slabs.inner * slabs.n0 * slabs.n1 * 4) {
    const SlabWalk walk(slabs);
    find_largest(slabs, x, largest_.as<int>());
    launch(words_kernel, walk.launch_shape(), walk, x, largest(), words_.as<std::uint32_t>());
  }

  [[nodiscard]] const std::uint32_t* words() const { return words_.as<const std::uint32_t>(); }
  [[nodiscard]] const std::uint32_t* largest() const { return largest_.as<const std::uint32_t>(); }

 private:
  Scratch largest_, words_;
};

}  // namespace isobit::kernels::ISOBIT_CUDA
