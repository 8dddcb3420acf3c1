// Rows of floats as words of three digits, for exact products (exact_tile.h). Private to this folder.
//
// A slab is a row, or what rows share an exponent over. One launch finds each slab's largest magnitude, by atomic
// maxima of bits; the next writes each element's digits as the bytes of a word, the first digit lowest. A slab that is
// not finite has zeros: its outputs are NaN whatever they are.
#pragma once

#include <algorithm>

#include "contract/exact_products.h"
#include "kernels/cuda/device.h"
#include "kernels/cuda/divider.h"

namespace isobit::kernels::ISOBIT_CUDA {

// Slab s = (s / inner, s % inner); its element i = (i / n1, i % n1).
struct Slabs {
  std::int64_t outer = 1, inner = 0, outer_stride = 0, inner_stride = 0;
  std::int64_t n0 = 1, n1 = 0, stride0 = 0, stride1 = 1;
};

// The same with its divisions prepared, and threads that walk over it: neighbours take neighbouring elements of a slab,
// or the same element of neighbouring slabs.
struct SlabWalk {
  static constexpr int kThreads = 256, kWarps = kThreads / kWarp;
  static constexpr std::int64_t kPart = 4096;  // elements of a slab that a warp, or a thread of each of eight, takes

  Slabs slabs;
  Divider of_inner, of_n1;
  std::int64_t count, elements, parts;
  bool across;

  explicit SlabWalk(const Slabs& s)
      : slabs(s),
        of_inner(std::max<std::int64_t>(1, s.inner), s.outer * s.inner),
        of_n1(std::max<std::int64_t>(1, s.n1), s.n0 * s.n1),
        count(s.outer * s.inner),
        elements(s.n0 * s.n1),
        parts(ceil_div(s.n0 * s.n1, kPart)),
        across(s.inner_stride == 1 && (s.stride1 != 1 || s.n1 == 1)) {}

  [[nodiscard]] Launch launch_shape() const { return {ceil_div(count, across ? kWarp : kWarps) * parts, kThreads}; }

  // visit(slab, element, offset)
  template <class Visit>
  ISOBIT_DEVICE void each(Visit visit) const {
    const int lane = thread_index() % kWarp, warp = thread_index() / kWarp;
    const std::int64_t group = block_index() / parts, part = block_index() % parts;
    const std::int64_t slab = across ? group * kWarp + lane : group * kWarps + warp;
    if (slab >= count) return;
    const std::int64_t outer = of_inner.quotient(slab), inner = slab - outer * of_inner.divisor();
    const std::int64_t from = outer * slabs.outer_stride + inner * slabs.inner_stride;
    const std::int64_t end = (part + 1) * kPart < elements ? (part + 1) * kPart : elements;
    for (std::int64_t i = part * kPart + (across ? warp : lane); i < end; i += across ? kWarps : kWarp) {
      const std::int64_t i0 = of_n1.quotient(i), i1 = i - i0 * of_n1.divisor();
      visit(slab, i, from + i0 * slabs.stride0 + i1 * slabs.stride1);
    }
  }
};

static ISOBIT_KERNEL void largest_kernel(SlabWalk walk, const float* x, int* largest) {
  std::int64_t of = 0;
  int most = 0;
  walk.each([&](std::int64_t slab, std::int64_t, std::int64_t offset) {
    const int bits = static_cast<int>(contract::bits_of(x[offset]) & 0x7fffffff);
    of = slab, most = bits > most ? bits : most;
  });
  if (most > 0) atomic_max(largest + of, most);
}

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
    fill_bytes(largest_.as<void>(), 0, walk.count * 4);
    if (pitch > walk.elements) fill_bytes(words_.as<void>(), 0, walk.count * pitch * 4);
    launch(largest_kernel, walk.launch_shape(), walk, x, largest_.as<int>());
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
