// Ordered dot products (contract, section 3) in tiles: what matrix products and convolutions share.
//
//   out[batch, i, j] = tree over leaves of 512 of the chain  t = fma(a(batch, i, k), b(batch, k, j), t)
//
// A block computes a tile of outputs over a chunk of k. Each output belongs to one thread, which runs its
// chain with k ascending; only the operands' elements are shared, through a ring of stages in shared memory
// that asynchronous copies fill ahead. Leaves are combined by a binary counter of partial tiles in device
// memory. Where the tiles alone would leave multiprocessors idle, k is split at multiples of 2^s leaves:
// such a chunk is a whole subtree, and a second kernel continues the tree over the chunks. The bits depend
// neither on the tile nor on the split.
//
// A Problem is a struct of plain values with
//   shape          ProductShape
//   a, b           operands: Operand::Loader<extent, Config> copies [extent, kStep] pieces of the operand
//                  into shared memory, +0 where k or the row is outside: both operands' factors are then +0
//                  and such terms change nothing
//   store(batch, i, j, value), store4(batch, i, j, Float4), wide: whether store4 may be used
// Private to this folder.
#pragma once

#include "contract/ordered_dot.h"
#include "kernels/cuda/device.h"

namespace isobit::kernels::ISOBIT_CUDA {

struct ProductShape {
  std::int64_t batch = 1, m = 0, n = 0, k = 0;
};

// A thread owns thread_rows x thread_columns outputs of the block's rows x columns.
template <int rows, int columns, int thread_rows, int thread_columns, int blocks, int stages,
          int leaf = static_cast<int>(contract::kLeaf)>
struct TileConfig {
  static constexpr int kRows = rows, kColumns = columns;
  static constexpr int kThreadRows = thread_rows, kThreadColumns = thread_columns;
  static constexpr int kThreadsDown = rows / thread_rows, kThreadsAcross = columns / thread_columns;
  static constexpr int kThreads = kThreadsDown * kThreadsAcross;
  static constexpr int kBlocks = blocks;  // that a multiprocessor can hold
  static constexpr int kStages = stages;
  static constexpr int kStep = 16;  // terms per stage
  static constexpr int kLeaf = leaf;
  static constexpr int kPad = 4;  // neighbouring k of one row land in different banks
  static constexpr int kRowPitch = rows + kPad, kColumnPitch = columns + kPad;
  static constexpr int kStageFloats = kStep * (kRowPitch + kColumnPitch);
  static constexpr int kSharedBytes = kStages * kStageFloats * 4;
  static_assert(kThreads % kWarp == 0 && kLeaf % kStep == 0);
};

// What a launch works on: items are (chunk of k, batch, row of tiles, column of tiles), the last fastest.
struct TileWork {
  std::int64_t items = 0, row_tiles = 0, column_tiles = 0;
  std::int64_t chunk_terms = 0;  // at most 2^30
  float* counter = nullptr;      // [block][level][tile]: partial tiles; unused for chunks of one leaf
  int levels = 0;
  float* chunk_sums = nullptr;  // [chunk][batch][m][n]; nullptr: one chunk, stored by the problem
};

// The place of a thread's outputs in its block's tile. A warp is 4 x 8 threads where the tile allows.
template <class Config>
struct ThreadPlace {
  int down, across;

  ISOBIT_DEVICE explicit ThreadPlace(int thread) {
    constexpr int kLanesAcross = Config::kThreadsAcross < 8 ? Config::kThreadsAcross : 8;
    constexpr int kLanesDown = kWarp / kLanesAcross, kWarpsAcross = Config::kThreadsAcross / kLanesAcross;
    const int warp = thread / kWarp, lane = thread % kWarp;
    down = warp / kWarpsAcross * kLanesDown + lane / kLanesAcross;
    across = warp % kWarpsAcross * kLanesAcross + lane % kLanesAcross;
  }
  // A thread's rows (and columns) come in groups of up to 4 neighbours.
  ISOBIT_DEVICE int row(int i) const { return spread<Config::kThreadRows, Config::kThreadsDown>(i, down); }
  ISOBIT_DEVICE int column(int j) const { return spread<Config::kThreadColumns, Config::kThreadsAcross>(j, across); }

