// Blocks of exact products on a device (contract, section 17), by int8 tensor cores. Private to this folder.
//
// A block owns a tile of outputs for a range of terms, a warp a part of it in registers: three sums of int32 an output,
// six products of digits a term. Shared memory is a ring of stages, each a chunk (exact_chunks.h) of every row and
// column, filled by asynchronous copies. A term adds at most 2 * 127 * 128 + 128 * 128 = 48,896 to a sum: ranges of
// 32,768 terms cannot overflow. Sums of several ranges meet in int64 by atomic additions, in whatever order: they are
// integers. Every choice here is free.
//
// Problem: shape, operands a and b, Column column(batch, j) and store(column, batch, i, product). An operand: Row, what
// a row's chunks share; row(batch, row); chunk(row, q), nullptr where it is zeros; largest(batch, row).
#pragma once

#include <algorithm>

#include "kernels/cuda/exact_chunks.h"
#include "kernels/cuda/tile_product.h"

namespace isobit::kernels::ISOBIT_CUDA {

inline constexpr std::int64_t kMostTerms = 32768;  // of a range

template <int rows, int columns, int warp_rows, int warp_columns, int stages, int blocks>
struct BlockConfig {
  static constexpr int kRows = rows, kColumns = columns, kWarpRows = warp_rows, kWarpColumns = warp_columns;
  static constexpr int kStages = stages, kBlocks = blocks;
  static constexpr int kThreads = rows / warp_rows * (columns / warp_columns) * kWarp;
  static constexpr int kTilesM = warp_rows / 16, kTilesN = warp_columns / 8;
  static constexpr int kStageBytes = 3 * kChunkTerms * (rows + columns);
  static constexpr int kShared = stages * kStageBytes;
  // When the sums are put out the ring has the exponents, and the sums of kPass columns at a time.
  static constexpr int kPass = 64, kSumPitch = kPass * 8 + 64;  // bytes; padded so that a store meets all banks
  static_assert(columns % kPass == 0 && kPass % warp_columns == 0 && kThreads % kPass == 0);
  static_assert(kShared >= (rows + columns) * 4 + rows * kSumPitch);
};
using LargeBlock = BlockConfig<128, 128, 64, 32, 4, 1>;
using MediumBlock = BlockConfig<64, 128, 64, 32, 4, 2>;
using SmallBlock = BlockConfig<64, 64, 32, 32, 4, 3>;

// A row of a stage is two halves of 16 bytes a digit; rows 4 to 7 of 8 have them exchanged, so that eight rows of one
// half meet all banks.
ISOBIT_DEVICE int stage_place(int row, int half) { return row * kChunkTerms + (half ^ (row >> 2 & 1)) * 16; }

// One thread's part of copying a side: halves of rows, two threads a row.
template <class Operand, int extent, int threads>
class ChunkLoader {
  static constexpr int kHalves = extent * 2 / threads;
  static_assert(extent * 2 % threads == 0);

 public:
  ISOBIT_DEVICE ChunkLoader(const Operand& operand, std::int64_t batch, std::int64_t first, int thread)
      : operand_(operand), half_(thread % 2), own_(stage_place(thread / 2, thread % 2)) {
#pragma unroll
    for (int i = 0; i < kHalves; ++i) rows_[i] = operand.row(batch, first + thread / 2 + i * kApart);
  }

  // Finds the chunk that is copied next, a while before: tables lie in memory. Zeros from chunk `end` on. No branches,
  // so that the compiler may put products in between.
  ISOBIT_DEVICE void find(int q, int end) {
#pragma unroll
    for (int i = 0; i < kHalves; ++i) {
      const std::uint32_t* const from = operand_.chunk(rows_[i], q < end ? q : end - 1);
      from_[i] = q < end ? from : nullptr;
    }
  }
  ISOBIT_DEVICE void copy(unsigned char* side) const {
#pragma unroll
    for (int i = 0; i < kHalves; ++i) {
      const bool inside = from_[i] != nullptr;
#pragma unroll
      for (int digit = 0; digit < 3; ++digit) {
        auto* const to = side + (digit * extent + i * kApart) * kChunkTerms + own_;
        copy_async_or_zero<16>(reinterpret_cast<std::uint32_t*>(to),
                               inside ? from_[i] + 8 * digit + 4 * half_ : from_[i], inside);
      }
    }
  }

