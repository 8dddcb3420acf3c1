// Slabs: a row of an exact product, or what rows share an exponent over, and each slab's largest magnitude, by atomic
// maxima of bits. Private to this folder.
#pragma once

#include <algorithm>
#include <cstdint>

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
  static constexpr std::int64_t kPart = 1024;  // elements of a slab that a warp, or a thread of each of eight, takes

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

  // What one thread walks over: elements `first`, `first` + `step`, ... of a slab.
  struct Share {
    std::int64_t slab, from, first, end;
    int step;
  };
  ISOBIT_DEVICE Share share() const {
    const int lane = thread_index() % kWarp, warp = thread_index() / kWarp;
    const std::int64_t group = block_index() / parts, part = block_index() % parts;
    const std::int64_t slab = across ? group * kWarp + lane : group * kWarps + warp;
    if (slab >= count) return {0, 0, 0, 0, 1};
    const std::int64_t outer = of_inner.quotient(slab), inner = slab - outer * of_inner.divisor();
    const std::int64_t end = (part + 1) * kPart < elements ? (part + 1) * kPart : elements;
    return {slab, outer * slabs.outer_stride + inner * slabs.inner_stride, part * kPart + (across ? warp : lane), end,
            across ? kWarps : kWarp};
  }
  ISOBIT_DEVICE std::int64_t offset(const Share& s, std::int64_t i) const {
    const std::int64_t i0 = of_n1.quotient(i);
    return s.from + i0 * slabs.stride0 + (i - i0 * of_n1.divisor()) * slabs.stride1;
  }
  // visit(slab, offset)
  template <class Visit>
  ISOBIT_DEVICE void each(Visit visit) const {
    const Share s = share();
    for (std::int64_t i = s.first; i < s.end; i += s.step) visit(s.slab, offset(s, i));
  }
};

// A slab's exponent, or what makes the products of one that is not finite NaN; from its largest magnitude's bits.
inline constexpr int kNotFiniteRow = 1 << 20;
ISOBIT_DEVICE int row_exponent(std::uint32_t largest) {
  return largest < 0x7f800000 ? contract::exact_exponent(largest) : kNotFiniteRow;
}
// A sum times 2^exponent, rounded once: contract::exact_rounded. exponent: of both rows together, less 32.
ISOBIT_DEVICE float exact_product(std::int64_t sum, int exponent) {
  if (exponent >= kNotFiniteRow / 2) return contract::float_of(0x7fc00000);
  // By a normal power an integer becomes 0, a normal number or one above all: the first rounding is the only one.
  if (exponent >= -126 && exponent <= 127) {
    return static_cast<float>(sum) * contract::float_of(static_cast<std::uint32_t>(exponent + 127) << 23);
  }
  return contract::exact_rounded(sum, exponent);
}

ISOBIT_DEVICE int magnitude_bits(float x) { return static_cast<int>(contract::bits_of(x) & 0x7fffffff); }
ISOBIT_DEVICE int larger(int a, int b) { return a > b ? a : b; }
ISOBIT_DEVICE int larger(int a, const Float4& b) {
  return larger(
      a, larger(larger(magnitude_bits(b.x), magnitude_bits(b.y)), larger(magnitude_bits(b.z), magnitude_bits(b.w))));
}
ISOBIT_DEVICE int largest_in_warp(int most) {
  for (int mask = kWarp / 2; mask > 0; mask /= 2) most = larger(most, shuffle_xor(most, mask));
  return most;
}

// Of any slabs. Eight loads on their way at a time.
static ISOBIT_KERNEL ISOBIT_LAUNCH_BOUNDS(SlabWalk::kThreads, 4) void largest_kernel(SlabWalk walk, const float* x,
                                                                                     int* largest) {
  constexpr int kAhead = 8;
  const SlabWalk::Share s = walk.share();
  int most = 0;
  for (std::int64_t i = s.first; i < s.end; i += kAhead * s.step) {
    float ahead[kAhead];
#pragma unroll
    for (int u = 0; u < kAhead; ++u) {
      const std::int64_t at = i + u * s.step;
      ahead[u] = at < s.end ? x[walk.offset(s, at)] : 0.0f;
    }
#pragma unroll
    for (int u = 0; u < kAhead; ++u) most = larger(most, magnitude_bits(ahead[u]));
  }
  if (!walk.across) {  // the whole warp has one slab, and lane 0 a part of it
    most = largest_in_warp(most);
    if (thread_index() % kWarp != 0) return;
  }
  if (most > 0) atomic_max(largest + s.slab, most);
}

