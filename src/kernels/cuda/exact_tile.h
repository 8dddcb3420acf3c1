// Tiles of exact products on a device (contract, section 17), by int8 tensor cores. Private to this folder.
//
// A block owns 64 x 64 outputs of a chunk of terms, a warp 32 x 32 of them. Elements arrive as words of three digits
// (exact_words.h); shared memory has the digits of 32 terms of both sides, digit by digit, twice, so that one is filled
// while the other is multiplied. Six products of digits go into three sums of int32 an output. A term adds at most
// 2 * 127 * 128 + 128 * 128 = 48,896 to one of them: chunks of 32,768 terms cannot overflow. Sums of several chunks
// meet in int64 by atomic additions, in whatever order: they are integers. Every choice here is free.
//
// Problem: shape, operands a and b, store(batch, i, j, product). An operand: kAlongTerms (neighbouring threads take
// neighbouring terms, else neighbouring rows), Row (what is the same for a row's terms), row(batch, row),
// quad(row, k, end, words) (the terms k to k + 3, zeros from `end` on), largest(batch, row).
#pragma once

#include <algorithm>

#include "kernels/cuda/exact_slabs.h"
#include "kernels/cuda/tile_product.h"

namespace isobit::kernels::ISOBIT_CUDA {

inline constexpr int kExactTile = 64, kExactStep = 32, kExactThreads = 128;
inline constexpr int kExactPitch = 12;  // words a row of 32 digits: 8, and 4 that spread fragments over the banks
inline constexpr int kExactSide = 3 * kExactTile * kExactPitch;  // words of a side: [digit][row][term / 4]
inline constexpr std::int64_t kExactChunk = 32768;               // terms at most
inline constexpr std::int64_t kExactShared = 2 * 2 * kExactSide * 4;

// One thread's part of copying a side: four quads of terms.
template <class Operand>
class ExactLoader {
  static constexpr bool kAlong = Operand::kAlongTerms;
  static constexpr int kQuads = 4;

 public:
  ISOBIT_DEVICE ExactLoader(const Operand& operand, std::int64_t batch, std::int64_t first, int thread)
      : operand_(operand),
        place_(kAlong ? thread / 8 : thread % kExactTile),
        deep_(kAlong ? thread % 8 : thread / kExactTile) {
#pragma unroll
    for (int i = 0; i < kRows; ++i) rows_[i] = operand.row(batch, first + place_ + i * kApart);
  }

  // The terms [k, k + 32).
  ISOBIT_DEVICE void fetch(std::int64_t k, std::int64_t end) {
#pragma unroll
    for (int i = 0; i < kQuads; ++i) operand_.quad(rows_[kAlong ? i : 0], k + 4 * deep(i), end, words_[i]);
  }
  // Digit by digit: byte d of four words makes a word.
  ISOBIT_DEVICE void put(std::uint32_t* side) const {
#pragma unroll
    for (int i = 0; i < kQuads; ++i) {
      std::uint32_t* const to = side + (place_ + (kAlong ? i * kApart : 0)) * kExactPitch + deep(i);
#pragma unroll
      for (int digit = 0; digit < 3; ++digit) {
        std::uint32_t word = 0;
#pragma unroll
        for (int t = 0; t < 4; ++t) word |= (words_[i][t] >> 8 * digit & 0xff) << 8 * t;
        to[digit * kExactTile * kExactPitch] = word;
      }
    }
  }

 private:
  static constexpr int kRows = kAlong ? kQuads : 1, kApart = kExactThreads / 8;
  ISOBIT_DEVICE int deep(int i) const { return kAlong ? deep_ : deep_ + i * (kExactThreads / kExactTile); }

