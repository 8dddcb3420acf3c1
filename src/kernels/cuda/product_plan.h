// Which tile, and how many chunks of k, are expected to take least time. Host code, no bits depend on it.
//
// Model, in cycles: a multiprocessor that is full does `busy` fused multiply-adds a cycle with this tile, one that
// holds a single block does `alone`, several as many times that until it is full; a block costs a start, a split a
// second launch and the chunks' way through memory. The rates are fitted to an H100's times of every tile
// (docs/gpu.md); those of convolutions are lower, since patches are copied element by element. Private to this folder.
#pragma once

#include <algorithm>
#include <cmath>
#include <limits>

#include "kernels/cuda/tile_product.h"
#include "kernels/product_plans.h"

namespace isobit::kernels::ISOBIT_CUDA {

// Indices of ProductPlan::config.
inline constexpr int kLarge = 0, kMedium = 1, kSmall = 2, kSkinny = 3, kConfigs = 4;
using LargeTile = TileConfig<128, 128, 8, 8, 2, 3>;
using MediumTile = TileConfig<64, 64, 8, 8, 6, 3>;
using SmallTile = TileConfig<32, 32, 4, 4, 8, 4>;
using SkinnyTile = TileConfig<128, 8, 1, 8, 4, 4>;  // matrix-vector products: the matrix is a

struct ConfigRate {
  int rows, columns, blocks;
  double busy, alone;
  std::int64_t shared;  // bytes a block
};
template <class Config>
constexpr ConfigRate rate_of(double busy, double alone) {
  return {Config::kRows, Config::kColumns, Config::kBlocks, busy, alone, Config::kSharedBytes};
}
inline constexpr ConfigRate kRates[kConfigs] = {rate_of<LargeTile>(82, 70), rate_of<MediumTile>(82, 29),
                                                rate_of<SmallTile>(54, 20), rate_of<SkinnyTile>(24, 16)};
inline constexpr ConfigRate kPatchRates[kSkinny] = {rate_of<LargeTile>(62, 58), rate_of<MediumTile>(62, 16),
                                                    rate_of<SmallTile>(41, 10)};

// Of blocks with so many terms each, all at once as far as a multiprocessor holds them.
inline double cycles_of_blocks(double blocks, double work, const ConfigRate& rate) {
  const double rounds = std::floor(blocks / rate.blocks), rest = blocks - rounds * rate.blocks;
  const double full = rounds * rate.blocks * work / std::min(rate.busy, rate.alone * rate.blocks);
  return full + (rest > 0 ? rest * work / std::min(rate.busy, rate.alone * rest) : 0);
}

inline double expected_cycles(const ProductShape& s, const ConfigRate& rate, std::int64_t chunk_leaves,
                              int processors) {
  constexpr double kStart = 2000, kSecondLaunch = 4000, kBytesPerCycle = 1200;
  const std::int64_t leaves = std::max<std::int64_t>(1, ceil_div(s.k, contract::kLeaf));
  const std::int64_t chunks = ceil_div(leaves, chunk_leaves);
  const auto items = static_cast<double>(chunks * s.batch * ceil_div(s.m, rate.rows) * ceil_div(s.n, rate.columns));
  const auto terms = static_cast<double>(std::min(s.k, chunk_leaves * contract::kLeaf));
  const double work = terms * rate.rows * rate.columns, blocks = std::ceil(items / processors);
  const double cycles = cycles_of_blocks(blocks, work, rate) + std::ceil(blocks / rate.blocks) * kStart;
  if (chunks == 1) return cycles;
  return cycles + kSecondLaunch + 8.0 * static_cast<double>(chunks * s.batch * s.m * s.n) / kBytesPerCycle;
}

[[nodiscard]] inline ProductPlan plan_product(const ProductShape& s, int processors, bool patches = false) {
  const int configs = patches ? kSkinny : kConfigs;
  const ConfigRate* const rates = patches ? kPatchRates : kRates;
  const ForcedPlan& forced = forced_product_plan();
  if (forced.tile >= 0) return {std::min(forced.tile, configs - 1), forced.chunk_leaves};
  constexpr std::int64_t kMostChunkBytes = std::int64_t{1} << 28;
  const std::int64_t leaves = ceil_div(s.k, contract::kLeaf);
  ProductPlan best;
  double least = std::numeric_limits<double>::infinity();
  for (int config = 0; config < configs; ++config) {
    if (rates[config].shared > shared_memory_limit()) continue;
    for (std::int64_t chunk = std::int64_t{1} << 21; chunk > 0; chunk /= 2) {
      if (chunk / 2 >= leaves && chunk > 1) continue;  // the same single chunk
      const std::int64_t bytes = ceil_div(leaves, chunk) * s.batch * s.m * s.n * 4;
      if (chunk < leaves && leaves <= std::int64_t{1} << 21 && bytes > kMostChunkBytes) break;
      const double cycles = expected_cycles(s, rates[config], chunk, processors);
      if (cycles >= least) continue;
      least = cycles;
      best = {config, chunk};
    }
  }
  return best;
}

}  // namespace isobit::kernels::ISOBIT_CUDA