// Slabs of runs of neighbouring elements, four of them a load: a warp takes a part of a run.
struct RunWalk {
  static constexpr int kThreads = 256, kWarps = kThreads / kWarp, kAhead = 4;
  static constexpr std::int64_t kPart = 4096;

  Slabs slabs;
  Divider of_inner, of_runs, of_parts;
  std::int64_t parts, count;

  explicit RunWalk(const Slabs& s)
      : slabs(s),
        of_inner(std::max<std::int64_t>(1, s.inner), s.outer * s.inner),
        of_runs(std::max<std::int64_t>(1, s.n0), s.outer * s.inner * s.n0),
        parts(ceil_div(s.n1, kPart)),
        count(s.outer * s.inner * s.n0 * parts) {
    of_parts = Divider(std::max<std::int64_t>(1, parts), count);
  }
  [[nodiscard]] static bool takes(const Slabs& s, const float* x) {
    return s.stride1 == 1 && s.n1 >= 128 && s.n1 % 4 == 0 && s.stride0 % 4 == 0 && s.inner_stride % 4 == 0 &&
           s.outer_stride % 4 == 0 && reinterpret_cast<std::uintptr_t>(x) % 16 == 0;
  }
};

static ISOBIT_KERNEL ISOBIT_LAUNCH_BOUNDS(RunWalk::kThreads,
                                          4) void largest_of_runs_kernel(RunWalk walk, const float* x, int* largest) {
  const std::int64_t warp = block_index() * RunWalk::kWarps + thread_index() / kWarp;
  if (warp >= walk.count) return;
  const std::int64_t run = walk.of_parts.quotient(warp), part = warp - run * walk.parts;
  const std::int64_t slab = walk.of_runs.quotient(run), outer = walk.of_inner.quotient(slab);
  const float* const from = x + outer * walk.slabs.outer_stride +
                            (slab - outer * walk.of_inner.divisor()) * walk.slabs.inner_stride +
                            (run - slab * walk.of_runs.divisor()) * walk.slabs.stride0;
  const std::int64_t end = (part + 1) * RunWalk::kPart < walk.slabs.n1 ? (part + 1) * RunWalk::kPart : walk.slabs.n1;
  int most = 0;
  constexpr int kStep = 4 * kWarp;
  for (std::int64_t i = part * RunWalk::kPart + thread_index() % kWarp * 4; i < end; i += RunWalk::kAhead * kStep) {
    Float4 ahead[RunWalk::kAhead];
#pragma unroll
    for (int u = 0; u < RunWalk::kAhead; ++u) ahead[u] = i + u * kStep < end ? load4(from + i + u * kStep) : Float4{};
#pragma unroll
    for (int u = 0; u < RunWalk::kAhead; ++u) most = larger(most, ahead[u]);
  }
  most = largest_in_warp(most);
  if (thread_index() % kWarp == 0 && most > 0) atomic_max(largest + slab, most);
}

// Slabs that are columns: a lane walks down `width` neighbouring ones (a load of 16 bytes, or one), a block down a part
// of 32 x width of them.
template <int width>
struct ColumnWalk {
  static constexpr int kThreads = 256, kWarps = kThreads / kWarp, kColumns = kWarp * width, kAhead = 8;
  static constexpr std::int64_t kBlocks =
      1024;  // wanted; more parts of a slab, of kLeast elements, where slabs are few
  static constexpr std::int64_t kLeast = 8 * kWarps;

  Slabs slabs;
  Divider of_parts, of_groups;
  std::int64_t stride, elements, parts, part, groups, count;

  explicit ColumnWalk(const Slabs& s)
      : slabs(s),
        stride(s.n1 == 1 ? s.stride0 : s.stride1),
        elements(s.n0 * s.n1),
        groups(ceil_div(s.inner, kColumns)) {
    const std::int64_t blocks = std::max<std::int64_t>(1, s.outer * groups);
    parts = std::min(ceil_div(kBlocks, blocks), std::max<std::int64_t>(1, elements / kLeast));
    part = std::max<std::int64_t>(1, ceil_div(elements, parts));
    parts = std::max<std::int64_t>(1, ceil_div(elements, part));
    count = s.outer * groups * parts;
    of_parts = Divider(parts, count);
    of_groups = Divider(std::max<std::int64_t>(1, groups), s.outer * groups);
  }
  [[nodiscard]] static bool takes(const Slabs& s, const float* x) {
    const std::int64_t stride = s.n1 == 1 ? s.stride0 : s.stride1;
    const bool columns = (s.inner_stride == 1 || s.inner == 1) && (s.n0 == 1 || s.n1 == 1);
    return columns && (width == 1 || (s.inner % width == 0 && stride % width == 0 && s.outer_stride % width == 0 &&
                                      reinterpret_cast<std::uintptr_t>(x) % 16 == 0));
  }
};