  const Operand& operand_;
  int place_, deep_;
  typename Operand::Row rows_[kRows];
  std::uint32_t words_[kQuads][4];
};

// A warp's sums, [16 rows][8 columns][of digits whose places add up to 2, 3, 4][as mma_s8 spreads them].
struct ExactSums {
  int at[2][4][3][4];
};

// The fragments of rows [row, row + 16) and of columns [row, row + 8) of a side.
ISOBIT_DEVICE void left_fragment(const std::uint32_t* side, int digit, int row, int lane, std::uint32_t (&a)[4]) {
  const std::uint32_t* const from = side + (digit * kExactTile + row + lane / 4) * kExactPitch + lane % 4;
  a[0] = from[0], a[1] = from[8 * kExactPitch], a[2] = from[4], a[3] = from[8 * kExactPitch + 4];
}
ISOBIT_DEVICE void right_fragment(const std::uint32_t* side, int digit, int row, int lane, std::uint32_t (&b)[2]) {
  const std::uint32_t* const from = side + (digit * kExactTile + row + lane / 4) * kExactPitch + lane % 4;
  b[0] = from[0], b[1] = from[4];
}

// Rows from `rows` on and columns from `columns` on have no outputs; what is left out is the same for the whole warp.
ISOBIT_DEVICE void multiply_step(const std::uint32_t* left, const std::uint32_t* right, int row, int column, int rows,
                                 int columns, int lane, ExactSums& sums) {
#pragma unroll
  for (int i = 0; i < 2; ++i) {
    if (row + 16 * i >= rows) continue;
    std::uint32_t a[3][4];
#pragma unroll
    for (int digit = 0; digit < 3; ++digit) left_fragment(left, digit, row + 16 * i, lane, a[digit]);
#pragma unroll
    for (int j = 0; j < 4; ++j) {
      if (column + 8 * j >= columns) continue;
      std::uint32_t b[3][2];
#pragma unroll
      for (int digit = 0; digit < 3; ++digit) right_fragment(right, digit, column + 8 * j, lane, b[digit]);
      auto& sum = sums.at[i][j];
      mma_s8(sum[0], a[0], b[0]);
      mma_s8(sum[1], a[0], b[1]);
      mma_s8(sum[1], a[1], b[0]);
      mma_s8(sum[2], a[0], b[2]);
      mma_s8(sum[2], a[1], b[1]);
      mma_s8(sum[2], a[2], b[0]);
    }
  }
}

struct ExactPlan {
  std::int64_t tiles_m = 0, tiles_n = 0, chunks = 1, chunk_terms = kExactChunk;
};

template <class Problem>
ISOBIT_DEVICE int exponent_of(const Problem& p, std::int64_t batch, std::int64_t i, std::int64_t j) {
  return row_exponent(p.a.largest(batch, i)) + row_exponent(p.b.largest(batch, j)) - 32;
}

// sums: [batch][m][n], zeros, where there are several chunks.
template <class Problem>
ISOBIT_KERNEL ISOBIT_LAUNCH_BOUNDS(kExactThreads, 2) void exact_tile_kernel(Problem p, ExactPlan plan,
                                                                            std::uint64_t* sums_of_chunks) {
  const int thread = thread_index(), lane = thread % kWarp, warp = thread / kWarp;
  std::int64_t index = block_index();
  const std::int64_t chunk = index % plan.chunks;
  index /= plan.chunks;
  const std::int64_t n0 = index % plan.tiles_n * kExactTile;
  index /= plan.tiles_n;
  const std::int64_t m0 = index % plan.tiles_m * kExactTile, batch = index / plan.tiles_m;
  const std::int64_t begin = chunk * plan.chunk_terms;
  const std::int64_t end = begin + plan.chunk_terms < p.shape.k ? begin + plan.chunk_terms : p.shape.k;
  const int steps = static_cast<int>((end - begin + kExactStep - 1) / kExactStep);
  const int rows = static_cast<int>(p.shape.m - m0 < kExactTile ? p.shape.m - m0 : kExactTile);
  const int columns = static_cast<int>(p.shape.n - n0 < kExactTile ? p.shape.n - n0 : kExactTile);
  const int row = warp / 2 * 32, column = warp % 2 * 32;

  std::uint32_t* const stages = shared_memory<std::uint32_t>();  // [2][left, right]
  ExactSums sums{};
  ExactLoader<typename Problem::A> left(p.a, batch, m0, thread);
  ExactLoader<typename Problem::B> right(p.b, batch, n0, thread);
  if (steps > 0) {
    left.fetch(begin, end), right.fetch(begin, end);
    left.put(stages), right.put(stages + kExactSide);
  }
  for (int step = 0; step < steps; ++step) {
    barrier();  // this stage is full, and nobody reads the other one any more
    const std::int64_t next = begin + std::int64_t{step + 1} * kExactStep;
    if (step + 1 < steps) left.fetch(next, end), right.fetch(next, end);
    const std::uint32_t* const stage = stages + step % 2 * (2 * kExactSide);
    multiply_step(stage, stage + kExactSide, row, column, rows, columns, lane, sums);
    std::uint32_t* const other = stages + (step + 1) % 2 * (2 * kExactSide);
    if (step + 1 < steps) left.put(other), right.put(other + kExactSide);
  }
#pragma unroll
  for (int i = 0; i < 2; ++i) {
#pragma unroll
    for (int j = 0; j < 4; ++j) {
#pragma unroll
      for (int part = 0; part < 4; ++part) {
        const int r = row + 16 * i + lane / 4 + part / 2 * 8, c = column + 8 * j + lane % 4 * 2 + part % 2;
        if (r >= rows || c >= columns) continue;
        const auto& sum = sums.at[i][j];
        const std::int64_t total = std::int64_t{sum[0][part]} * 65536 + std::int64_t{sum[1][part]} * 256 + sum[2][part];
        if (plan.chunks > 1) {
          atomic_add(sums_of_chunks + (batch * p.shape.m + m0 + r) * p.shape.n + n0 + c,
                     static_cast<std::uint64_t>(total));
        } else {
          p.store(batch, m0 + r, n0 + c, exact_product(total, exponent_of(p, batch, m0 + r, n0 + c)));
        }
      }
    }
  }
}

template <class Problem>
ISOBIT_KERNEL void exact_finish_kernel(Problem p, const std::uint64_t* sums) {
  const std::int64_t index = block_index() * kExactThreads + thread_index();
  if (index >= p.shape.batch * p.shape.m * p.shape.n) return;
  const std::int64_t j = index % p.shape.n, i = index / p.shape.n % p.shape.m, batch = index / p.shape.n / p.shape.m;
  p.store(batch, i, j, exact_product(static_cast<std::int64_t>(sums[index]), exponent_of(p, batch, i, j)));
}

// Chunks of all terms, or of fewer where there are too few tiles for the processors. most_terms: at most kExactChunk;
// less in tests.
inline ExactPlan plan_exact(const ProductShape& s, int processors, std::int64_t most_terms) {
  constexpr std::int64_t kFewest = 512;  // terms that pay for a chunk's atomic additions
  ExactPlan plan;
  plan.tiles_m = ceil_div(s.m, kExactTile), plan.tiles_n = ceil_div(s.n, kExactTile);
  const std::int64_t tiles = s.batch * plan.tiles_m * plan.tiles_n;
  const std::int64_t wanted = std::min(ceil_div(2 * processors, tiles), std::max<std::int64_t>(1, s.k / kFewest));
  const std::int64_t terms = ceil_div(ceil_div(s.k, wanted), kExactStep) * kExactStep;
  plan.chunk_terms = std::clamp<std::int64_t>(terms, kExactStep, most_terms);
  plan.chunks = std::max<std::int64_t>(1, ceil_div(s.k, plan.chunk_terms));
  return plan;
}

template <class Problem>
void run_exact(const Problem& p, std::int64_t most_terms = kExactChunk) {
  const ProductShape& s = p.shape;
  const std::int64_t outputs = s.batch * s.m * s.n;
  if (outputs == 0) return;
  const ExactPlan plan = plan_exact(s, multiprocessors(), most_terms);
  const Scratch sums(plan.chunks > 1 ? outputs * 8 : 0);
  if (plan.chunks > 1) fill_bytes(sums.as<void>(), 0, outputs * 8);
  launch(exact_tile_kernel<Problem>, {s.batch * plan.tiles_m * plan.tiles_n * plan.chunks, kExactThreads, kExactShared},
         p, plan, sums.as<std::uint64_t>());
  if (plan.chunks > 1) {
    launch(exact_finish_kernel<Problem>, {ceil_div(outputs, kExactThreads), kExactThreads}, p,
           sums.as<const std::uint64_t>());
  }
}

}  // namespace isobit::kernels::ISOBIT_CUDA