 private:
  static constexpr int kApart = threads / 2;  // a multiple of 8
  static_assert(kApart % 8 == 0);
  const Operand& operand_;
  int half_, own_;
  typename Operand::Row rows_[kHalves];
  const std::uint32_t* from_[kHalves];
};

// A warp's sums, [16 rows][8 columns][of digits whose places add up to 2, 3, 4][as mma_s8 spreads them].
template <class Config>
struct BlockSums {
  int at[Config::kTilesM][Config::kTilesN][3][4];
};

// Six products of digits; those of one sum are apart from each other.
template <int tiles>
ISOBIT_DEVICE void multiply_digits(const std::uint32_t (&a)[3][4], const std::uint32_t (&b)[3][tiles][2],
                                   int (&sums)[tiles][3][4]) {
#pragma unroll
  for (int product = 0; product < 6; ++product) {
    constexpr int kLeft[6] = {0, 0, 0, 1, 1, 2}, kRight[6] = {2, 1, 0, 1, 0, 0};
    const int left = kLeft[product], right = kRight[product];
#pragma unroll
    for (int j = 0; j < tiles; ++j) mma_s8(sums[j][left + right], a[left], b[right][j]);
  }
}

// left, right: a stage's sides, from the warp's first row and column on.
template <class Config>
ISOBIT_DEVICE void multiply_stage(const unsigned char* left, const unsigned char* right, int lane,
                                  BlockSums<Config>& sums) {
  const unsigned char* const from_left = left + stage_place(lane % 16, lane / 16);
  const unsigned char* const from_right = right + stage_place(lane % 8 + lane / 16 * 8, lane / 8 % 2);
  std::uint32_t b[3][Config::kTilesN][2];
#pragma unroll
  for (int digit = 0; digit < 3; ++digit) {
#pragma unroll
    for (int j = 0; j < Config::kTilesN; j += 2) {
      std::uint32_t four[4];
      load_matrices(four, from_right + (digit * Config::kColumns + j * 8) * kChunkTerms);
      b[digit][j][0] = four[0], b[digit][j][1] = four[1], b[digit][j + 1][0] = four[2], b[digit][j + 1][1] = four[3];
    }
  }
#pragma unroll
  for (int i = 0; i < Config::kTilesM; ++i) {
    std::uint32_t a[3][4];
#pragma unroll
    for (int digit = 0; digit < 3; ++digit) {
      load_matrices(a[digit], from_left + (digit * Config::kRows + i * 16) * kChunkTerms);
    }
    multiply_digits(a, b, sums.at[i]);
  }
}

struct BlockPlan {
  std::int64_t tiles_m = 0, tiles_n = 0, ranges = 1, range_terms = kMostTerms;
};

struct BlockPlace {
  std::int64_t batch, m0, n0, range;
};

// Tiles of kBand rows of tiles go one behind the other, so that blocks that run at once share both sides in the L2
// cache.
ISOBIT_DEVICE BlockPlace block_place(const BlockPlan& plan, std::int64_t index, int rows, int columns) {
  constexpr std::int64_t kBand = 8;
  const std::int64_t range = index % plan.ranges;
  index /= plan.ranges;
  const std::int64_t tiles = plan.tiles_m * plan.tiles_n, batch = index / tiles;
  index -= batch * tiles;
  const std::int64_t band = index / (kBand * plan.tiles_n), rest = index - band * kBand * plan.tiles_n;
  const std::int64_t high = plan.tiles_m - band * kBand < kBand ? plan.tiles_m - band * kBand : kBand;
  return {batch, (band * kBand + rest % high) * rows, rest / high * columns, range};
}

// Puts a block's sums out, by way of shared memory: a thread then has one column, and a warp writes neighbouring ones.
template <class Problem, class Config>
class BlockEnd {
 public:
  // rows, columns: of the block's tile that are outputs.
  ISOBIT_DEVICE BlockEnd(const Problem& p, const BlockPlan& plan, const BlockPlace& at, int rows, int columns,
                         unsigned char* shared)
      : p_(p),
        plan_(plan),
        at_(at),
        exponents_(reinterpret_cast<int*>(shared)),
        sums_(shared + (Config::kRows + Config::kColumns) * 4),
        rows_(rows),
        columns_(columns) {}