ISOBIT_DEVICE void load_columns(const float* from, float (&to)[4]) {
  const Float4 four = load4(from);
  to[0] = four.x, to[1] = four.y, to[2] = four.z, to[3] = four.w;
}
ISOBIT_DEVICE void load_columns(const float* from, float (&to)[1]) { to[0] = *from; }

// Where a slab has one part nothing needs to stand in `largest` before.
template <int width>
ISOBIT_KERNEL ISOBIT_LAUNCH_BOUNDS(ColumnWalk<width>::kThreads,
                                   4) void largest_of_columns_kernel(ColumnWalk<width> walk, const float* x,
                                                                     int* largest) {
  using Walk = ColumnWalk<width>;
  const int lane = thread_index() % kWarp, warp = thread_index() / kWarp;
  const std::int64_t block = walk.of_parts.quotient(block_index()), part = block_index() - block * walk.parts;
  const std::int64_t outer = walk.of_groups.quotient(block), group = block - outer * walk.groups;
  const std::int64_t column = group * Walk::kColumns + lane * width;
  const std::int64_t end = (part + 1) * walk.part < walk.elements ? (part + 1) * walk.part : walk.elements;
  const float* const from = x + outer * walk.slabs.outer_stride + column;
  const bool inside = column < walk.slabs.inner;
  int most[width] = {};
  for (std::int64_t i = part * walk.part + warp; inside && i < end; i += Walk::kAhead * Walk::kWarps) {
    float ahead[Walk::kAhead][width] = {};
#pragma unroll
    for (int u = 0; u < Walk::kAhead; ++u) {
      const std::int64_t at = i + u * Walk::kWarps;
      if (at < end) load_columns(from + at * walk.stride, ahead[u]);
    }
#pragma unroll
    for (int u = 0; u < Walk::kAhead; ++u) {
#pragma unroll
      for (int k = 0; k < width; ++k) most[k] = larger(most[k], magnitude_bits(ahead[u][k]));
    }
  }
  int* const of_warps = shared_memory<int>();  // [warp][column]
#pragma unroll
  for (int k = 0; k < width; ++k) of_warps[warp * Walk::kColumns + lane * width + k] = most[k];
  barrier();
  const int mine = thread_index();
  if (mine >= Walk::kColumns || group * Walk::kColumns + mine >= walk.slabs.inner) return;
  int all = 0;
#pragma unroll
  for (int w = 0; w < Walk::kWarps; ++w) all = larger(all, of_warps[w * Walk::kColumns + mine]);
  int* const to = largest + outer * walk.slabs.inner + group * Walk::kColumns + mine;
  if (walk.parts == 1)
    *to = all;
  else if (all > 0)
    atomic_max(to, all);
}

template <int width>
void find_largest_of_columns(const Slabs& slabs, const float* x, int* largest) {
  using Walk = ColumnWalk<width>;
  const Walk walk(slabs);
  if (walk.parts > 1) fill_bytes(largest, 0, slabs.outer * slabs.inner * 4);
  launch(largest_of_columns_kernel<width>, {walk.count, Walk::kThreads, Walk::kWarps * Walk::kColumns * 4}, walk, x,
         largest);
}

// The bits of each slab's largest magnitude; those of infinity, or above, where it is not finite.
inline void find_largest(const Slabs& slabs, const float* x, int* largest) {
  const SlabWalk walk(slabs);
  if (walk.across && ColumnWalk<4>::takes(slabs, x)) return find_largest_of_columns<4>(slabs, x, largest);
  if (walk.across && ColumnWalk<1>::takes(slabs, x)) return find_largest_of_columns<1>(slabs, x, largest);
  fill_bytes(largest, 0, walk.count * 4);
  if (RunWalk::takes(slabs, x)) {
    const RunWalk runs(slabs);
    launch(largest_of_runs_kernel, {ceil_div(runs.count, RunWalk::kWarps), RunWalk::kThreads}, runs, x, largest);
  } else {
    launch(largest_kernel, walk.launch_shape(), walk, x, largest);
  }
}

}  // namespace isobit::kernels::ISOBIT_CUDA
