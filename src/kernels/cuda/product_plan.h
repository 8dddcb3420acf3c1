// Which tile, and how many chunks of k, are expected to take least time. Host code, no bits depend on it.
//
// Model, in cycles: a multiprocessor that is full does `busy` fused multiply-adds a cycle with this tile, one
// that holds a single block does `alone`; a block costs a start, a split a second launch and the chunks'
// way through memory. Private to this folder.
#pragma once

#include <algorithm>
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
};
template <class Config>
constexpr ConfigRate rate_of(double busy, double alone) {
  return {Config::kRows, Config::kColumns, Config::kBlocks, busy, alone};
}
inline constexpr ConfigRate kRates[kConfigs] = {rate_of<LargeTile>(115, 70), rate_of<MediumTile>(90, 30),
                                                rate_of<SmallTile>(45, 12), rate_of<SkinnyTile>(40, 16)};

inline double expected_cycles(const ProductShape& s, const ConfigRate& rate, std::int64_t chunk_leaves,
                              int processors) {
  constexpr double kStart = 2000, kSecondLaunch = 4000, kBytesPerCycle = 2500;
  const std::int64_t leaves = std::max<std::int64_t>(1, ceil_div(s.k, contract::kLeaf));
  const std::int64_t chunks = ceil_div(leaves, chunk_leaves);
  const auto items = static_cast<double>(chunks * s.batch * ceil_div(s.m, rate.rows) * ceil_div(s.n, rate.columns));
  const auto terms = static_cast<double>(std::min(s.k, chunk_leaves * contract::kLeaf));
  const double work = terms * rate.rows * rate.columns;
  const double per_processor = std::ceil(items / processors), waves = std::ceil(per_processor / rate.blocks);
  const double cycles = std::max(per_processor * work / rate.busy, waves * work / rate.alone) + waves * kStart;
  if (chunks == 1) return cycles;
  return cycles + kSecondLaunch + 8.0 * static_cast<double>(chunks * s.batch * s.m * s.n) / kBytesPerCycle;
}

// Among the first `configs` tiles.
[[nodiscard]] inline ProductPlan plan_product(const ProductShape& s, int processors, int configs = kConfigs) {
  const ForcedPlan& forced = forced_product_plan();
  if (forced.tile >= 0) return {std::min(forced.tile, configs - 1), forced.chunk_leaves};
  constexpr std::int64_t kMostChunkBytes = std::int64_t{1} << 28;
  const std::int64_t leaves = ceil_div(s.k, contract::kLeaf);
  ProductPlan best;
  double least = std::numeric_limits<double>::infinity();
  for (int config = 0; config < configs; ++config) {
    for (std::int64_t chunk = std::int64_t{1} << 21; chunk > 0; chunk /= 2) {
      if (chunk / 2 >= leaves && chunk > 1) continue;  // the same single chunk
      const std::int64_t bytes = ceil_div(leaves, chunk) * s.batch * s.m * s.n * 4;
      if (chunk < leaves && leaves <= std::int64_t{1} << 21 && bytes > kMostChunkBytes) break;
      const double cycles = expected_cycles(s, kRates[config], chunk, processors);
      if (cycles >= least) continue;
      least = cycles;
      best = {config, chunk};
    }
  }
  return best;
}

}  // namespace isobit::kernels::ISOBIT_CUDA
