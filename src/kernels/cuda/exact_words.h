// Rows of floats as words of three digits, for exact products (exact_tile.h). Private to this folder.
//
// An element's digits are the bytes of a word, the first digit lowest. A slab (exact_slabs.h) that is not finite has
// zeros: its outputs are NaN whatever they are.
#pragma once

#include <algorithm>

#include "kernels/cuda/exact_slabs.h"

namespace isobit::kernels::ISOBIT_CUDA {

// Where a slab's element goes: to its own place in x's layout, or (pitch > 0) to row `slab` of a dense matrix.
static ISOBIT_KERNEL void words_kernel(SlabWalk walk, const float* x, const std::uint32_t* largest, std::int64_t pitch,
                                       std::uint32_t* words) {
  walk.each([&](std::int64_t slab, std::int64_t element, std::int64_t offset) {
    std::uint32_t word = 0;
    if (const std::uint32_t most = largest[slab]; most < 0x7f800000) {
      const contract::ExactDigits d =
          contract::exact_digits(contract::exact_integer(contract::bits_of(x[offset]), contract::exact_exponent(most)));
      word = static_cast<std::uint32_t>(d.first & 0xff) | static_cast<std::uint32_t>(d.second & 0xff) << 8 |
             static_cast<std::uint32_t>(d.third & 0xff) << 16;
    }
    words[pitch > 0 ? slab * pitch + element : offset] = word;
  });
}

// The words of a tensor, and the largest magnitudes of its slabs, in scratch memory.
class ExactWords {
 public:
  // In x's own layout: dense, so that the slabs' elements are all that there are.
  ExactWords(const Slabs& slabs, const float* x) : ExactWords(slabs, x, 0) {}
  // Row by row, with zeros up to `pitch` words.
  ExactWords(const Slabs& slabs, const float* x, std::int64_t pitch)
      : largest_(slabs.outer * slabs.inner * 4), words_(bytes_of(slabs, pitch)) {
    const SlabWalk walk(slabs);
    if (pitch > walk.elements) fill_bytes(words_.as<void>(), 0, walk.count * pitch * 4);
    find_largest(slabs, x, largest_.as<int>());
    launch(words_kernel, walk.launch_shape(), walk, x, largest(), pitch, words_.as<std::uint32_t>());
  }

  [[nodiscard]] const std::uint32_t* words() const { return words_.as<const std::uint32_t>(); }
  [[nodiscard]] const std::uint32_t* largest() const { return largest_.as<const std::uint32_t>(); }

 private:
  static std::int64_t bytes_of(const Slabs& s, std::int64_t pitch) {
    return s.outer * s.inner * (pitch > 0 ? pitch : s.n0 * s.n1) * 4;
  }
  Scratch largest_, words_;
};

}  // namespace isobit::kernels::ISOBIT_CUDA
