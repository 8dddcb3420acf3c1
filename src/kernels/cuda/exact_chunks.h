// Rows of floats as digits in chunks of 32 terms, for exact products (exact_blocks.h). Private to this folder.
//
// A chunk is 96 bytes, [digit][term]: the first, second and third digits of 32 neighbouring terms of a row, zeros
// behind the last term. So each digit fills a sector of memory (32 bytes): nothing is read twice. A slab is a row, or
// what rows share an exponent over (exact_slabs.h). A slab that is not finite has zeros: its outputs are NaN whatever
// they are.
#pragma once

#include "kernels/cuda/exact_slabs.h"

namespace isobit::kernels::ISOBIT_CUDA {

inline constexpr int kChunkTerms = 32, kChunkWords = 24;

// Multiplies an element by 2^(24 - e) in two steps, since that power itself may not be a float. Both are exact, unless
// the product is below 2^-126 and becomes the integer 0 either way.
struct ExactScale {
  float first, second;

  ISOBIT_DEVICE explicit ExactScale(int e) {
    const int power = 24 - e, most = power < 127 ? power : 127;
    first = power_of_two(most), second = power_of_two(power - most);
  }
  // The digits of the integer nearest to it, as bytes, the first digit highest: V + 0x808080 has them, raised by 128.
  ISOBIT_DEVICE std::uint32_t digits(float x) const {
    return static_cast<std::uint32_t>(nearest_integer(x * first * second) + 0x808080) ^ 0x808080u;
  }

 private:
  ISOBIT_DEVICE static float power_of_two(int p) {  // -126 <= p <= 127
    return contract::float_of(static_cast<std::uint32_t>(p + 127) << 23);
  }
};

struct alignas(16) ChunkLine {
  std::uint32_t at[4];
};

// Byte `which` of four words.
ISOBIT_DEVICE std::uint32_t bytes_of(const std::uint32_t* words, int which) {
  std::uint32_t bytes = 0;
#pragma unroll
  for (int t = 0; t < 4; ++t) bytes |= (words[t] >> 8 * which & 0xff) << 8 * t;
  return bytes;
}

inline constexpr int kChunkThreads = 256;
inline constexpr int kChunkPitch = kChunkWords + 4;  // words in shared memory: eight threads' lines meet all banks
inline constexpr std::int64_t kChunkShared = kChunkThreads * (kChunkPitch * 4 + 8);

// Every thread's 32 words of digits as chunk `place` of so many (from `count` on: none), by way of shared memory:
// neighbouring threads then write neighbouring lines, whole sectors at a time. Every thread of the block calls it.
ISOBIT_DEVICE void store_chunks(const std::uint32_t (&words)[kChunkTerms], std::int64_t place, std::int64_t count,
                                std::uint32_t* chunks) {
  auto* const places = shared_memory<std::int64_t>();
  auto* const lines = reinterpret_cast<std::uint32_t*>(places + kChunkThreads);
  const int thread = thread_index(), lane = thread % kWarp;
#pragma unroll
  for (int line = 0; line < 6; ++line) {
    ChunkLine to;
#pragma unroll
    for (int i = 0; i < 4; ++i) to.at[i] = bytes_of(words + line % 2 * 16 + 4 * i, 2 - line / 2);
    reinterpret_cast<ChunkLine*>(lines + thread * kChunkPitch)[line] = to;
  }
  places[thread] = place;
  barrier();
#pragma unroll
  for (int i = 0; i < 6; ++i) {
    const int index = i * kWarp + lane, chunk = thread - lane + index / 6, line = index % 6;
    if (places[chunk] >= count) continue;
    reinterpret_cast<ChunkLine*>(chunks + places[chunk] * kChunkWords)[line] =
        reinterpret_cast<const ChunkLine*>(lines + chunk * kChunkPitch)[line];
  }
}

// Four neighbouring terms of a chunk, the quarter of a line.
ISOBIT_DEVICE void store_quad(const ExactScale& scale, const Float4& x, std::uint32_t* chunk, int quad) {
  const std::uint32_t words[4] = {scale.digits(x.x), scale.digits(x.y), scale.digits(x.z), scale.digits(x.w)};
#pragma unroll
  for (int digit = 0; digit < 3; ++digit) chunk[8 * digit + quad] = bytes_of(words, 2 - digit);
}

// Chunk ((a n1 + b) n2 + c) depth + d has the terms x[a s0 + b s1 + c s2 + t term] for t = 32 d ... 32 d + 31, t <
// terms; its slab is a l0 + b / slab_rows + c l2.
struct ChunkShape {
  std::int64_t n0 = 1, n1 = 1, n2 = 1, terms = 0;
  std::int64_t s0 = 0, s1 = 0, s2 = 0, term = 1;
  std::int64_t l0 = 0, slab_rows = 1, l2 = 0;