  // Every thread of the block calls it; the shared memory is its own.
  ISOBIT_DEVICE void put(const BlockSums<Config>& sums, int row, int column, std::uint64_t* sums_of_ranges) const {
    if (plan_.ranges == 1) find_exponents();
#pragma unroll
    for (int pass = 0; pass < Config::kColumns; pass += Config::kPass) {
      if (Config::kColumns == Config::kPass || (column >= pass && column < pass + Config::kPass)) {
        share(sums, row, column - pass);
      }
      barrier();
      put_pass(pass, sums_of_ranges);
      barrier();  // before the next pass overwrites what a slow thread still reads
    }
  }

 private:
  ISOBIT_DEVICE void find_exponents() const {
    for (int i = thread_index(); i < Config::kRows + Config::kColumns; i += Config::kThreads) {
      const int column = i - Config::kRows;
      if (i < rows_) exponents_[i] = row_exponent(p_.a.largest(at_.batch, at_.m0 + i));
      if (column >= 0 && column < columns_) exponents_[i] = row_exponent(p_.b.largest(at_.batch, at_.n0 + column));
    }
  }
  ISOBIT_DEVICE void share(const BlockSums<Config>& sums, int row, int column) const {
    const int lane = thread_index() % kWarp;
    unsigned char* const to = sums_ + (row + lane / 4) * Config::kSumPitch + (column + lane % 4 * 2) * 8;
#pragma unroll
    for (int j = 0; j < Config::kTilesN; ++j) {
#pragma unroll
      for (int i = 0; i < 2 * Config::kTilesM; ++i) {
        const auto& sum = sums.at[i / 2][j];
        const int part = i % 2 * 2;
        const auto total = [&](int of) {
          return std::int64_t{sum[0][of]} * 65536 + std::int64_t{sum[1][of]} * 256 + sum[2][of];
        };
        *reinterpret_cast<Two*>(to + 8 * i * Config::kSumPitch + 64 * j) = {total(part), total(part + 1)};
      }
    }
  }
  ISOBIT_DEVICE void put_pass(int pass, std::uint64_t* sums_of_ranges) const {
    const int own = thread_index() % Config::kPass, c = pass + own;
    if (c >= columns_) return;
    constexpr int kApart = Config::kThreads / Config::kPass;
    const unsigned char* from = sums_ + own * 8;
    const int first = thread_index() / Config::kPass;
    if (plan_.ranges > 1) {
      std::uint64_t* const to = sums_of_ranges + (at_.batch * p_.shape.m + at_.m0) * p_.shape.n + at_.n0 + c;
      for (int r = first; r < rows_; r += kApart) {
        atomic_add(to + r * p_.shape.n, *reinterpret_cast<const std::uint64_t*>(from + r * Config::kSumPitch));
      }
      return;
    }
    const typename Problem::Column column = p_.column(at_.batch, at_.n0 + c);
    const int exponent = exponents_[Config::kRows + c] - 32;
#pragma unroll 4
    for (int r = first; r < rows_; r += kApart) {
      const std::int64_t sum = *reinterpret_cast<const std::int64_t*>(from + r * Config::kSumPitch);
      p_.store(column, at_.batch, at_.m0 + r, exact_product(sum, exponents_[r] + exponent));
    }
  }