 private:
  template <int count, int threads>
  ISOBIT_DEVICE static int spread(int i, int thread) {
    constexpr int kGroup = count < 4 ? count : 4;
    return i / kGroup * (threads * kGroup) + thread * kGroup + i % kGroup;
  }
};

template <int count, int threads>
ISOBIT_DEVICE void read_fragment(const float* shared, int thread, float (&fragment)[count]) {
  if constexpr (count < 4) {
#pragma unroll
    for (int i = 0; i < count; ++i) fragment[i] = shared[thread * count + i];
  } else {
#pragma unroll
    for (int i = 0; i < count; i += 4) {
      const Float4 v = load4(shared + i * threads + thread * 4);
      fragment[i] = v.x, fragment[i + 1] = v.y, fragment[i + 2] = v.z, fragment[i + 3] = v.w;
    }
  }
}

// The chains of a thread and what becomes of them.
template <class Config>
struct Accumulator {
  static constexpr int kCount = Config::kThreadRows * Config::kThreadColumns;
  float sum[Config::kThreadRows][Config::kThreadColumns];

  ISOBIT_DEVICE void clear() {
#pragma unroll
    for (int i = 0; i < Config::kThreadRows; ++i) {
#pragma unroll
      for (int j = 0; j < Config::kThreadColumns; ++j) sum[i][j] = 0.0f;
    }
  }

  // kStep terms of every chain, k ascending.
  ISOBIT_DEVICE void add(const float* rows, const float* columns, const ThreadPlace<Config>& at) {
#pragma unroll
    for (int k = 0; k < Config::kStep; ++k) {
      float a[Config::kThreadRows], b[Config::kThreadColumns];
      read_fragment<Config::kThreadRows, Config::kThreadsDown>(rows + k * Config::kRowPitch, at.down, a);
      read_fragment<Config::kThreadColumns, Config::kThreadsAcross>(columns + k * Config::kColumnPitch, at.across, b);
#pragma unroll
      for (int i = 0; i < Config::kThreadRows; ++i) {
#pragma unroll
        for (int j = 0; j < Config::kThreadColumns; ++j) sum[i][j] = ::fmaf(a[i], b[j], sum[i][j]);
      }
    }
  }

  // Partial tiles are stored thread by thread, 16 bytes a time: partial[element / 4][thread][element % 4].
  ISOBIT_DEVICE void add_to_partial(const float* partial) {
#pragma unroll
    for (int e = 0; e < kCount; e += 4) {
      const Float4 v = load4(partial + e * Config::kThreads);
      at(e) = v.x + at(e), at(e + 1) = v.y + at(e + 1);
      at(e + 2) = v.z + at(e + 2), at(e + 3) = v.w + at(e + 3);
    }
  }
  ISOBIT_DEVICE void store_partial(float* partial) const {
#pragma unroll
    for (int e = 0; e < kCount; e += 4) {
      store4(partial + e * Config::kThreads, {at(e), at(e + 1), at(e + 2), at(e + 3)});
    }
  }

 private:
  ISOBIT_DEVICE float& at(int e) { return sum[e / Config::kThreadColumns][e % Config::kThreadColumns]; }
  ISOBIT_DEVICE float at(int e) const { return sum[e / Config::kThreadColumns][e % Config::kThreadColumns]; }
};

// The tree over a chunk's leaves as a binary counter: level l holds the tree of 2^l leaves (contract,
// ordered_dot.h). The last leaf stays in registers.
template <class Config>
struct LeafCounter {
  ISOBIT_DEVICE LeafCounter(const TileWork& work, int thread)
      : memory_(work.counter), own_(block_index() * work.levels * kTile + thread * 4) {}

  ISOBIT_DEVICE void close_leaf(Accumulator<Config>& chains) {
    float* partial = memory_ + own_;
    for (int n = leaves_++; n & 1; n >>= 1, partial += kTile) chains.add_to_partial(partial);
    chains.store_partial(partial);
    chains.clear();
  }
  // Chains become the tree of all leaves, the rests from the smallest upwards.
  ISOBIT_DEVICE void finish(Accumulator<Config>& chains) {
    if (leaves_ == 0) return;
    const float* partial = memory_ + own_;
    for (int n = leaves_; n != 0; n >>= 1, partial += kTile) {
      if (n & 1) chains.add_to_partial(partial);
    }
  }