  [[nodiscard]] ISOBIT_HOST_DEVICE std::int64_t depth() const { return (terms + kChunkTerms - 1) / kChunkTerms; }
  [[nodiscard]] std::int64_t count() const { return n0 * n1 * n2 * depth(); }
};

// Neighbouring terms: a thread makes a quarter of a line. Else a chunk, and neighbours take neighbouring b.
struct ChunkWalk {
  static constexpr int kQuads = kChunkTerms / 4;
  ChunkShape shape;
  Divider of_b, of_c, of_d, of_slab;
  std::int64_t count, depth;
  bool along, wide;

  ChunkWalk(const ChunkShape& s, const float* x)
      : shape(s),
        of_b(s.n1, s.count()),
        of_c(s.n2, s.count()),
        of_d(std::max<std::int64_t>(1, s.depth()), s.count()),
        of_slab(s.slab_rows, s.n1),
        count(s.count()),
        depth(s.depth()),
        along(s.term == 1),
        wide(s.term == 1 && s.s0 % 4 == 0 && s.s1 % 4 == 0 && s.s2 % 4 == 0 &&
             reinterpret_cast<std::uintptr_t>(x) % 16 == 0) {}

  struct Place {
    std::int64_t a, b, c, d;
  };
  ISOBIT_DEVICE Place place(std::int64_t i) const {
    if (along) {
      const std::int64_t row = of_d.quotient(i), d = i - row * depth;
      const std::int64_t ab = of_c.quotient(row), a = of_b.quotient(ab);
      return {a, ab - a * shape.n1, row - ab * shape.n2, d};
    }
    const std::int64_t acd = of_b.quotient(i), ac = of_d.quotient(acd), a = of_c.quotient(ac);
    return {a, i - acd * shape.n1, ac - a * shape.n2, acd - ac * depth};
  }
};

static ISOBIT_KERNEL ISOBIT_LAUNCH_BOUNDS(kChunkThreads, 2) void chunks_kernel(ChunkWalk walk, const float* x,
                                                                               const std::uint32_t* largest,
                                                                               std::uint32_t* chunks) {
  const std::int64_t i = block_index() * kChunkThreads + thread_index();
  const ChunkShape& s = walk.shape;
  std::int64_t place = walk.count;
  std::uint32_t words[kChunkTerms] = {};
  if (i < walk.count) {
    const ChunkWalk::Place at = walk.place(i);
    const std::uint32_t most = largest[at.a * s.l0 + walk.of_slab.quotient(at.b) + at.c * s.l2];
    place = ((at.a * s.n1 + at.b) * s.n2 + at.c) * walk.depth + at.d;
    if (most < 0x7f800000) {
      const ExactScale scale(contract::exact_exponent(most));
      const float* const from = x + at.a * s.s0 + at.b * s.s1 + at.c * s.s2 + at.d * kChunkTerms * s.term;
      const std::int64_t left = s.terms - at.d * kChunkTerms;
      float values[kChunkTerms];
#pragma unroll
      for (int t = 0; t < kChunkTerms; ++t) values[t] = t < left ? from[t * s.term] : 0.0f;
#pragma unroll
      for (int t = 0; t < kChunkTerms; ++t) words[t] = scale.digits(values[t]);
    }
  }
  store_chunks(words, place, walk.count, chunks);
}

// The terms i to i + 3 of a row, zeros behind the last one.
ISOBIT_DEVICE Float4 four_terms(const float* row, std::int64_t i, std::int64_t terms, bool wide) {
  if (wide && i + 4 <= terms) return load4(row + i);
  return {i < terms ? row[i] : 0.0f, i + 1 < terms ? row[i + 1] : 0.0f, i + 2 < terms ? row[i + 2] : 0.0f,
          i + 3 < terms ? row[i + 3] : 0.0f};
}

static ISOBIT_KERNEL ISOBIT_LAUNCH_BOUNDS(kChunkThreads, 4) void quads_kernel(ChunkWalk walk, const float* x,
                                                                              const std::uint32_t* largest,
                                                                              std::uint32_t* chunks) {
  const std::int64_t i = block_index() * kChunkThreads + thread_index(), chunk = i / ChunkWalk::kQuads;
  if (chunk >= walk.count) return;
  const int quad = static_cast<int>(i - chunk * ChunkWalk::kQuads);
  const ChunkShape& s = walk.shape;
  const ChunkWalk::Place at = walk.place(chunk);
  const std::uint32_t most = largest[at.a * s.l0 + walk.of_slab.quotient(at.b) + at.c * s.l2];
  const bool finite = most < 0x7f800000;
  const float* const row = x + at.a * s.s0 + at.b * s.s1 + at.c * s.s2;
  const Float4 four = four_terms(row, at.d * kChunkTerms + 4 * quad, finite ? s.terms : 0, walk.wide);
  store_quad(ExactScale(contract::exact_exponent(finite ? most : 0)), four, chunks + chunk * kChunkWords, quad);
}

// Rows that are slabs, of neighbouring terms: a warp reads a row once, what fits into its registers.
static ISOBIT_KERNEL ISOBIT_LAUNCH_BOUNDS(kChunkThreads, 4) void row_chunks_kernel(ChunkWalk walk, const float* x,
                                                                                   std::uint32_t* largest,
                                                                                   std::uint32_t* chunks) {
  constexpr int kKept = 6, kStep = 4 * kWarp;
  const std::int64_t row = block_index() * (kChunkThreads / kWarp) + thread_index() / kWarp;
  const ChunkShape& s = walk.shape;
  if (row >= s.n0 * s.n1) return;
  const std::int64_t a = walk.of_b.quotient(row);
  const float* const from = x + a * s.s0 + (row - a * s.n1) * s.s1;
  const int lane = thread_index() % kWarp;
  int most = 0;
  Float4 kept[kKept];
#pragma unroll
  for (int u = 0; u < kKept; ++u) kept[u] = four_terms(from, 4 * lane + u * kStep, s.terms, walk.wide);
#pragma unroll
  for (int u = 0; u < kKept; ++u) most = larger(most, kept[u]);
  for (std::int64_t i = 4 * lane + kKept * kStep; i < s.terms; i += 2 * kStep) {
    const Float4 one = four_terms(from, i, s.terms, walk.wide);
    most = larger(larger(most, one), four_terms(from, i + kStep, s.terms, walk.wide));
  }
  most = largest_in_warp(most);
  if (lane == 0) largest[row] = static_cast<std::uint32_t>(most);
  const bool finite = most < 0x7f800000;
  const ExactScale scale(contract::exact_exponent(finite ? static_cast<std::uint32_t>(most) : 0));
  std::uint32_t* const to = chunks + row * walk.depth * kChunkWords;
  const auto put = [&](std::int64_t i, const Float4& four) {
    if (i < walk.depth * kChunkTerms)
      store_quad(scale, finite ? four : Float4{}, to + i / kChunkTerms * kChunkWords, lane % 8);
  };
#pragma unroll
  for (int u = 0; u < kKept; ++u) put(4 * lane + u * kStep, kept[u]);
  for (std::int64_t i = 4 * lane + kKept * kStep; i < walk.depth * kChunkTerms; i += 2 * kStep) {
    const Float4 one = four_terms(from, i, s.terms, walk.wide), two = four_terms(from, i + kStep, s.terms, walk.wide);
    put(i, one), put(i + kStep, two);
  }
}

// Windows of images with few channels, unfolded: chunk ((a n1 + b) n2 + c) depth + d has the terms u = 32 d ... 32 d +
// 31 of (tap_h, tap_w, channel), the channel fastest: x[a s0 + channel s_channel + row width + column] with row = b
// step_h - pad_h + tap_h dilation_h and column likewise, zero outside of the image. Its slab is a.
struct Unfolding {
  struct Along {
    int taps = 1, step = 1, pad = 0, dilation = 1, size = 1;
  };
  std::int64_t n0 = 1, n1 = 1, n2 = 1, s0 = 0, s_channel = 0;
  int channels = 1;
  Along h, w;