  struct alignas(16) Two {
    std::int64_t even, odd;
  };
  const Problem& p_;
  const BlockPlan& plan_;
  const BlockPlace& at_;
  int* exponents_;  // shared: of rows, then of columns
  unsigned char* sums_;
  int rows_, columns_;
};

// sums_of_ranges: [batch][m][n], zeros, where there are several ranges.
template <class Problem, class Config>
ISOBIT_KERNEL ISOBIT_LAUNCH_BOUNDS(Config::kThreads,
                                   Config::kBlocks) void exact_block_kernel(Problem p, BlockPlan plan,
                                                                            std::uint64_t* sums_of_ranges) {
  constexpr int kStages = Config::kStages, kLeft = 3 * Config::kRows * kChunkTerms;
  const int thread = thread_index(), lane = thread % kWarp, warp = thread / kWarp;
  const BlockPlace at = block_place(plan, block_index(), Config::kRows, Config::kColumns);
  const std::int64_t begin = at.range * plan.range_terms;
  const std::int64_t end = begin + plan.range_terms < p.shape.k ? begin + plan.range_terms : p.shape.k;
  const int first = static_cast<int>(begin / kChunkTerms);
  const int steps = static_cast<int>((end - begin + kChunkTerms - 1) / kChunkTerms);
  const int rows = static_cast<int>(p.shape.m - at.m0 < Config::kRows ? p.shape.m - at.m0 : Config::kRows);
  const int columns = static_cast<int>(p.shape.n - at.n0 < Config::kColumns ? p.shape.n - at.n0 : Config::kColumns);
  constexpr int kAcross = Config::kColumns / Config::kWarpColumns;
  const int row = warp / kAcross * Config::kWarpRows, column = warp % kAcross * Config::kWarpColumns;
  const bool has_outputs = row < rows && column < columns;  // else the warp copies for the others

  auto* const ring = shared_memory<unsigned char>();  // [stages][left, right]
  BlockSums<Config> sums{};
  {
    ChunkLoader<typename Problem::A, Config::kRows, Config::kThreads> left(p.a, at.batch, at.m0, thread);
    ChunkLoader<typename Problem::B, Config::kColumns, Config::kThreads> right(p.b, at.batch, at.n0, thread);
    const auto copy = [&](int step) {
      unsigned char* const stage = ring + step % kStages * Config::kStageBytes;
      left.copy(stage), right.copy(stage + kLeft);
      commit_async();
    };
    const auto find = [&](int step) {
      left.find(first + step, first + steps), right.find(first + step, first + steps);
    };
    for (int step = 0; step < kStages && steps > 0; ++step) {
      find(step);
      if (step < kStages - 1) copy(step);
    }
    for (int step = 0; step < steps; ++step) {
      wait_async<kStages - 2>();
      barrier();  // this stage is full, and nobody reads the one before any more
      copy(step + kStages - 1);
      const unsigned char* const stage = ring + step % kStages * Config::kStageBytes;
      if (has_outputs) {
        multiply_stage<Config>(stage + row * kChunkTerms, stage + kLeft + column * kChunkTerms, lane, sums);
      }
      find(step + kStages);
    }
    wait_async<0>();
  }
  barrier();  // nobody reads a stage any more
  BlockEnd<Problem, Config>(p, plan, at, rows, columns, ring).put(sums, row, column, sums_of_ranges);
}

template <class Problem>
ISOBIT_KERNEL void exact_rounding_kernel(Problem p, const std::uint64_t* sums) {
  const std::int64_t index = block_index() * 256 + thread_index();
  if (index >= p.shape.batch * p.shape.m * p.shape.n) return;
  const std::int64_t row = index / p.shape.n, j = index - row * p.shape.n, batch = row / p.shape.m;
  const std::int64_t i = row - batch * p.shape.m;
  const int exponent = row_exponent(p.a.largest(batch, i)) + row_exponent(p.b.largest(batch, j)) - 32;
  p.store(p.column(batch, j), batch, i, exact_product(static_cast<std::int64_t>(sums[index]), exponent));
}

}  // namespace isobit::kernels::ISOBIT_CUDA