 private:
  static constexpr std::int64_t kTile = Config::kRows * Config::kColumns;
  float* memory_;
  std::int64_t own_;  // this thread's part of level 0
  int leaves_ = 0;    // closed
};

// Four neighbours of a row, of which `count` are outputs.
template <class Problem>
ISOBIT_DEVICE void store_values(const Problem& problem, float* chunk, std::int64_t batch, std::int64_t i,
                                std::int64_t j, const float* values, int width) {
  const ProductShape& s = problem.shape;
  if (chunk == nullptr && width == 4 && problem.wide && j + 4 <= s.n) {
    problem.store4(batch, i, j, {values[0] + 0.0f, values[1] + 0.0f, values[2] + 0.0f, values[3] + 0.0f});  // never -0
    return;
  }
#pragma unroll
  for (int c = 0; c < width; ++c) {
    if (j + c >= s.n) return;
    if (chunk == nullptr) {
      problem.store(batch, i, j + c, values[c] + 0.0f);
    } else {
      chunk[(batch * s.m + i) * s.n + j + c] = values[c];
    }
  }
}

template <class Config, class Problem>
ISOBIT_KERNEL ISOBIT_LAUNCH_BOUNDS(Config::kThreads, Config::kBlocks) void tile_product_kernel(Problem problem,
                                                                                               TileWork work) {
  using RowLoader = typename Problem::A::template Loader<Config::kRows, Config>;
  using ColumnLoader = typename Problem::B::template Loader<Config::kColumns, Config>;
  float* const stages = shared_memory<float>();
  const int thread = thread_index();
  const ThreadPlace<Config> at(thread);
  const ProductShape& s = problem.shape;
  for (std::int64_t item = block_index(); item < work.items; item += block_count()) {
    const std::int64_t j0 = item % work.column_tiles * Config::kColumns, rest = item / work.column_tiles;
    const std::int64_t i0 = rest % work.row_tiles * Config::kRows, batch = rest / work.row_tiles % s.batch;
    const std::int64_t chunk = rest / work.row_tiles / s.batch, k0 = chunk * work.chunk_terms;
    const int terms = static_cast<int>(s.k - k0 < work.chunk_terms ? s.k - k0 : work.chunk_terms);
    const int steps = (terms + Config::kStep - 1) / Config::kStep;
    RowLoader a(problem.a, batch, i0, k0, terms, thread);
    ColumnLoader b(problem.b, batch, j0, k0, terms, thread);
    const auto fill = [&](int step) {
      if (step < steps) {
        float* const stage = stages + step % Config::kStages * Config::kStageFloats;
        a.copy(stage, step * Config::kStep);
        b.copy(stage + Config::kStep * Config::kRowPitch, step * Config::kStep);
      }
      commit_async();
    };
    Accumulator<Config> chains;
    chains.clear();
    LeafCounter<Config> counter(work, thread);
    for (int step = 0; step < Config::kStages - 1; ++step) fill(step);
    for (int step = 0; step < steps; ++step) {
      if (step > 0 && step % (Config::kLeaf / Config::kStep) == 0) counter.close_leaf(chains);
      wait_async<Config::kStages - 2>();
      barrier();  // every thread's copies have come, and nobody reads the stage that is filled next
      fill(step + Config::kStages - 1);
      const float* const stage = stages + step % Config::kStages * Config::kStageFloats;
      chains.add(stage, stage + Config::kStep * Config::kRowPitch, at);
    }
    counter.finish(chains);
    float* const sums = work.chunk_sums == nullptr ? nullptr : work.chunk_sums + chunk * s.batch * s.m * s.n;
#pragma unroll
    for (int i = 0; i < Config::kThreadRows; ++i) {
      if (i0 + at.row(i) >= s.m) continue;
      constexpr int kWidth = Config::kThreadColumns < 4 ? Config::kThreadColumns : 4;
#pragma unroll
      for (int j = 0; j < Config::kThreadColumns; j += kWidth) {
        store_values(problem, sums, batch, i0 + at.row(i), j0 + at.column(j), &chains.sum[i][j], kWidth);
      }
    }
    barrier();  // before the next item's copies overwrite what a slow thread still reads
  }
}

inline constexpr int kCombineThreads = 128;
inline constexpr int kChunksAhead = 16;  // that a thread reads at once: one at a time would each be waited for

// The sum of `count` neighbouring chunks, a power of two: a whole subtree, all of it read before the first addition.
template <int count>
ISOBIT_DEVICE float sum_of_subtree(const float* from, std::int64_t outputs) {
  float sums[count];
#pragma unroll
  for (int i = 0; i < count; ++i) sums[i] = from[i * outputs];
#pragma unroll
  for (int n = count / 2; n > 0; n /= 2) {
#pragma unroll
    for (int i = 0; i < n; ++i) sums[i] = sums[2 * i] + sums[2 * i + 1];
  }
  return sums[0];
}

// The sum of the last `left` < 16 chunks: whole subtrees, the largest first in memory, combined from the smallest
// upwards like the tree's own rests. No local memory: a counter there took five times the products' own time on an
// H100.
ISOBIT_DEVICE float sum_of_rest(const float* from, std::int64_t outputs, int left) {
  float eight = 0, four = 0, two = 0, one = 0;
  if (left & 8) eight = sum_of_subtree<8>(from, outputs), from += 8 * outputs;
  if (left & 4) four = sum_of_subtree<4>(from, outputs), from += 4 * outputs;
  if (left & 2) two = sum_of_subtree<2>(from, outputs), from += 2 * outputs;
  if (left & 1) one = *from;
  float sum = one;
  if (left & 2) sum = left & 1 ? two + sum : two;
  if (left & 4) sum = left & 3 ? four + sum : four;
  if (left & 8) sum = left & 7 ? eight + sum : eight;
  return sum;
}

// The tree over chunks, one thread per output. What is left of a subtree is the tree's last leaf.
template <class Problem>
ISOBIT_KERNEL ISOBIT_LAUNCH_BOUNDS(kCombineThreads, 4) void combine_chunks_kernel(Problem problem, const float* sums,
                                                                                  std::int64_t chunks) {
  const ProductShape& s = problem.shape;
  const std::int64_t outputs = s.batch * s.m * s.n;
  const std::int64_t o = block_index() * kCombineThreads + thread_index();
  if (o >= outputs) return;
  const float* from = sums + o;
  const auto rest = static_cast<int>(chunks % kChunksAhead);
  float sum = 0;
  if (chunks < kChunksAhead) {
    sum = sum_of_rest(from, outputs, rest);
  } else if (chunks == kChunksAhead) {
    sum = sum_of_subtree<kChunksAhead>(from, outputs);
  } else {
    contract::PairwiseTree tree;
    for (std::int64_t left = chunks; left >= kChunksAhead; left -= kChunksAhead, from += kChunksAhead * outputs)
      tree.add(sum_of_subtree<kChunksAhead>(from, outputs));
    if (rest > 0) tree.add(sum_of_rest(from, outputs, rest));
    sum = tree.result();
  }
  sum += 0.0f;  // never -0
  problem.store(o / s.n / s.m, o / s.n % s.m, o % s.n, sum);
}

// How a product is cut: decides about time, never about bits. chunk_leaves: a power of two, at most 2^21.
struct ProductPlan {
  int config = 0;
  std::int64_t chunk_leaves = 1 << 21;
};

template <class Config, class Problem>
void run_tiles(const Problem& problem, std::int64_t chunk_leaves, int multiprocessors) {
  const ProductShape& s = problem.shape;
  const std::int64_t outputs = s.batch * s.m * s.n;
  if (outputs == 0) return;
  const std::int64_t leaves = ceil_div(s.k, Config::kLeaf);
  const std::int64_t chunks = leaves == 0 ? 1 : ceil_div(leaves, chunk_leaves);
  TileWork work;
  work.row_tiles = ceil_div(s.m, Config::kRows);
  work.column_tiles = ceil_div(s.n, Config::kColumns);
  work.items = chunks * s.batch * work.row_tiles * work.column_tiles;
  work.chunk_terms = chunk_leaves * Config::kLeaf;
  for (std::int64_t n = (leaves < chunk_leaves ? leaves : chunk_leaves) - 1; n > 0; n >>= 1) ++work.levels;
  std::int64_t blocks = work.items;
  if (work.levels > 0) blocks = blocks < Config::kBlocks * multiprocessors ? blocks : Config::kBlocks * multiprocessors;
  if (blocks > 0x7fffffff) blocks = 0x7fffffff;
  const Scratch counter(work.levels > 0 ? blocks * work.levels * Config::kRows * Config::kColumns * 4 : 0);
  const Scratch sums(chunks > 1 ? chunks * outputs * 4 : 0);
  work.counter = counter.as<float>();
  work.chunk_sums = sums.as<float>();
  launch(tile_product_kernel<Config, Problem>, {blocks, Config::kThreads, Config::kSharedBytes}, problem, work);
  if (chunks > 1) {
    launch(combine_chunks_kernel<Problem>, {ceil_div(outputs, kCombineThreads), kCombineThreads}, problem,
           sums.as<float>(), chunks);
  }
}

}  // namespace isobit::kernels::ISOBIT_CUDA