  [[nodiscard]] ISOBIT_HOST_DEVICE int depth() const {
    return (h.taps * w.taps * channels + kChunkTerms - 1) / kChunkTerms;
  }
  [[nodiscard]] std::int64_t count() const { return n0 * n1 * n2 * depth(); }
};

struct UnfoldingWalk {
  Unfolding shape;
  Divider of_d, of_c, of_b;
  std::int64_t count;

  explicit UnfoldingWalk(const Unfolding& u)
      : shape(u), of_d(u.depth(), u.count()), of_c(u.n2, u.count()), of_b(u.n1, u.count()), count(u.count()) {}
};

static ISOBIT_KERNEL void unfolded_chunks_kernel(UnfoldingWalk walk, const float* x, const std::uint32_t* largest,
                                                 std::uint32_t* chunks) {
  const std::int64_t index = block_index() * kChunkThreads + thread_index();
  const std::int64_t i = index < walk.count ? index : 0;
  const Unfolding& s = walk.shape;
  const std::int64_t abc = walk.of_d.quotient(i), ab = walk.of_c.quotient(abc), a = walk.of_b.quotient(ab);
  const auto first = static_cast<int>(i - abc * s.depth()) * kChunkTerms;
  const std::uint32_t most = largest[a];
  std::uint32_t words[kChunkTerms] = {};
  if (most < 0x7f800000) {
    const ExactScale scale(contract::exact_exponent(most));
    const float* const from = x + a * s.s0;
    int tap = first / s.channels, channel = first - tap * s.channels;
    int tap_h = tap / s.w.taps, tap_w = tap - tap_h * s.w.taps;
    const int top = static_cast<int>(ab - a * s.n1) * s.h.step - s.h.pad;
    const int left = static_cast<int>(abc - ab * s.n2) * s.w.step - s.w.pad;
#pragma unroll
    for (int t = 0; t < kChunkTerms; ++t) {
      const int row = top + tap_h * s.h.dilation, column = left + tap_w * s.w.dilation;
      const bool inside = tap_h < s.h.taps && row >= 0 && row < s.h.size && column >= 0 && column < s.w.size;
      const std::int64_t place = channel * s.s_channel + std::int64_t{row} * s.w.size + column;
      words[t] = scale.digits(inside ? from[place] : 0.0f);
      if (++channel == s.channels) channel = 0, ++tap_w;
      if (tap_w == s.w.taps) tap_w = 0, ++tap_h;
    }
  }
  store_chunks(words, index, walk.count, chunks);
}

// A tensor's chunks, and the largest magnitudes of its slabs, in scratch memory.
class ExactChunks {
 public:
  ExactChunks(const Slabs& slabs, const ChunkShape& shape, const float* x)
      : largest_(slabs.outer * slabs.inner * 4), chunks_(shape.count() * kChunkWords * 4) {
    const ChunkWalk walk(shape, x);
    const bool slab_rows = shape.n2 == 1 && shape.slab_rows == 1 && shape.l0 == shape.n1;
    const std::int64_t rows = shape.n0 * shape.n1;
    if (slab_rows && walk.along && (shape.terms <= 4096 || rows >= 1024)) {
      launch(row_chunks_kernel, {ceil_div(rows, kChunkThreads / kWarp), kChunkThreads}, walk, x,
             largest_.as<std::uint32_t>(), chunks_.as<std::uint32_t>());
      return;
    }
    find_largest(slabs, x, largest_.as<int>());
    if (walk.along) {
      launch(quads_kernel, {ceil_div(walk.count * ChunkWalk::kQuads, kChunkThreads), kChunkThreads}, walk, x, largest(),
             chunks_.as<std::uint32_t>());
    } else {
      launch(chunks_kernel, {ceil_div(walk.count, kChunkThreads), kChunkThreads, kChunkShared}, walk, x, largest(),
             chunks_.as<std::uint32_t>());
    }
  }
  ExactChunks(const Slabs& slabs, const Unfolding& unfolding, const float* x)
      : largest_(slabs.outer * slabs.inner * 4), chunks_(unfolding.count() * kChunkWords * 4) {
    find_largest(slabs, x, largest_.as<int>());
    const UnfoldingWalk walk(unfolding);
    launch(unfolded_chunks_kernel, {ceil_div(walk.count, kChunkThreads), kChunkThreads, kChunkShared}, walk, x,
           largest(), chunks_.as<std::uint32_t>());
  }

  [[nodiscard]] const std::uint32_t* chunks() const { return chunks_.as<const std::uint32_t>(); }
  [[nodiscard]] const std::uint32_t* largest() const { return largest_.as<const std::uint32_t>(); }

 private:
  Scratch largest_, chunks_;
};

}  // namespace isobit::kernels::ISOBIT_CUDA
